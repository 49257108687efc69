# SPDX-License-Identifier: Apache-2.0
"""Toy-text environments as exact CMDPs and back; CMDPs as files."""

import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from holdfast.tabular.cmdp import FiniteCMDP, toy, two_action_policy
from holdfast.tabular.cmdp_files import read_cmdp, write_cmdp
from holdfast.tabular.instances import gridworld, uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate
from holdfast.tabular.toy_text import CMDPEnv, from_gymnasium


def newest(name: str) -> str:
    """The latest registered version: Gymnasium warns about older ones."""
    return max(key for key in gym.registry if re.fullmatch(rf"{name}-v\d+", key))


@pytest.mark.parametrize(
    ("name", "states", "actions"),
    [("FrozenLake", 17, 4), ("CliffWalking", 49, 4), ("Taxi", 501, 6)],
)
def test_environments_become_cmdps(name: str, states: int, actions: int) -> None:
    cmdp = from_gymnasium(newest(name))
    assert cmdp.reward.shape == (states, actions) and cmdp.is_sparse
    found = evaluate(cmdp, uniform_policy(cmdp))
    assert found.cost_return[0] > 0.0
    assert optimum(cmdp).reward_return >= found.reward_return
    # The end state absorbs and is worth nothing.
    assert cmdp.reward[-1].tolist() == [0.0] * actions and abs(found.value_r[-1]) < 1e-10


def test_frozen_lake_by_hand() -> None:
    """One step of the uniform policy from the start, and a limit that binds."""
    cmdp = from_gymnasium("FrozenLake-v1", gamma=0.9)
    dense = cmdp.as_dense().transition
    np.testing.assert_allclose(dense[0, 0, [0, 4]], [2 / 3, 1 / 3])  # left: bounce, bounce, slip
    free = optimum(cmdp)
    assert free.cost_return[0] > 0.0
    tight = optimum(cmdp.with_limit(0.5 * float(free.cost_return[0])))
    assert tight.reward_return < free.reward_return
    assert tight.multiplier[0] > 0.0


def test_sampling_agrees_with_the_exact_values() -> None:
    """Discounted returns of CMDPEnv rollouts estimate V_r and V_c."""
    env, policy = CMDPEnv(toy()), two_action_policy(0.6, 0.4)
    env.reset(seed=3)
    rng = np.random.default_rng(3)
    totals = np.zeros((1500, 2))
    weight = 0.1 * 0.9 ** np.arange(60)
    for total in totals:
        state, _ = env.reset()
        for w in weight:
            state, reward, terminated, truncated, info = env.step(
                int(rng.random() > policy[state, 0])
            )
            assert not terminated and not truncated
            total += w * np.array([reward, info["cost"]])
    exact = evaluate(toy(), policy)
    error = totals.std(axis=0) / np.sqrt(len(totals))
    truth = np.array([exact.reward_return, exact.cost_return[0]])
    assert np.all(np.abs(totals.mean(axis=0) - truth) < 4 * error + 2 * 0.9**60)


def test_restart_keeps_every_state_alive() -> None:
    cmdp = from_gymnasium("FrozenLake-v1", restart=True)
    assert cmdp.num_states == 16
    assert np.asarray(cmdp.kernel.sum(axis=1)) == pytest.approx(1.0)


def test_environments_without_a_table_are_refused() -> None:
    env = gym.make("CartPole-v1")
    with pytest.raises(ValueError, match="no transition table"):
        from_gymnasium(env)
    env.close()


@pytest.mark.parametrize("cmdp", [toy(np.inf), gridworld("corridor")], ids=["dense", "sparse"])
def test_files_round_trip(tmp_path: Path, cmdp: FiniteCMDP) -> None:
    write_cmdp(cmdp, tmp_path / "x.json")
    back = read_cmdp(tmp_path / "x.json")
    assert back.is_sparse == cmdp.is_sparse and back.gamma == cmdp.gamma
    for name in ("reward", "cost", "cost_limit", "initial"):
        np.testing.assert_array_equal(getattr(back, name), getattr(cmdp, name))
    np.testing.assert_array_equal(back.as_dense().transition, cmdp.as_dense().transition)


def test_files_say_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{")
    with pytest.raises(ValueError, match="not valid JSON"):
        read_cmdp(file)
    file.write_text(json.dumps({"gamma": 0.9}))
    with pytest.raises(ValueError, match="lacks reward"):
        read_cmdp(file)
    write_cmdp(gridworld("corridor"), file)
    data = json.loads(file.read_text())
    for column, wrong in ((2, 99), (0, -1), (1, 0.5)):
        broken = json.loads(json.dumps(data))
        broken["entries"][5][column] = wrong
        file.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=r"entries\[5\] = .* points outside"):
            read_cmdp(file)
