# SPDX-License-Identifier: Apache-2.0
"""C-MDPO: its maximum for a short step is C-NPG's direction, and it keeps limits."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from holdfast import exact
from holdfast.algorithms import CMDPO, c_npg
from holdfast.core.first_order import FirstOrder, Rows
from holdfast.exact import enumerated, tabular_policy, without_damping
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.occupancy import evaluate


def rows_of(batch, policy):
    log_prob = policy.log_prob(policy.outputs(batch.obs), batch.action)
    return Rows(
        batch.obs, batch.action, batch.weight, batch.adv_r, batch.adv_c, batch.target, log_prob
    )


def log_policy(policy):
    (logits,) = policy.outputs(jnp.eye(2))
    return np.asarray(logits - logits.mean(1, keepdims=True))


def shortest(algorithm, batch, old, slack):
    """The exact maximum of the objective, as a change of the centred log policy."""
    rows, (flat, unravel) = rows_of(batch, old), ravel_pytree(old)
    value = jax.jit(
        jax.value_and_grad(
            lambda x: algorithm.loss(unravel(x), old, rows, rows.adv_r, slack) * algorithm.step
        )
    )
    found = minimize(
        lambda x: tuple(np.asarray(v, float) for v in value(jnp.asarray(x))), np.asarray(flat),
        jac=True, method="BFGS", options={"gtol": 1e-13, "maxiter": 500},
    )  # fmt: skip
    return log_policy(unravel(jnp.asarray(found.x))) - log_policy(old)


@pytest.mark.parametrize("barrier", ["log", "entropy"])
def test_the_maximum_for_a_short_step_is_the_natural_direction(barrier):
    cmdp, start = toy(0.4), two_action_policy(0.5, 0.4)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        batch, old = enumerated(cmdp, evaluate(cmdp, start)), tabular_policy(start)
        slack = batch.cost_limit - batch.cost_return
        assert float(slack[0]) > 0
        short = CMDPO(step=1e-4, barrier=barrier)
        moved = shortest(short, batch, old, slack).ravel()
        plain = shortest(short, batch, old, jnp.full(1, jnp.inf)).ravel()  # without the barrier
    natural = replace(c_npg(), barrier=barrier, margin_confidence=0.0, landing=0.0)
    path = exact.exact_run(without_damping(natural, radius=1e-10), cmdp, start, 1)
    log = np.log(path.policy)
    centred = (log - log.mean(-1, keepdims=True))[1] - (log - log.mean(-1, keepdims=True))[0]
    cosine = lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert cosine(moved, centred.ravel()) > 1 - 1e-6
    assert cosine(plain, centred.ravel()) < 1 - 1e-3  # the control: the KL alone is another one


def test_it_climbs_towards_the_optimum_and_stays_inside():
    cmdp, start = toy(0.4), two_action_policy(0.5, 0.4)
    best = optimum(cmdp).reward_return
    loop = FirstOrder(passes=20, minibatch=4, kl_stop=1.0, actor_lr=0.02, actor_decay=False)
    chosen = CMDPO(step=1.0, margin_confidence=0.0, cost_scale="discount", loop=loop)
    path = exact.exact_run(chosen, cmdp, start, 120)
    first, last = path.reward_return[0], path.reward_return[-1]
    assert last > first + 0.8 * (best - first)
    assert (path.cost_return[:, 0] < 0.4 * 1.02).all()


def test_it_recovers_from_outside():
    cmdp, start = toy(0.2), two_action_policy(0.1, 0.9)
    loop = FirstOrder(passes=20, minibatch=4, kl_stop=1.0, actor_lr=0.02, actor_decay=False)
    chosen = CMDPO(step=1.0, margin_confidence=0.0, cost_scale="discount", loop=loop)
    path = exact.exact_run(chosen, cmdp, start, 60)
    assert path.cost_return[0, 0] > 0.2 > path.cost_return[-1, 0]


@pytest.mark.parametrize("wrong", [{"step": 0.0}, {"beta": -1.0}, {"hysteresis": 0.0}])
def test_bad_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CMDPO(**wrong)
