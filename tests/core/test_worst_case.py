# SPDX-License-Identifier: Apache-2.0
"""The worst case of an update on enumerated CMDPs: it holds, and it needs each of its terms."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from holdfast.core.diagnosis import worst_case
from holdfast.exact import exact_batch, tabular_policy
from holdfast.tabular.instances import random_cmdp
from holdfast.tabular.occupancy import evaluate, softmax


def pairs(seed, size):
    """(CMDP, policy, a policy about `size` away from it in logits)."""
    rng = np.random.default_rng(seed)
    cmdp, logits = random_cmdp(rng, 5, 3), rng.normal(size=(5, 3))
    for _ in range(20):
        yield cmdp, softmax(logits), softmax(logits + size * rng.normal(size=(5, 3)))


@pytest.mark.parametrize("size", [0.01, 0.1, 1.0])
def test_the_bound_holds_and_epsilon_is_one(size, float64):
    found = jax.jit(worst_case, static_argnums=3)
    for cmdp, old, new in pairs(0, size):
        batch = exact_batch(cmdp, old)
        said = found(tabular_policy(old), tabular_policy(new), batch, cmdp.gamma)
        rise = evaluate(cmdp, new).cost_return - evaluate(cmdp, old).cost_return
        assert rise[0] <= float(said["worst_case"])
        true = np.abs((new * evaluate(cmdp, old).adv_c[0]).sum(1)).max()
        assert float(said["epsilon_c"]) >= true


def test_without_the_distance_it_would_be_broken(float64):
    """The control: the prediction alone, which is the bound at γ = 0, is exceeded half the time."""
    broken = 0
    for cmdp, old, new in pairs(1, 0.5):
        batch = exact_batch(cmdp, old)
        said = worst_case(tabular_policy(old), tabular_policy(new), batch, 0.0)
        rise = evaluate(cmdp, new).cost_return - evaluate(cmdp, old).cost_return
        broken += rise[0] > float(said["worst_case"])
    assert 3 <= broken <= 17


def test_nothing_changes_where_nothing_moves(float64):
    cmdp, old, _ = next(pairs(2, 0.1))
    policy = tabular_policy(old)
    said = worst_case(policy, policy, exact_batch(cmdp, old), cmdp.gamma)
    assert float(said["epsilon_c"]) == 0.0 and float(said["worst_case"]) == 0.0


def test_it_is_in_the_units_of_the_limit(float64):
    cmdp, old, new = next(pairs(3, 0.1))
    batch, both = exact_batch(cmdp, old), (tabular_policy(old), tabular_policy(new))
    plain = worst_case(*both, batch, cmdp.gamma)["worst_case"]
    ten = worst_case(*both, replace(batch, horizon=10 * batch.horizon), cmdp.gamma)
    assert float(ten["worst_case"]) == pytest.approx(10 * float(plain))
