# SPDX-License-Identifier: Apache-2.0
"""C-TRPO written twice: the updates of the one file are those of the library, to rounding.

The file takes Hessians by automatic differentiation of the whole divergence and solves by JAX's own
conjugate gradients; the library applies the Fisher matrix in closed form. Both get the same epochs.
"""

import ast
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from holdfast.core.critic import Critics
from holdfast.core.estimate import estimate
from holdfast.core.policies import Gaussian
from holdfast.core.types import Learner, sampled_batch
from holdfast.run import make_run
from holdfast.train.update import make_update

FILE = Path(__file__).parents[2] / "examples" / "ctrpo_in_one_file.py"
PAPER = {
    "critic_stale_norm": False,
    "start_recovering": False,
    "cg_eps": 0.0,
}
"""The file is the published algorithm without the published code's errors (D7, D13, D15)."""
STEPS, ENVS, OBS, ACTIONS, EPOCHS = 30, 4, 5, 2, 6
COSTS = (9.0, 12.0, 9.0, 7.5, 7.5, 9.5)
"""Below the limit of 10, above it, below it but still in recovery, and recovered."""


@pytest.fixture(scope="module")
def one_file():
    spec = importlib.util.spec_from_file_location("ctrpo_in_one_file", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def epoch(one_file, cost, seed):
    """Made-up experience, in which episodes end in both ways."""
    rng = np.random.default_rng(seed)
    shape = (STEPS, ENVS)
    signal = np.stack([rng.normal(size=shape), rng.random(shape) < 0.2], -1).astype(float)
    obs = rng.normal(size=(*shape, OBS))
    terminated, truncated = rng.random(shape) < 0.05, rng.random(shape) < 0.05
    following = np.where((terminated | truncated)[..., None], obs + 0.3, np.roll(obs, -1, 0))
    action = 0.3 * obs[..., :ACTIONS] + rng.normal(size=(*shape, ACTIONS))
    return one_file.Data(obs, following, action, signal, terminated, truncated, np.float64(cost))


def start(one_file):
    """(policy, critics) in double precision."""
    keys = jax.random.split(jax.random.key(3), 3)
    widths = (OBS, 8, 8)
    policy = one_file.Policy(
        one_file.init_layers(keys[0], (*widths, ACTIONS)), jnp.full(ACTIONS, -0.2)
    )
    critics = [one_file.init_layers(key, (*widths, 1)) for key in keys[1:]]
    return policy, critics


def orders(args, index, one_file):
    return one_file.minibatches(args, np.random.default_rng([7, index]), STEPS * ENVS)


def settings(one_file):
    """Few iterations of CG: beyond them it magnifies rounding, as the barrier is stiff."""
    return one_file.Args(minibatch=32, critic_passes=2, cg_steps=3)


@pytest.fixture(scope="module")
def ours(one_file):
    """By the file: parameters after each update, and whether it recovered."""
    args = settings(one_file)
    policy, critics = start(one_file)
    moments, recovering, found = optax.adam(args.critic_lr).init(critics), jnp.asarray(False), []
    compiled = [one_file.advantages, one_file.update_policy, one_file.update_critics]
    judge, improve, fit = (jax.jit(f, static_argnums=0) for f in compiled)
    for index, cost in enumerate(COSTS):
        data = epoch(one_file, cost, index)
        adv_r, adv_c, targets = judge(args, critics, data)
        policy, recovering, shown = improve(args, policy, recovering, data, adv_r, adv_c)
        rows = data.obs.reshape(-1, OBS)
        critics, moments = fit(args, critics, moments, rows, targets, orders(args, index, one_file))
        assert shown["step"] > 0, "nothing is compared where nothing moves"
        found.append((vector(policy.layers, policy.log_std), vector(critics), bool(recovering)))
    return found


def by_the_library(one_file, **other):
    """The same of the library, with other settings."""
    args = settings(one_file)
    run = make_run("c-trpo", "published", **(PAPER | {"cg_steps": args.cg_steps} | other))
    update = make_update(run.algorithm)
    policy, critics = start(one_file)
    layers = lambda own: tuple(tuple(pair) for pair in own)
    both = jax.tree.map(lambda *p: jnp.stack(p), *map(layers, critics))
    moments = optax.adam(0.0).init(ravel_pytree(both)[0])
    learner = Learner(
        Gaussian(layers(policy.layers), policy.log_std),
        Critics(both, moments),
        run.algorithm.init(1),
    )
    found = []
    judge = jax.jit(
        lambda critics, rollout: estimate(
            critics,
            rollout,
            jax.random.key(0),
            gamma=(run.gamma, run.cost_gamma),
            lam=(run.lam, run.cost_lam),
            standardise_cost=run.standardise_cost,
            cost_value_noise=0.0,
        )
    )
    for index, cost in enumerate(COSTS):
        data = epoch(one_file, cost, index)
        rollout = data._asdict() | {"reward": data.signal[..., 0], "cost": data.signal[..., 1:]}
        seen = judge(learner.critics, rollout)
        del seen["explained"]
        batch = sampled_batch(
            data.obs.reshape(-1, OBS),
            data.action.reshape(-1, ACTIONS),
            **seen,
            cost_return=jnp.asarray([cost]),
            cost_limit=jnp.asarray([args.limit]),
            horizon=jnp.asarray(1 / (1 - run.cost_gamma)),
        )
        step = update.improve(learner, batch, jax.random.key(0))
        order = orders(args, index, one_file)
        fitted, _ = update.fit(learner.critics, batch, (order, order >= 0), step.gradient_norm)
        learner = replace(learner.improved(step), critics=fitted)
        apart = [jax.tree.map(lambda p, i=i: p[i], fitted.layers) for i in range(2)]
        found.append(
            (
                vector(learner.policy.layers, learner.policy.log_std),
                vector(apart),
                bool(learner.extra[0]),
            )
        )
    return found


def vector(*trees):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trees)])


