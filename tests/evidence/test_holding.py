# SPDX-License-Identifier: Apache-2.0
"""The instrument of `evidence/holding.py` on a finite CMDP, where all is known exactly."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.core.linearise import linearise
from holdfast.core.trust_region import TrustRegion
from holdfast.exact import exact_batch, tabular_policy
from holdfast.records.rows import read_rows
from holdfast.tabular.cmdp import toy, two_action_policy

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PATH = ROOT / "evidence" / "holding.py"
spec = importlib.util.spec_from_file_location("holding", PATH)
assert spec and spec.loader
holding = importlib.util.module_from_spec(spec)
sys.modules["holding"] = holding
spec.loader.exec_module(holding)

EXACT = TrustRegion(damping=1e-9, solver="dense", kl_average=False)


def noisy_gradients(epochs, size, noise):
    """(gradient [P], epochs of it from `size` noisy samples [E, P], solve, metric) on the toy."""
    pi = two_action_policy(0.6, 0.4)
    exact = exact_batch(toy(), pi)
    policy = tabular_policy(pi)
    local = linearise(policy, exact, False)
    metric = EXACT.damped(local)
    solve = jax.jit(lambda v: EXACT.solve(metric, v[None])[0])

    @jax.jit
    def one(key):
        pick = jax.random.choice(key, exact.weight.size, (size,), p=exact.weight)
        off = noise * jax.random.normal(jax.random.fold_in(key, 1), (size, 1))
        batch = replace(
            exact,
            obs=exact.obs[pick],
            action=exact.action[pick],
            weight=jnp.full(size, 1 / size),
            adv_c=exact.adv_c[pick] + off,
        )
        return linearise(policy, batch, False).gradients(batch.adv_c)[0]

    rows = jax.lax.map(one, jax.random.split(jax.random.key(0), epochs))
    return local.gradients(exact.adv_c)[0], rows, solve, jax.jit(metric)


def test_share_and_honest_descent_are_those_of_the_exact_gradient(float64):
    truth, rows, solve, metric = noisy_gradients(1000, 100, 3.0)
    truth, rows = np.asarray(truth), np.asarray(rows)
    signal = float(truth @ solve(truth))
    solved = np.asarray(jax.jit(jax.vmap(solve))(rows))
    whole = float(np.mean(np.sum(rows * solved, 1)))
    assert 0.1 < signal / whole < 0.9  # neither pure
    verdict = holding.judged(rows, rows, solve, metric, 0.01)
    np.testing.assert_allclose(verdict.share, signal / whole, rtol=0.1)
    lengths = np.sum(solved * jax.jit(jax.vmap(metric))(solved), 1)
    exact = np.mean(np.sqrt(0.02 / lengths) * (-solved @ truth))
    np.testing.assert_allclose(verdict.honest, exact, rtol=0.1)
    assert verdict.promised < 1.2 * exact  # the batch's own word: far more descent than there is
    pooled = holding.judged(rows[:200], rows[:200], solve, metric, 0.01, pool=4)
    assert pooled.honest < verdict.honest < 0


def test_without_noise_honest_is_promised(float64):
    truth, _, solve, metric = noisy_gradients(2, 10, 0.0)
    rows = jnp.stack([truth] * 3)
    verdict = holding.judged(rows, rows, solve, metric, 0.01)
    np.testing.assert_allclose(verdict.share, 1.0, rtol=1e-9)
    np.testing.assert_allclose(verdict.honest, verdict.promised, rtol=1e-9)
    np.testing.assert_allclose(
        verdict.honest, -np.sqrt(0.02 * float(truth @ solve(truth))), rtol=1e-6
    )


def test_a_run_is_told_by_its_own_rows():
    """What progress.csv adds up itself, and the slope by another way to the least squares."""
    (path, *_) = sorted(RESULTS.glob("ours/c-trpo_SafetyHopperVelocity-v1_seed20"))
    rows = read_rows(path / "progress.csv")
    spent, realised, cost = ([row[k] for row in rows] for k in ("spent", "realised", "ep_cost_raw"))
    told = holding.run_row(path)
    assert told["regret raw"] == round(rows[-1]["cost_regret_raw"], 1) > 0
    assert told["excursions"] * told["area"] == pytest.approx(told["regret raw"], rel=0.02)
    np.testing.assert_allclose(realised[1:], np.diff(cost), rtol=1e-5)  # J is the epoch's own
    promised, came = np.array(spent[:-1]), np.array(realised[1:])
    slope = np.linalg.lstsq(promised[:, None], came, rcond=None)[0][0]
    assert told["realised / predicted"] == round(slope, 2)
    assert told["realised / predicted"] != round(np.polyfit(promised, came, 1)[0], 2)  # control
    assert told["gap"] == round(np.mean(came - promised), 2)


def test_explained_variance():
    target = np.arange(10.0)
    assert holding.explained(target, target) == 1.0
    assert holding.explained(np.zeros(10), target) == 0.0
    assert holding.explained(-target, target) < 0
