# SPDX-License-Identifier: Apache-2.0
"""The whole navigation suite against the tables that define it, and one step by hand of each."""

import numpy as np
import pytest

from holdfast.envs import native
from holdfast.envs.native.batch.navigation import NavigationSimulation
from holdfast.envs.native.engine import mujoco
from holdfast.envs.native.worlds import cost_terms, layout, observe, rewards, world
from holdfast.envs.native.worlds.robots import ROBOTS, level_for
from holdfast.envs.native.worlds.tasks import LEVELS, NAVIGATION_TASKS

SENSORS = {"Point": 12, "Racecar": 12, "Car": 24, "Ant": 40, "Doggo": 56}
RINGS = {
    "Goal": (1, 3, 3),
    "Push": (2, 4, 4),
    "Button": (2, 4, 4),
    "Circle": (1, 1, 1),
    "Run": (0,),
}
MASS = {
    "Point": 0.00518879, "Car": 0.0304450, "Racecar": 2.1560718, "Ant": 0.0142325,
    "Doggo": 0.0198385,
}  # fmt: skip
SIZES = {
    "Point": (3, 3, 2), "Car": (13, 11, 2), "Racecar": (12, 11, 2), "Ant": (15, 14, 8),
    "Doggo": (20, 19, 12),
}  # fmt: skip
BOUNDS = {
    "Point": [1] * 2,
    "Car": [1] * 2,
    "Racecar": [20, 0.785],
    "Ant": [1] * 8,
    "Doggo": [1] * 12,
}
COSTS = {
    "Goal": ((), ("hazards",), ("hazards", "vases_contact", "vases_velocity")),
    "Push": ((), ("hazards",), ("hazards", "pillars")),
    "Button": ((), ("buttons", "hazards", "gremlins"), ("buttons", "hazards", "gremlins")),
    "Circle": ((), ("out_of_boundary",), ("out_of_boundary",)),
    "Run": (("out_of_boundary",),),
}


@pytest.mark.parametrize("env_id", NAVIGATION_TASKS)
def test_sizes_bounds_and_costs(env_id: str) -> None:
    robot, level = NAVIGATION_TASKS[env_id]
    task, number = level[:-1], int(level[-1])
    env = native.make(env_id, 1)
    assert env.observation_space.shape == (SENSORS[robot] + 16 * RINGS[task][number],)
    bounds = np.array(BOUNDS[robot], np.float32)
    np.testing.assert_array_equal(env.action_space.high, bounds)
    np.testing.assert_array_equal(env.action_space.low, -bounds)
    assert env.action_space.dtype == np.float64
    expected = tuple(f"cost_{name}" for name in COSTS[task][number])
    assert env.simulation.cost_keys == ("cost_sum", *expected)
    assert env.simulation.time_limit == (500 if task in ("Circle", "Run") else 1000)


@pytest.mark.parametrize("robot", ROBOTS)
def test_robots_are_those_of_the_tables(robot: str) -> None:
    model = world.build(robot, level_for(robot, "Goal0"))
    assert (model.nq, model.nv, model.nu) == SIZES[robot]
    assert model.body_subtreemass[1] == pytest.approx(MASS[robot], rel=1e-6)
    assert model.opt.timestep == ROBOTS[robot].timestep
    rk4 = model.opt.integrator == int(mujoco.mjtIntegrator.mjINT_RK4)
    assert rk4 == (robot in ("Racecar", "Ant"))
    assert (model.geom_condim == 6).all()
    assert (model.geom_margin == 0).all()


def test_car_masses() -> None:
    model = world.build("Car", level_for("Car", "Goal0"))
    np.testing.assert_allclose(
        model.body_mass[1:], [0.0239, 0.0019635, 0.0019635, 0.002618], rtol=3e-5
    )
    assert model.actuator_forcerange.tolist() == [[-0.02, 0.02]] * 2