def apart(ours, theirs):
    """Largest difference of any parameter after any update, of policy and critics."""
    pairs = list(zip(ours, theirs, strict=True))
    return [max(np.abs(a[i] - b[i]).max() for a, b in pairs) for i in (0, 1)]


def test_updates_equal_the_librarys(one_file, ours):
    theirs = by_the_library(one_file)
    assert [row[2] for row in ours] == [False, True, True, False, False, False]
    assert [row[2] for row in theirs] == [row[2] for row in ours]
    moved = np.abs(ours[-1][0] - ours[0][0]).max()
    policy, critics = apart(ours, theirs)
    assert moved > 1e-2
    assert policy < 1e-12 and critics < 1e-14


@pytest.mark.parametrize(
    "other",
    [
        {"beta": 0.99},
        {"hysteresis": 1.0},
        {"critic_l2_biases": False, "kl_average": False},
    ],
    ids=lambda other: "-".join(other),
)
def test_another_algorithm_is_found_out(one_file, ours, other):
    """The comparison sees a slightly weaker barrier, and each of the others."""
    policy, critics = apart(ours, by_the_library(one_file, **other))
    assert policy > 1e-8
    assert ("critic_l2_biases" in other) == (critics > 1e-5)


def test_nothing_is_imported_from_holdfast(one_file):
    tree = ast.parse(FILE.read_text())
    named = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    assert named and not any(name.startswith("holdfast") for name in named)


def test_it_reduces_a_cost_above_the_limit(one_file, capsys):
    """A short training on Pendulum: the untrained policy is too fast, and gets slower."""
    with jax.enable_x64(False):
        args = one_file.Args(
            steps=4_800, epoch_steps=800, num_envs=4, hidden=16, limit=20.0, radius=0.05
        )
        _, table = one_file.main(args)
    lines = capsys.readouterr().out.splitlines()
    assert len(table) == len(lines) == 6 and lines[0].endswith("recovering")
    assert table[0]["predicted cost"] < table[0]["cost"]
    assert table[-1]["cost"] < 0.9 * table[0]["cost"]
