# SPDX-License-Identifier: Apache-2.0
"""The stated optima are proved from the code: LP or weak duality, and policies that attain."""

import numpy as np
import pytest
from scipy.optimize import linprog

from holdfast.envs.base import VecEnv
from holdfast.envs.probe import BANDIT, MACHINES, PROBES, SHORTCUT, SPEED, Probe, ProbeEnv, draw

ids = pytest.mark.parametrize("env_id", PROBES)


def random_actions(probe: Probe, num_envs: int, seed: int = 0):
    space, rng = probe.action_space, np.random.default_rng(seed)
    while True:
        match probe.action_space.__class__.__name__:
            case "Discrete":
                yield rng.integers(0, space.n, num_envs)
            case "MultiDiscrete":
                yield rng.integers(0, space.nvec, (num_envs, len(space.nvec)))
            case _:
                yield rng.normal(size=(num_envs, *space.shape))


def episode_means(probe: Probe, policy, num_envs: int = 2000, seed: int = 0):
    """Mean return and mean costs of one full episode of each environment."""
    env = ProbeEnv(probe, num_envs)
    obs, running = env.reset(seed), np.ones(num_envs, bool)
    total, cost = np.zeros(num_envs), np.zeros((num_envs, len(env.cost_names)))
    rng = np.random.default_rng(seed)
    for _ in range(probe.horizon):
        step = env.step(policy(obs, rng))
        total += running * step.reward
        cost += running[:, None] * step.cost
        running &= ~(step.terminated | step.truncated)
        obs = step.obs
    assert not running.any()
    return total.mean(), cost.mean(axis=0)


def finite_horizon_lp(probe: Probe, states, actions, chances, limits):
    """Best mean return over all policies, by the occupancy LP over (time, state, action).

    The model is read from `probe.move` itself: `chances` lists equally likely uniform draws.
    """
    S, A, T, K = len(states), len(actions), probe.horizon, len(probe.cost_limits)
    pairs = np.repeat(np.arange(S), A)
    transition = np.zeros((S * A, S))
    for uniform in chances:
        new, reward, cost, terminated = probe.move(
            np.repeat(states, A, axis=0), np.tile(actions, (S,) + (1,) * (actions.ndim - 1)),
            np.full(S * A, uniform),
        )  # fmt: skip
        arrival = np.array([np.flatnonzero(states == s)[0] for s in new])
        np.add.at(transition, (np.arange(S * A), arrival), ~terminated / len(chances))
    start = np.mean([states == probe.start(np.array([u]))[0] for u in chances], axis=0)
    flow, inflow = np.zeros((T * S, T * S * A)), np.zeros(T * S)
    inflow[:S] = start
    for t in range(T):
        columns = slice(t * S * A, (t + 1) * S * A)
        flow[t * S + pairs, np.arange(S * A) + t * S * A] = 1.0
        if t + 1 < T:
            flow[(t + 1) * S : (t + 2) * S, columns] = -transition.T
    bounds = {} if limits is None else {"A_ub": np.tile(cost, (T, 1)).T, "b_ub": limits}
    found = linprog(-np.tile(reward, T), A_eq=flow, b_eq=inflow, method="highs", **bounds)
    assert found.status == 0 and (limits is None or len(limits) == K)
    return -found.fun, None if limits is None else -found.ineqlin.marginals


def test_shortcut_optima_are_the_lp_optima():
    cells, actions, limits = np.arange(15), np.arange(4), [1.5]
    safe, multipliers = finite_horizon_lp(SHORTCUT, cells, actions, [0.5], limits)
    free, _ = finite_horizon_lp(SHORTCUT, cells, actions, [0.5], None)
    assert list(SHORTCUT.cost_limits.values()) == limits
    assert safe == pytest.approx(SHORTCUT.optimal_safe_return, abs=1e-9)
    assert free == pytest.approx(SHORTCUT.optimal_return, abs=1e-9)
    assert multipliers[0] == pytest.approx(4 / 3, abs=1e-9)


