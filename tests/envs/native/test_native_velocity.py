# SPDX-License-Identifier: Apache-2.0
"""Velocity tasks against recorded transitions of the original, and against hand calculation."""

from typing import Any

import mujoco
import native_golden
import numpy as np
import pytest

from holdfast.envs import native
from holdfast.envs.native import engine
from holdfast.envs.native.batch.velocity import VelocitySimulation
from holdfast.envs.native.worlds.velocity_tasks import RUNNERS, VELOCITY_TASKS

PAPER = tuple(f"Safety{robot}Velocity-v1" for robot in ("Ant", "HalfCheetah", "Humanoid", "Hopper"))
SIZES = {
    "Ant": (27, 8), "HalfCheetah": (17, 6), "Humanoid": (376, 17),
    "Hopper": (11, 3), "Walker2d": (17, 6), "Swimmer": (8, 2),
}  # fmt: skip
EXACT = (1e-12, 1e-12)
# Errors of (qpos, reward) after one step. Humanoid's PGS solver stops after 50 iterations
# and so amplifies differences between engines; MuJoCo 4 integrates free joints differently.
TOLERANCE = {
    (3, 3): {"SafetyHumanoidVelocity-v1": (2e-6, 2e-6)},
    (3, 99): {"SafetyHumanoidVelocity-v1": (3e-6, 2e-6), "SafetyAntVelocity-v1": (1e-8, 2e-7)},
    (4, 99): {"SafetyHumanoidVelocity-v1": (3e-4, 4e-4), "SafetyAntVelocity-v1": (4e-3, 2e-2)},
}
OTHER_INTEGRATOR = engine.VERSION >= (4, 0)


def tolerance(task: str) -> tuple[float, float]:
    """The agreement that this engine allows."""
    by_task = next(t for version, t in TOLERANCE.items() if engine.VERSION <= version)
    return by_task.get(task, EXACT)


def skip_if_integrated_differently(task: str) -> None:
    if OTHER_INTEGRATOR and ("Ant" in task or "Humanoid" in task):
        pytest.skip("MuJoCo 4 integrates free joints differently")


def replay(
    golden: dict[str, Any], prefix: str, gravity: float = 1.0
) -> tuple[VelocitySimulation, Any]:
    """One step from every recorded state, all rows as one batch."""
    task = golden["meta"]["task"]
    rows = {key[2:]: value for key, value in golden.items() if key.startswith(prefix)}
    batch = VelocitySimulation(VELOCITY_TASKS[task], len(rows["qpos"]))
    batch.model.opt.gravity[2] *= gravity
    for i, data in enumerate(batch.datas):
        data.qpos[:], data.qvel[:] = rows["qpos"][i], rows["qvel"][i]
        data.qacc_warmstart[:], data.time = rows["qacc_warmstart"][i], rows["time"][i]
    saved = batch.save() | {"place": rows["xy_before"]}
    batch.load(saved)
    return batch, (rows, batch.advance(rows["action"]))