def test_ant_joints_and_start() -> None:
    batch = NavigationSimulation("Ant", "Goal0", 1)
    model = batch.physics.full[0]
    ranges = model.jnt_range[1:]
    assert ranges[0::2].tolist() == [[-0.7, 0.7]] * 4
    legs = [[0.52, 1.74], [-1.74, -0.52], [-1.74, -0.52], [0.52, 1.74]]
    assert ranges[1::2].tolist() == legs
    batch.seed(np.array([7]))
    batch.restart(np.array([0]))
    angles = batch.physics.datas[0].qpos[7:]
    assert (np.abs(angles[0::2]) <= 0.1).all()
    signs = np.array([1, -1, -1, 1])
    assert (np.abs(signs * angles[1::2] - np.pi / 2) <= 0.1).all()
    generator = np.random.RandomState(7)
    layout.sample(generator, batch.plan)
    places = batch.layout[0].copy()
    layout.draw_goal(generator, batch.plan, 1, places)
    noise = generator.uniform(-0.1, 0.1, 8)
    rest = np.array([0, np.pi / 2] * 4) + noise
    rest[[3, 5]] *= -1
    np.testing.assert_allclose(angles, rest, atol=1e-15)


def test_doggo_joints_and_feet() -> None:
    batch = NavigationSimulation("Doggo", "Goal0", 1)
    model = batch.physics.full[0]
    names = [model.joint(i).name for i in range(1, model.njnt)]
    leg = [[f"{joint}_{i}" for joint in ("hip_z", "hip_y", "ankle")] for i in (1, 2, 3, 4)]
    assert names == [*leg[0], *leg[3], "waist", *leg[1], *leg[2]]
    assert model.nu == 12
    np.testing.assert_allclose(model.actuator_gear[:, 0], 0.00625)
    np.testing.assert_allclose(model.dof_armature[6:], 5e-5)
    batch.seed(np.array([0]))
    obs = batch.restart(np.array([0]))
    assert obs.shape == (1, 72)
    np.testing.assert_allclose(obs[0, 32:56:2] ** 2 + obs[0, 33:56:2] ** 2, 1, atol=1e-12)


@pytest.mark.parametrize("robot", ["Car", "Doggo", "Ant"])
def test_sensors_follow_from_the_state(robot: str) -> None:
    """Gyro, velocimeter and magnetometer recomputed from qpos and qvel alone."""
    batch = NavigationSimulation(robot, "Goal1", 3)
    batch.seed(np.arange(3))
    batch.restart(np.arange(3))
    for _ in range(5):
        outcome = batch.advance(np.full((3, batch.physics.control_range.shape[1]), 0.3))
    for i, data in enumerate(batch.physics.datas):
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, data.qpos[3:7])
        rotation = matrix.reshape(3, 3)
        spin = data.qvel[3:6]
        arm = np.array(ROBOTS[robot].site)
        velocity = rotation.T @ data.qvel[:3] + np.cross(spin, arm)
        own = outcome.obs[i]
        np.testing.assert_allclose(own[3:6], velocity, atol=1e-9)
        np.testing.assert_allclose(own[6:9], spin, atol=1e-9)
        np.testing.assert_allclose(own[9:12], rotation.T @ (0, -0.5, 0), atol=1e-9)
        if robot == "Ant":
            height = data.qpos[2] + (rotation @ arm)[2]
            assert own[20] == pytest.approx(height, abs=1e-9)
            np.testing.assert_allclose(own[21:24], rotation @ spin, atol=1e-9)
            np.testing.assert_allclose(own[12:20], data.qvel[6:14], atol=1e-12)
            np.testing.assert_allclose(own[24:40:2], np.sin(data.qpos[7:15]), atol=1e-12)