def test_machines_optima_are_the_lp_optima_and_both_limits_bind():
    actions = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    limits = list(MACHINES.cost_limits.values())
    safe, multipliers = finite_horizon_lp(
        MACHINES, np.array([0.0, 1.0]), actions, [0.25, 0.75], limits
    )
    free, _ = finite_horizon_lp(MACHINES, np.array([0.0, 1.0]), actions, [0.25, 0.75], None)
    assert safe == pytest.approx(MACHINES.optimal_safe_return, abs=1e-9)
    assert free == pytest.approx(MACHINES.optimal_return, abs=1e-9)
    assert multipliers == pytest.approx([2 / 3, 2 / 3], abs=1e-9)


def test_bandit_optima_by_duality_and_attainment():
    # Weak duality at multiplier 5/8: no policy beats max_a (r - 5/8·c) + 5/8·b; a = 0.8·x attains.
    a = np.linspace(-1, 1, 4001)[:, None]
    for x in (-1.0, 1.0):
        _, reward, cost, terminated = BANDIT.move(np.full(len(a), x), a, np.zeros(len(a)))
        assert terminated.all()
        bound = (reward - 0.625 * cost[:, 0]).max() + 0.625 * BANDIT.cost_limits["cost"]
        assert bound == pytest.approx(BANDIT.optimal_safe_return, abs=1e-12)
        assert reward.max() == BANDIT.optimal_return


def test_speed_optima_by_duality_and_attainment():
    # Weak duality at multiplier 1, by backward induction on the lattice v0 + k/80, which 81 evenly
    # spaced accelerations map to itself.
    limit, best, free = SPEED.cost_limits["cost"], [], []
    accelerations = np.linspace(-1, 1, 81)
    for v0 in np.arange(0.0125, 0.5, 0.025):  # midpoints: exact for the mean of a linear function
        speeds = np.unique(np.concatenate([v0 + np.arange(-200, 201) / 80, [-2.0, 2.0]]))
        speeds = speeds[(speeds >= -2) & (speeds <= 2)]
        start = np.abs(speeds - v0).argmin()
        v, a = np.repeat(speeds, 81), np.tile(accelerations, len(speeds))[:, None]
        new, reward, cost, _ = SPEED.move(v, a, np.zeros(len(v)))
        arrival = np.abs(speeds[:, None] - new).argmin(axis=0)
        assert np.abs(speeds[arrival] - new).max() < 1e-9
        for gain, result in ((reward - cost[:, 0], best), (reward, free)):
            value = np.zeros(len(speeds))
            for _ in range(SPEED.horizon):
                value = (gain + value[arrival]).reshape(-1, 81).max(axis=1)
            result.append(value[start])
    assert np.mean(best) + limit == pytest.approx(SPEED.optimal_safe_return, abs=1e-9)
    assert np.mean(free) == pytest.approx(SPEED.optimal_return, abs=1e-9)


OPTIMAL = {
    "probe/Bandit-v0": lambda obs, rng: 0.8 * obs,
    # straight on with probability 1/2 at the start; else up, right along the top, down
    "probe/Shortcut-v0": lambda obs, rng: np.where(
        obs.argmax(1) == 0,
        rng.integers(0, 2, len(obs)),
        np.array([0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 3])[obs.argmax(1)],
    ),
    "probe/Machines-v0": lambda obs, rng: (
        rng.random((len(obs), 2)) < np.where(obs == 1.0, [1.0, 0.4], [0.1, 1.0])
    ).astype(int),
    # flat out to 1, then hold 1 + 6/18
    "probe/Speed-v0": lambda obs, rng: np.clip(
        2 * (np.where(obs > 0.999, 4 / 3, 1.0) - obs), -1, 1
    ),
}
GREEDY = {
    "probe/Bandit-v0": lambda obs, rng: obs,
    "probe/Shortcut-v0": lambda obs, rng: np.zeros(len(obs), int),
    "probe/Machines-v0": lambda obs, rng: np.ones((len(obs), 2), int),
    "probe/Speed-v0": lambda obs, rng: np.ones_like(obs),
}


@ids
def test_a_stationary_policy_attains_the_safe_optimum_at_the_limit(env_id):
    probe = PROBES[env_id]
    limits = list(probe.cost_limits.values())
    mean, cost = episode_means(probe, OPTIMAL[env_id], num_envs=20_000)
    assert mean == pytest.approx(probe.optimal_safe_return, rel=5e-3)  # Monte Carlo error only
    assert cost == pytest.approx(limits, rel=2e-2)
    mean, cost = episode_means(probe, GREEDY[env_id], num_envs=20_000)
    assert mean == pytest.approx(probe.optimal_return, rel=5e-3)
    assert (cost > 1.5 * np.array(limits)).all()


