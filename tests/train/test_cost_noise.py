# SPDX-License-Identifier: Apache-2.0
"""What the update believes of its costs: noise on values and estimates, the first zero."""

import jax
import numpy as np
import pytest

from holdfast import make_env, make_run
from holdfast.train import train
from holdfast.train.epoch import cost_seen_by_update
from holdfast.train.state import COST_NOISE
from small_runs import SMALL, small


def test_the_first_estimate_of_the_published_preset_is_zero():
    """D3 and D15: the published update starts in recovery, believes J_c = 0, and so improves."""
    run = small("probe/Shortcut-v0", epochs=1, cost_limit=0.01)
    modes = {}
    for preset in ("published", "corrected"):
        chosen = make_run("c-trpo", preset, env=run.env, steps=200, **SMALL | {"cost_limit": 0.01})
        (epoch,) = train(chosen, make_env(run.env, run.num_envs))
        modes[preset] = epoch.metrics["recovering"]
        assert epoch.metrics["ep_cost"] > 0.01
    assert modes == {"published": 0, "corrected": 1}


def test_noisy_cost_values_disturb_only_the_costs():
    """σ perturbs cost advantages and targets, never the estimate of J_c (D31)."""
    ends = {}
    for noise in (0.0, 0.5):
        run = small("probe/Shortcut-v0", "c-trpo-noise", epochs=1, cost_value_noise=noise)
        (ends[noise],) = train(run, make_env(run.env, run.num_envs))
    assert ends[0.0].metrics["ep_cost"] == ends[0.5].metrics["ep_cost"]
    clean, noisy = (ends[n].state.learner.critics.layers for n in (0.0, 0.5))
    for (weight, bias), (other_weight, other_bias) in zip(clean, noisy, strict=True):
        for critic in (weight - other_weight, bias - other_bias):  # [1 + K, ...]: reward, then cost
            assert not critic[0].any() and critic[1].any()


def test_noise_on_the_cost_estimate_reaches_the_update_alone():
    """D31: J_c + σ ξ(seed, epoch) is what an update sees, bit for bit; logs hold the clean J_c."""
    seen, ends = {}, {}
    for noise in (0.0, 0.5, 1.0):
        run = small("probe/Shortcut-v0", epochs=1, cost_estimate_noise=noise, cost_limit=100.0)
        (ends[noise],) = train(run, make_env(run.env, run.num_envs))
        seen[noise] = 100.0 - ends[noise].metrics["slack"]
    shift = seen[0.5] - seen[0.0]
    draw = np.random.default_rng(np.random.SeedSequence([run.seed, 1, COST_NOISE]))
    assert shift == pytest.approx(0.5 * draw.standard_normal(1)[0], abs=1e-4) and abs(shift) > 0.01
    assert seen[1.0] - seen[0.0] == pytest.approx(2 * shift, abs=1e-4)
    for name in ("ep_cost", "ep_cost_raw", "cost_regret", "ep_return"):
        assert ends[0.0].metrics[name] == ends[1.0].metrics[name], name
    critics = [jax.tree.leaves(ends[noise].state.learner.critics.layers) for noise in (0.0, 1.0)]
    assert all((one == other).all() for one, other in zip(*critics, strict=True))


def test_noise_on_the_cost_estimate_is_fresh_for_each_update_and_constraint():
    run, seen = small("probe/Shortcut-v0", cost_estimate_noise=2.0), cost_seen_by_update
    draws = {index: seen(run, np.array([3.0, 3.0]), index) for index in (1, 2)}
    values = np.concatenate([*draws.values()])
    assert len(set(values)) == 4 and (draws[1] == seen(run, np.array([3.0, 3.0]), 1)).all()
    many = np.array([seen(run, np.array([3.0]), index)[0] for index in range(1, 4001)])
    assert many.mean() == pytest.approx(3.0, abs=0.15) and many.std() == pytest.approx(2.0, rel=0.1)
    first = make_run("c-trpo", "published", cost_estimate_noise=2.0)
    assert seen(first, np.array([3.0]), 1) == 0.0 != seen(first, np.array([3.0]), 2)
    assert seen(make_run("c-trpo"), np.array([3.0]), 1) == 3.0  # off by default


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["cost_value_noise", "cost_estimate_noise"])
def test_noise_must_be_a_finite_size(name, value):
    must = "not be negative" if value < 0 else "be finite"
    with pytest.raises(ValueError, match=f"{name}={value} must {must}; 0 is off"):
        make_run("c-trpo", **{name: value})