@pytest.mark.parametrize("seed", native_golden.SEEDS)
@pytest.mark.parametrize("task", PAPER)
def test_reset_equals_the_original(task: str, seed: int) -> None:
    golden = native_golden.load(task, seed)
    env = native.make(task, 1)
    np.testing.assert_allclose(env.reset(seed)[0], golden["reset_obs"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", native_golden.SEEDS)
@pytest.mark.parametrize("task", PAPER)
def test_single_steps_equal_the_original(task: str, seed: int) -> None:
    golden = native_golden.load(task, seed)
    for prefix in ("t_", "s_") if seed == 11 else ("t_",):
        batch, (rows, outcome) = replay(golden, prefix)
        position, reward = tolerance(task)
        qpos = np.array([data.qpos for data in batch.datas])
        qvel = np.array([data.qvel for data in batch.datas])
        np.testing.assert_allclose(qpos, rows["next_qpos"], rtol=0, atol=position)
        np.testing.assert_allclose(qvel, rows["next_qvel"], rtol=0, atol=1e3 * position)
        place = np.array(batch.save()["place"])
        np.testing.assert_allclose(place, rows["xy_after"], rtol=0, atol=position)
        np.testing.assert_allclose(outcome.reward, rows["reward"], rtol=0, atol=reward)
        np.testing.assert_array_equal(outcome.costs[:, 0], rows["cost"])
        np.testing.assert_array_equal(outcome.terminated, rows["terminated"])
        for i in range(0, len(qpos), 17):
            for key, value in batch.info(i).items():
                assert value == pytest.approx(rows[f"info_{key}"][i], abs=max(1e-5, reward)), key


@pytest.mark.parametrize("task", PAPER)
def test_the_recordings_tell_a_slightly_different_world(task: str) -> None:
    """Control: gravity off by a hundredth is far outside the tolerance."""
    skip_if_integrated_differently(task)
    batch, (rows, _) = replay(native_golden.load(task, 23), "t_", gravity=1.01)
    qpos = np.array([data.qpos for data in batch.datas])
    assert np.abs(qpos - rows["next_qpos"]).max() > 10 * tolerance(task)[0]


@pytest.mark.parametrize("task", PAPER)
def test_equal_states_are_judged_equally(task: str) -> None:
    """Reward, cost and end apart from physics: the recorded successor is put in place."""
    golden = native_golden.load(task, 11)
    for prefix in ("t_", "s_"):
        batch, (rows, _) = replay(golden, prefix)
        gathered = batch._rows  # pyright: ignore[reportPrivateUsage]
        nq, nv = batch.model.nq, batch.model.nv
        gathered[:, :nq], gathered[:, nq : nq + nv] = rows["next_qpos"], rows["next_qvel"]
        if batch.robot.position == "torso":
            gathered[:, -2:] = rows["xy_after"]
        elif batch.robot.position == "mass centre":
            bodies = gathered[:, -3 * batch.model.nbody :].reshape(len(gathered), -1, 3)
            bodies[:, :, :2] = rows["xy_after"][:, None]
        batch.load(batch.save() | {"place": rows["xy_before"]})
        outcome = batch.assess(rows["action"])
        np.testing.assert_allclose(outcome.reward, rows["reward"], rtol=0, atol=1e-10)
        np.testing.assert_array_equal(outcome.costs[:, 0], rows["cost"])
        np.testing.assert_array_equal(outcome.terminated, rows["terminated"])
        width = nq + nv - batch.robot.hidden
        np.testing.assert_allclose(
            outcome.obs[:, :width], rows["obs"][:, :width], rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("task", PAPER)
def test_observation_of_equal_states_equals_the_original(task: str) -> None:
    skip_if_integrated_differently(task)
    golden = native_golden.load(task, 11)
    _, (rows, outcome) = replay(golden, "t_")
    if task == "SafetyHumanoidVelocity-v1":  # contact forces carry the solver's differences
        width = 22 + 23 + 14 * 16
        np.testing.assert_allclose(outcome.obs[:, :width], rows["obs"][:, :width], atol=2e-3)
        error = np.abs(outcome.obs - rows["obs"]).max(1)
        assert np.median(error) < 1e-6
    else:
        np.testing.assert_allclose(outcome.obs, rows["obs"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", native_golden.SEEDS)
@pytest.mark.parametrize("task", PAPER)
def test_later_episodes_continue_the_random_stream(task: str, seed: int) -> None:
    golden = native_golden.load(task, seed)
    starts = np.flatnonzero(golden["t_episode_start"])
    batch = VelocitySimulation(VELOCITY_TASKS[task], 1)
    batch.seed(np.array([seed]))
    for start in starts:
        batch.restart(np.array([0]))
        np.testing.assert_allclose(batch.datas[0].qpos, golden["t_qpos"][start], atol=1e-15)
        np.testing.assert_allclose(batch.datas[0].qvel, golden["t_qvel"][start], atol=1e-15)


@pytest.mark.parametrize("task", PAPER)
def test_consecutive_steps_follow_the_original(task: str) -> None:
    """Lagging positions and automatic resets included, as long as chaos allows."""
    skip_if_integrated_differently(task)
    golden = native_golden.load(task, 11)
    env = native.make(task, 1)
    env.reset(11)
    for row in range(40):
        step = env.step(golden["t_action"][row : row + 1])
        assert step.reward[0] == pytest.approx(golden["t_reward"][row], abs=2e-3)
        assert step.cost[0, 0] == golden["t_cost"][row]
        assert step.terminated[0] == golden["t_terminated"][row]


@pytest.mark.parametrize("task", PAPER)
def test_random_episodes_have_the_original_statistics(task: str) -> None:
    """Twenty seeds as recorded; chaotic runs differ, their means must not."""
    golden = native_golden.statistics(task)
    seeds = np.array(golden["seeds"])
    env = native.make(task, len(seeds))
    env.reset(int(seeds[0]))
    actions = native_golden.random_actions(env.action_space, seeds, 500)
    alive, returns = np.ones(len(seeds), bool), np.zeros(len(seeds))
    costs, lengths = np.zeros(len(seeds)), np.zeros(len(seeds))
    for t in range(1000):
        step = env.step(actions[t // 2])
        returns += alive * step.reward
        costs += alive * step.cost[:, 0]
        lengths += alive
        alive &= ~(step.terminated | step.truncated)
        if not alive.any():
            break
    for ours, key in ((returns, "returns"), (costs, "costs"), (lengths, "lengths")):
        theirs = np.array(golden[key])
        spread = np.hypot(ours.std(), theirs.std()) / np.sqrt(len(seeds))
        assert abs(ours.mean() - theirs.mean()) <= 3 * spread + 1e-9, key


@pytest.mark.parametrize("env_id", VELOCITY_TASKS)
def test_sizes_and_bounds(env_id: str) -> None:
    env = native.make(env_id, 2)
    robot = VELOCITY_TASKS[env_id].robot
    obs, action = SIZES[robot]
    assert env.observation_space.shape == (obs,)
    assert env.action_space.shape == (action,)
    assert env.action_space.dtype == np.float32
    np.testing.assert_allclose(env.action_space.high, 0.4 if robot == "Humanoid" else 1.0)
    assert env.cost_names == ("cost",)
    assert env.reset(3).shape == (2, obs)


@pytest.mark.parametrize("env_id", VELOCITY_TASKS)
def test_one_transition_by_hand(env_id: str) -> None:
    """Reward and cost of a step, recomputed from a simulator stepped apart from ours."""
    task = VELOCITY_TASKS[env_id]
    robot, batch = RUNNERS[task.robot], VelocitySimulation(task, 1)
    batch.seed(np.array([5]))
    batch.restart(np.array([0]))
    model, data = batch.model, mujoco.MjData(batch.model)
    data.qpos[:], data.qvel[:] = batch.datas[0].qpos, batch.datas[0].qvel
    mujoco.mj_forward(model, data)
    weight = model.body_mass / model.body_mass.sum()
    where = {
        "root": lambda: data.qpos[:2].copy() * (1, robot.planar),
        "torso": lambda: data.xpos[1, :2].copy(),
        "mass centre": lambda: weight @ data.xipos[:, :2],
    }[robot.position]
    action = np.full((1, model.nu), 0.25)
    before = where()
    data.ctrl[:] = action
    mujoco.mj_step(model, data, robot.frame_skip)
    vx, vy = (where() - before) / (model.opt.timestep * robot.frame_skip)
    outcome = batch.advance(action)
    expected = robot.forward * vx + robot.bonus - robot.control_cost * 0.0625 * model.nu
    assert outcome.reward[0] == pytest.approx(expected, abs=1e-12)
    speed = np.hypot(vx, vy) if task.sideways else vx
    assert outcome.costs[0, 0] == float(speed > task.threshold)