@ids
def test_follows_the_contract(env_id):
    probe = PROBES[env_id]
    env = ProbeEnv(probe, 5)
    assert isinstance(env, VecEnv) and env.can_snapshot
    obs = env.reset(3)
    assert obs.shape == (5, *env.observation_space.shape)
    actions, ends = random_actions(probe, 5), 0
    for _ in range(60):
        step = env.step(next(actions))
        ended = step.terminated | step.truncated
        ends += ended.sum()
        assert not (step.terminated & step.truncated).any()
        assert step.cost.shape == (5, len(env.cost_names)) and (step.cost >= 0).all()
        assert step.reward.shape == ended.shape == (5,)
        assert np.array_equal(step.obs[~ended], step.next_obs[~ended])
        assert all(o in env.observation_space for o in (*step.obs, *step.next_obs))
    assert ends >= 5


@ids
def test_snapshot_reproduces_the_future_bit_for_bit(env_id):
    probe = PROBES[env_id]
    env, actions = ProbeEnv(probe, 4), random_actions(probe, 4)
    env.reset(11)
    for _ in range(7):
        obs = env.step(next(actions)).obs
    kept, future = env.snapshot(), [next(actions) for _ in range(50)]
    before = [env.step(a) for a in future]
    other = ProbeEnv(probe, 4)
    assert np.array_equal(other.restore(kept), obs)
    for a, b in zip(before, [other.step(a) for a in future], strict=True):
        assert all(np.array_equal(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)


@ids
def test_environment_i_is_seeded_with_seed_plus_i_whatever_the_batch(env_id):
    probe = PROBES[env_id]
    batch, single = ProbeEnv(probe, 3), ProbeEnv(probe, 1)
    assert np.array_equal(batch.reset(5)[2], single.reset(7)[0])
    actions = random_actions(probe, 3)
    for _ in range(60):
        a = next(actions)
        left, right = batch.step(a), single.step(a[2:])
        assert np.array_equal(left.obs[2], right.obs[0]) and left.reward[2] == right.reward[0]


def test_constraints_select_and_order_the_costs():
    both = ProbeEnv(MACHINES, 3)
    swapped = ProbeEnv(MACHINES, 3, ("noise", "heat"))
    one = ProbeEnv(MACHINES, 3, ("noise",))
    assert swapped.cost_names == ("noise", "heat") and one.cost_names == ("noise",)
    action = np.array([[1, 0], [0, 1], [1, 1]])
    cost = both.step(action).cost
    assert np.array_equal(swapped.step(action).cost, cost[:, ::-1])
    assert np.array_equal(one.step(action).cost, cost[:, 1:])
    for wrong in [(), ("cost",), ("heat", "heat")]:
        with pytest.raises(ValueError, match="choose from heat, noise"):
            ProbeEnv(MACHINES, 3, wrong)


def test_refuses_wrong_shapes():
    env = ProbeEnv(SPEED, 2)
    with pytest.raises(ValueError, match="expected \\(2, 1\\)"):
        env.step(np.zeros(2))
    with pytest.raises(ValueError, match="same num_envs"):
        env.restore(ProbeEnv(SPEED, 3).snapshot())
    with pytest.raises(ValueError, match="at least 1"):
        ProbeEnv(SPEED, 0)


def test_draws_are_uniform_and_uncorrelated_between_neighbours():
    env = ProbeEnv(SPEED, 2000)
    env.reset(0)
    generator = env.snapshot()["generator"]
    sample = []
    for _ in range(50):
        generator, uniform = draw(generator)
        sample.append(uniform)
    sample = np.array(sample)
    counts = np.histogram(sample, 100, (0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 160  # chi², 99 degrees: p = 1e-4
    centred = sample - 0.5
    assert abs((centred[:, 1:] * centred[:, :-1]).mean() * 12) < 0.015
    assert abs((centred[1:] * centred[:-1]).mean() * 12) < 0.015