@pytest.mark.parametrize("env_id", NAVIGATION_TASKS)
def test_one_transition_by_hand(env_id: str) -> None:
    """Reward, cost and lidar of a step recomputed from the simulator's own positions."""
    robot, level_name = NAVIGATION_TASKS[env_id]
    batch = NavigationSimulation(robot, level_name, 1)
    batch.seed(np.array([21]))
    batch.restart(np.array([0]))
    model, data, level = batch.physics.full[0], batch.physics.datas[0], batch.level
    before = data.body("agent").xpos.copy()
    places = {name: batch.layout[0, where].copy() for name, where in batch.plan.slices.items()}
    outcome = batch.advance(np.full((1, model.nu), 0.7))
    after, xmat = data.body("agent").xpos.copy(), data.body("agent").xmat.reshape(3, 3)
    x, y = after[:2]

    def far(point: np.ndarray, place: np.ndarray) -> float:
        return float(np.hypot(*(point[:2] - place)))

    if level.reward in ("goal", "button"):
        goal = places["goal"][0]
        expected = far(before, goal) - far(after, goal)
    elif level.reward == "push":
        goal = np.array([*places["goal"][0], 0.16])
        size = ROBOTS[robot].box
        start, box = np.array([*places["push_box"][0], size]), data.body("push_box0").xpos
        norm = np.linalg.norm
        expected = norm(before - start) - norm(after - box) + norm(start - goal) - norm(box - goal)
    elif level.reward == "run":
        expected = 60 * (np.hypot(before[0], before[1] + 1000) - np.hypot(x, y + 1000))
    else:
        jacobian = np.zeros((3, model.nv))
        mujoco.mj_jacBody(model, data, jacobian, None, mujoco.mj_name2id(model, 1, "agent"))
        u, v, _ = jacobian @ data.qvel
        r = np.hypot(x, y)
        expected = 0.1 * (-u * y + v * x) / r / (1 + abs(r - 1.5))
    assert outcome.reward[0] == pytest.approx(expected, abs=1e-9)
    cost = dict(zip(batch.cost_keys, outcome.costs[0], strict=True))
    if "hazards" in places and level.penalties:
        radius = 0.3 if level.reward == "push" else 0.2
        inside = any(far(after, hazard) < radius for hazard in places["hazards"])
        assert cost["cost_hazards"] == inside
    if "cost_out_of_boundary" in cost:
        beyond = abs(x) > level.limits[0] or abs(y) > level.limits[1]
        assert cost["cost_out_of_boundary"] == beyond
    if "goal" in places:
        ring = lidar_by_hand(after, xmat, places["goal"], 3.0)
        first = SENSORS[robot] + 16 * batch.lidar.kinds.index("goal")
        np.testing.assert_allclose(outcome.obs[0, first : first + 16], ring, atol=1e-9)


def lidar_by_hand(
    position: np.ndarray, rotation: np.ndarray, places: np.ndarray, reach: float
) -> np.ndarray:
    ring = np.zeros(16)
    for place in places:
        ex, ey, _ = rotation.T @ (np.array([*place, 0.0]) - position)
        angle, strength = np.arctan2(ey, ex) % (2 * np.pi), max(0, reach - np.hypot(ex, ey)) / reach
        i = int(angle / (2 * np.pi / 16))
        f = angle / (2 * np.pi / 16) - i
        for bin_, value in ((i, strength), (i + 1, f * strength), (i - 1, (1 - f) * strength)):
            ring[bin_ % 16] = max(ring[bin_ % 16], value)
    return ring


