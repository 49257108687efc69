# SPDX-License-Identifier: Apache-2.0
"""Batches: independent of their split, restorable to the last bit, clear about bad input."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.envs import native
from holdfast.envs.acting import Actor, Normaliser
from holdfast.envs.base import VecEnv
from holdfast.envs.native.batch.lockstep import LockstepEnv
from holdfast.envs.native.worlds.cost_terms import select
from holdfast.envs.rollout import Rollout

FAMILIES = (
    "SafetyHalfCheetahVelocity-v1", "SafetyHumanoidVelocity-v1", "SafetyPointGoal2-v0",
    "SafetyCarButton1-v0", "SafetyRacecarCircle1-v0", "SafetyAntGoal1-v0", "SafetyDoggoPush2-v0",
)  # fmt: skip


def actor_for(env: LockstepEnv, seed: int = 0) -> Actor:
    rng = np.random.default_rng(seed)
    size, actions = env.observation_space.shape[0], env.action_space.shape[0]
    sizes = (size, 64, 64, actions)
    layers = tuple(
        (
            (rng.standard_normal((a, b)) / np.sqrt(a)).astype(np.float32),
            rng.standard_normal(b).astype(np.float32),
        )
        for a, b in itertools.pairwise(sizes)
    )
    seen = Normaliser(rng.standard_normal(size), np.full(size, 4.0), 1.0)
    return Actor(layers, np.full(actions, 0.5, np.float32), normaliser=seen)


def noise_for(env: VecEnv, steps: int, seed: int = 1) -> np.ndarray:
    shape = (steps, env.num_envs, env.action_space.shape[0])  # type: ignore[index]
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("env_id", FAMILIES)
def test_batches_conform(env_id: str) -> None:
    env = native.make(env_id, 2)
    assert isinstance(env, VecEnv)
    obs = env.reset(0)
    assert obs.shape == (2, *env.observation_space.shape)
    assert all(env.observation_space.contains(row) for row in obs)
    with pytest.raises(ValueError, match="before its first reset"):
        native.make(env_id, 1).step(np.zeros((1, *env.action_space.shape)))


@pytest.mark.parametrize("env_id", FAMILIES)
def test_a_row_does_not_depend_on_the_others(env_id: str) -> None:
    """Seven environments together, as 1 + 3 + 3, and one by one in lockstep and as an epoch."""
    whole = native.make(env_id, 7)
    whole.reset(3)
    noise = noise_for(whole, 25)
    expected = whole.collect(actor_for(whole), noise)
    shares = []
    for first, count in ((0, 1), (1, 3), (4, 3)):
        part = native.make(env_id, count)
        part.reset(3 + first)
        share = part.collect(actor_for(part), noise[:, first : first + count])
        np.testing.assert_array_equal(share.next_obs, expected.next_obs[:, first : first + count])
        shares.append(share.to_arrays())
    assert_same(Rollout.join(shares).to_arrays(), expected.to_arrays())


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_change_nothing(workers: int) -> None:
    env_id = "SafetyCarButton1-v0"
    one, many = native.make(env_id, 4), native.make(env_id, 4, workers=workers)
    try:
        np.testing.assert_array_equal(one.reset(5), many.reset(5))
        noise, actor = noise_for(one, 70), actor_for(one)
        seen: list[int] = []
        here, there = one.collect(actor, noise), many.collect(actor, noise, seen.append)
        assert_same(here.to_arrays(), there.to_arrays())
        assert seen == [64 * 4]  # environment steps of the whole batch
        assert_same(one.snapshot(), many.snapshot())
        action = np.zeros((4, 2))
        step, other = one.step(action), many.step(action)
        np.testing.assert_array_equal(step.next_obs, other.next_obs)
        np.testing.assert_array_equal(one.observation, many.observation)
        saved = one.snapshot()
        one.collect(actor, noise)
        many.restore(saved)
        one.restore(saved)
        assert_same(
            one.collect(actor, noise[:9]).to_arrays(), many.collect(actor, noise[:9]).to_arrays()
        )
        with pytest.raises(ValueError, match="expected \\(4, 2\\)"):
            many.step(np.zeros((4, 3)))
    finally:
        many.close()
    with pytest.raises(RuntimeError, match="is closed"):
        many.reset(0)


@pytest.mark.parametrize("env_id", FAMILIES)
def test_a_restored_future_is_the_same(env_id: str) -> None:
    """Across ends of episodes and new goals, into the same batch and into a fresh one."""
    env = native.make(env_id, 2)
    env.reset(1)
    actor, noise = actor_for(env), noise_for(env, 40)
    env.collect(actor, noise)
    env._steps[:] = env.simulation.time_limit - 15  # pyright: ignore
    saved = {name: array.copy() for name, array in env.snapshot().items()}
    future = env.collect(actor, noise)
    assert (future.truncated | future.terminated).any()
    for other in (env, native.make(env_id, 2)):
        np.testing.assert_array_equal(other.restore(saved), saved["obs"])
        assert_same(future.to_arrays(), other.collect(actor, noise).to_arrays())
    with pytest.raises(ValueError, match="2 environments, this batch 3"):
        native.make(env_id, 3).restore(saved)


def test_an_ended_episode_keeps_its_true_successor() -> None:
    env = native.make("SafetyHopperVelocity-v1", 4)
    obs = env.reset(0)
    for _ in range(200):
        step = env.step(np.ones((4, 3), np.float32))
        ended = step.terminated | step.truncated
        np.testing.assert_array_equal(step.obs[~ended], step.next_obs[~ended])
        if ended.any():
            break
        obs = step.obs
    assert ended.any()
    gap = np.abs(step.next_obs - obs)[ended].max()
    assert gap < np.abs(step.obs - obs)[ended].max()


def test_time_limits() -> None:
    env = native.make("SafetyPointCircle0-v0", 1)
    env.reset(0)
    flags = [env.step(np.zeros((1, 2))).truncated[0] for _ in range(501)]
    assert np.flatnonzero(flags).tolist() == [499]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SafetyPointGoal3-v0", 1), "did you mean 'SafetyPointGoal"),
        (("SafetyPointGoal1-v0", 0), "num_envs=0"),
    ],
)
def test_bad_requests(arguments: tuple[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        native.make(*arguments)


def test_bad_actions_and_seeds() -> None:
    env = native.make("SafetyPointGoal1-v0", 2)
    with pytest.raises(ValueError, match="must not be negative"):
        env.reset(-1)
    with pytest.raises(ValueError, match="below 2\\*\\*32"):
        env.reset(2**32)
    env.reset(0)
    with pytest.raises(ValueError, match=r"shape \(2,\), expected \(2, 2\)"):
        env.step(np.zeros(2))
    with pytest.raises(ValueError, match=r"not finite \(first row 1\)"):
        env.step(np.array([[0, 0], [0, np.nan]]))
    with pytest.raises(ValueError, match="noise of shape"):
        env.collect(actor_for(env), np.zeros((3, 1, 2), np.float32))
    with pytest.raises(ValueError, match="workers=-1"):
        native.make("SafetyPointGoal1-v0", 2, workers=-1)


def test_constraints_by_name() -> None:
    names = ("hazards", "vases", "cost")
    env = native.make("SafetyPointGoal2-v0", 3, constraints=names)
    env.reset(0)
    assert env.cost_names == names
    costs = np.zeros((3, 4))
    costs[1, 3], costs[2, 1] = 1, np.nan
    costs[1, 0] = 1
    selected = select(costs, env._behind)  # pyright: ignore
    np.testing.assert_array_equal(selected, [[0, 0, 0], [0, 1, 1], [0, 0, 0]])
    with pytest.raises(ValueError, match="did you mean 'hazards'"):
        native.make("SafetyPointGoal1-v0", 1, constraints=("hazard",))
    with pytest.raises(ValueError, match="offers cost, velocity"):
        native.make("SafetyAntVelocity-v1", 1, constraints=("hazards",))
    with pytest.raises(ValueError, match="without a constraint"):
        native.make("SafetyAntVelocity-v1", 1, constraints=())
    with pytest.raises(ValueError, match="twice"):
        native.make("SafetyAntVelocity-v1", 1, constraints=("cost", "cost"))


def test_an_interrupted_epoch_closes_the_batch_and_an_error_does_not() -> None:
    env = native.make("SafetyPointGoal1-v0", 2, workers=2)
    env.reset(0)
    saved = env.snapshot()
    with pytest.raises(ValueError, match="simulator states of shape"):
        env.restore(saved | {"state": saved["state"][:, 1:]})
    np.testing.assert_array_equal(env.restore(saved), saved["obs"])

    def stop(steps: int) -> None:
        raise KeyboardInterrupt

    actor = actor_for(native.make("SafetyPointGoal1-v0", 1))
    with pytest.raises(KeyboardInterrupt):
        env.collect(actor, noise_for(env, 200), stop)
    with pytest.raises(RuntimeError, match="is closed"):
        env.snapshot()


def test_a_lost_worker_is_reported() -> None:
    env = native.make("SafetyPointGoal1-v0", 2, workers=2)
    env.reset(0)
    env._peers[1].process.kill()  # pyright: ignore
    with pytest.raises(RuntimeError, match="of environment 1 of SafetyPointGoal1-v0 ended"):
        env.step(np.zeros((2, 2)))


SCRIPT = """
import sys
from holdfast.envs import native
env = native.make("SafetyPointGoal1-v0", 2, workers=2)
env.reset(0)
print(*[peer.process.pid for peer in env._peers], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_workers_do_not_outlive_a_killed_parent() -> None:
    source = str(Path(native.__file__).parents[3])
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )
    with parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]  # type: ignore[union-attr]
        assert len(workers) == 2
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}/cmdline").exists() and running(pid) for pid in workers):
            assert time.monotonic() < deadline, "a worker outlived its parent"
            time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_ids_and_policies_load_no_simulator() -> None:
    code = (
        "import sys; from holdfast.envs.native import NATIVE_IDS; "
        "from holdfast.envs.acting import Actor; "
        "assert len(NATIVE_IDS) == 77; print([m for m in ('mujoco', 'jax') if m in sys.modules])"
    )
    source = str(Path(native.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert done.stdout.strip() == "[]"
