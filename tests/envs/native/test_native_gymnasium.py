# SPDX-License-Identifier: Apache-2.0
"""Native tasks as Gymnasium environments: registered, checked, vectorised, drawn."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from holdfast.envs import native
from holdfast.envs.native import TIME_LIMITS
from holdfast.envs.native.gym import render
from holdfast.envs.native.gym.envs import SafetyEnv, SixTuple
from holdfast.envs.native.worlds.robots import ROBOTS
from holdfast.envs.native.worlds.tasks import NAVIGATION_TASKS, ROBOT_NAMES
from holdfast.envs.native.worlds.velocity_tasks import VELOCITY_TASKS

SOME = (
    "SafetyHopperVelocity-v1", "SafetyPointGoal2-v0", "SafetyCarButton1-v0",
    "SafetyRacecarCircle1-v0", "SafetyAntPush1-v0", "SafetyDoggoRun0-v0",
)  # fmt: skip


def test_the_registry_lists_exactly_the_native_ids() -> None:
    assert set(TIME_LIMITS) == set(native.NATIVE_IDS) == {*VELOCITY_TASKS, *NAVIGATION_TASKS}
    assert len(native.NATIVE_IDS) == 12 + 5 * 13
    assert ROBOT_NAMES == tuple(ROBOTS)
    for env_id in SOME:
        assert native.describe(env_id).time_limit == TIME_LIMITS[env_id]


@pytest.mark.parametrize("env_id", SOME)
def test_gymnasium_s_checker_is_content(env_id: str) -> None:
    env = gym.make(f"holdfast/{env_id}").unwrapped
    with warnings.catch_warnings():
        # by nature: unbounded sensors, controls in physical units
        warnings.filterwarnings("ignore", message=".*(infinity|symmetric and normalized).*")
        check_env(env, skip_render_check=True)


def test_five_values_with_named_costs() -> None:
    env = gym.make("holdfast/SafetyCarButton1-v0")
    obs, info = env.reset(seed=11)
    assert info == {}
    obs, reward, terminated, truncated, info = env.step(np.zeros(2))
    assert obs.shape == (88,)
    assert isinstance(reward, float)
    assert not (terminated or truncated)
    assert set(info) == {"cost", "cost_sum", "cost_buttons", "cost_hazards", "cost_gremlins"}
    other = native.make("SafetyCarButton1-v0", 1)
    other.reset(11)
    np.testing.assert_array_equal(obs, other.step(np.zeros((1, 2))).obs[0])


def test_the_time_limit_and_the_sixth_value() -> None:
    env = SixTuple(gym.make("holdfast/SafetyPointCircle1-v0"))
    env.reset(seed=0)
    for _ in range(500):
        _obs, _reward, cost, _terminated, truncated, info = env.step(np.zeros(2))
    assert truncated
    assert cost == info["cost"] == 0.0


def test_unseeded_resets_continue_the_stream() -> None:
    env = SafetyEnv("SafetyPointGoal1-v0")
    first, _ = env.reset(seed=4)
    second, _ = env.reset()
    again, _ = env.reset(seed=4)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)


def test_vectorised() -> None:
    env = gym.make_vec("holdfast/SafetyPointGoal1-v0", num_envs=3)
    obs, _ = env.reset(seed=2)
    single, _ = gym.make("holdfast/SafetyPointGoal1-v0").reset(seed=4)
    np.testing.assert_array_equal(obs[2], single)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert obs.shape == (3, 60)
    assert reward.shape == terminated.shape == truncated.shape == info["cost"].shape == (3,)
    np.testing.assert_array_equal(info["cost_hazards"], info["cost"])
    third, _ = env.reset(seed=[9, 9, 4])
    np.testing.assert_array_equal(third[0], third[1])
    np.testing.assert_array_equal(third[2], single)
    for _ in range(1000):
        _, _, _, truncated, info = env.step(np.zeros((3, 2)))
    assert truncated.all()
    assert info["final_obs"].shape == (3, 60)


def test_bad_input_is_refused_in_one_sentence() -> None:
    env = SafetyEnv("SafetyPointGoal1-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action of shape \(3,\), expected \(2,\)"):
        env.step(np.zeros(3))
    with pytest.raises(ValueError, match="not finite"):
        env.step(np.array([np.nan, 0]))
    with pytest.raises(ValueError, match="render_mode='ansi'"):
        SafetyEnv("SafetyPointGoal1-v0", render_mode="ansi")
    with pytest.raises(ValueError, match="did you mean 'SafetyPointGoal1-v0'"):
        SafetyEnv("SafetyPointGoal1-v1")
    assert env.render() is None


def drawable() -> bool:
    try:
        render.context(8, 8).free()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("env_id", ["SafetyCarButton1-v0", "SafetySwimmerVelocity-v1"])
def test_frames_show_the_world(env_id: str) -> None:
    if not drawable():
        pytest.skip("no OpenGL backend on this machine")
    env = gym.make(
        f"holdfast/{env_id}", render_mode="rgb_array", width=96, height=64, lidar_rings=True
    )
    env.reset(seed=0)
    first: Any = env.render()
    assert first.shape == (64, 96, 3)
    assert first.dtype == np.uint8
    assert first.std() > 5
    for _ in range(20):
        env.step(env.action_space.high)
    assert not np.array_equal(first, env.render())
    env.close()


def test_no_backend_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "candidates", lambda: ("nothing",))
    with pytest.raises(RuntimeError, match=r"no backend .* apt-get install libegl1"):
        render.context(8, 8)


def test_no_display_is_one_sentence() -> None:
    """In a process of its own, since a window system remembers its first failure."""
    code = (
        "import gymnasium, holdfast; "
        "gymnasium.make('holdfast/SafetyPointGoal1-v0', render_mode='human').reset()"
    )
    hidden = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    source = str(Path(native.__file__).parents[3])
    if sys.platform != "linux":
        pytest.skip("other systems always have a display")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=hidden | {"PYTHONPATH": source},
    )
    assert done.returncode == 1
    assert "render_mode='human' needs a display" in done.stderr.splitlines()[-1]


def test_descriptions() -> None:
    text = native.describe("SafetyCarButton1-v0")
    assert text.observation_size == 88
    assert text.constraints == ("cost", "hazards", "buttons", "gremlins")
    assert text.objects == (("buttons", 4), ("goal", 1), ("hazards", 4), ("gremlins", 4))
    assert text.seconds_per_step == pytest.approx(0.04)
    assert "4 gremlins" in str(text) and "limit         25 of each" in str(text)
    assert native.describe("SafetyHopperVelocity-v0").threshold == 0.37315
    assert native.describe("SafetyRacecarCircle2-v0").threshold == 1.125
    assert native.describe("SafetyRacecarGoal2-v0").action_high[0] == 20.0