def test_lidar_survives_an_angle_that_rounds_to_a_full_turn() -> None:
    lidar = observe.Lidar(("goal",), np.array([0]), np.array([[0]]), 3.0)
    places = np.array([[[1.0, -1e-17]]])
    ring = lidar.scan(places, np.zeros((1, 3)), np.eye(3).reshape(1, 9))[0, 0]
    assert ring[15] == pytest.approx(2 / 3)
    assert ring[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("env_id", ["SafetyPointButton2-v0", "SafetyCarGoal2-v0"])
def test_block_sampling_equals_sampling_one_by_one(env_id: str) -> None:
    """Places, and where the generator stands afterwards."""
    robot, level = NAVIGATION_TASKS[env_id]
    plan = layout.plan(level_for(robot, level), ROBOTS[robot].z)
    for seed in range(3):
        fast, slow = np.random.RandomState(seed), np.random.RandomState(seed)
        places, _ = layout.sample(fast, plan)
        np.testing.assert_array_equal(places, one_by_one(slow, plan))
        slow.random_sample(len(plan.names))
        assert fast.random_sample() == slow.random_sample()


def one_by_one(generator: np.random.RandomState, plan: layout.Plan) -> list[list[float]]:
    while True:
        placed: list[list[float]] = []
        for low, span, keepout in zip(plan.low, plan.span, plan.keepout, strict=True):
            for _ in range(100):
                point = [generator.uniform(a, a + b) for a, b in zip(low, span, strict=True)]
                others = zip(placed, plan.keepout, strict=False)
                if all(
                    np.hypot(p[0] - point[0], p[1] - point[1]) >= k + keepout for p, k in others
                ):
                    placed.append(point)
                    break
            else:
                break
        else:
            return placed


def test_a_world_without_room_for_a_goal_ends_the_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = NavigationSimulation("Point", "Goal0", 1)
    batch.seed(np.array([0]))
    batch.restart(np.array([0]))
    batch.layout[0, 1] = batch.physics.position[0, :2]
    monkeypatch.setattr(layout, "GOAL_TRIES", 0)
    outcome = batch.advance(np.zeros((1, 2)))
    assert batch.goal_met[0]
    assert outcome.terminated[0]
    assert batch.info(0) == {"goal_met": True}


def test_the_ant_dies_on_its_belly() -> None:
    batch = NavigationSimulation("Ant", "Goal0", 2)
    batch.seed(np.arange(2))
    batch.restart(np.arange(2))
    batch.physics.datas[1].qpos[2] = 0.05
    batch.physics.set_states(batch.physics.states())
    np.testing.assert_array_equal(batch.assess().terminated, [False, True])


def test_level_rules() -> None:
    """Counts, sizes and extents of the levels."""
    count = lambda level: {kind.name: kind.number for kind in LEVELS[level].kinds}
    assert count("Goal1") == {"goal": 1, "hazards": 8, "vases": 1}
    assert count("Goal2") == {"goal": 1, "hazards": 10, "vases": 10}
    assert count("Push1") == {"goal": 1, "hazards": 2, "pillars": 1, "push_box": 1}
    assert count("Push2") == {"goal": 1, "hazards": 4, "pillars": 4, "push_box": 1}
    assert count("Button2") == {"buttons": 4, "goal": 1, "hazards": 8, "gremlins": 6}
    assert count("Circle2") == {"circle": 1, "sigwalls": 4}
    extents = {
        name: level.extent for name, level in LEVELS.items() if name[:2] in ("Go", "Pu", "Bu")
    }
    assert list(extents.values()) == [1.0, 1.5, 2.0, 1.0, 1.5, 2.0, 1.0, 1.5, 1.8]
    assert level_for("Car", "Push1").kinds[-1].size == (0.125,)
    assert level_for("Ant", "Push1").kinds[-1].size == (0.2,)


def test_vases_cost_while_they_move_and_pillars_by_touch() -> None:
    still = cost_terms.Situation(
        np.zeros((2, 2)), (1.0, 1.0), np.zeros((2, 0, 2)), 0.2,
        np.array([[[0, 0, 9.9e-5]], [[0, 6e-5, 8e-5]]]), {"pillars": np.eye(2, dtype=bool)},
        np.zeros(2, np.intp), np.zeros(2, np.int64),
    )  # fmt: skip
    np.testing.assert_array_equal(cost_terms.vases_velocity(still), [0, 1])
    np.testing.assert_array_equal(cost_terms.COSTS["cost_pillars"](still), [1, 1])


def test_circle_pays_counter_clockwise() -> None:
    place, speed = np.array([[1.5, 0.0, 0.1]]), np.array([[0.0, 2.0]])
    none = np.zeros((1, 3))
    scene = rewards.Scene(place, speed, none, none, np.zeros(1, bool))
    assert rewards.tangential_speed(scene)[0] == pytest.approx(0.2)


def test_gremlins_circle_their_place_and_float() -> None:
    batch = NavigationSimulation("Point", "Button1", 1)
    batch.seed(np.array([2]))
    batch.restart(np.array([0]))
    for _ in range(150):
        batch.advance(np.zeros((1, 2)))
    gremlins = batch.physics.free_positions[0]
    home = batch.layout[0, batch.plan.slices["gremlins"]]
    np.testing.assert_allclose(gremlins[:, 2], 0.1996, atol=2e-3)
    np.testing.assert_allclose(np.hypot(*(gremlins[:, :2] - home).T), 0.35, atol=0.02)
