# SPDX-License-Identifier: Apache-2.0
"""What κ is worth: the predicted against the true change of an episode's cost, without noise.

Episodes on a finite chain that ends: visits, values and the sum J of an episode's costs come from
linear systems. The batch is what an infinitely long rollout would give, κ the mean episode length,
the advantages those of the discount γ_c that the critics learn; the update is C-TRPO's own. Its
`spent` then compares with J of the policy it makes.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import CTRPO
from holdfast.core.critic import CriticFit, init_critics
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Learner, sampled_batch
from holdfast.exact import probabilities, tabular_policy

REGION = TrustRegion(radius=1e-6, damping=0.0, solver="dense", kl_average=False)
FIT = CriticFit(critic_passes=1)


@dataclass(frozen=True)
class Chain:
    """Two actions; from each state an episode goes on by `kernel` [S, 2, S], the rest ends it."""

    kernel: np.ndarray
    cost: np.ndarray
    """[S, 2]"""
    start: np.ndarray

    def visits(self, pi):
        """[S] expected visits in an episode; their sum is its mean length."""
        stay = np.einsum("sa,sat->st", pi, self.kernel)
        return np.linalg.solve(np.eye(len(stay)) - stay.T, self.start)

    def total(self, pi):
        """J, the undiscounted cost of an episode."""
        return self.visits(pi) @ (pi * self.cost).sum(1)

    def advantage(self, pi, gamma):
        """[S, 2] of the cost, discounted by γ_c."""
        stay = np.einsum("sa,sat->st", pi, self.kernel)
        value = np.linalg.solve(np.eye(len(stay)) - gamma * stay, (pi * self.cost).sum(1))
        return self.cost + gamma * self.kernel @ value - value[:, None]


END = 1 / 1000
"""Of an episode at each step: a mean length of 1000, as the benchmark's."""


def at_once():
    """The costly action costs at once and changes nothing else: the control."""
    go = (1 - END) * np.ones((1, 2, 1))
    return Chain(go, np.array([[1.0, 0.0]]), np.ones(1))


def persisting(steps):
    """The first action rarely breaks something; that costs 1 a step until repaired."""
    kernel = np.zeros((2, 2, 2))
    kernel[0, 0] = 1 - 1e-4, 1e-4
    kernel[0, 1] = 1.0, 0.0
    kernel[1, :] = 1 / steps, 1 - 1 / steps
    return Chain((1 - END) * kernel, np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([1.0, 0.0]))


def surviving(steps):
    """Every step costs 0.1; the first action falls, which ends the episode and so its costs."""
    kernel = np.ones((1, 2, 1))
    kernel[0, 0], kernel[0, 1] = 1 - 2 / steps, 1.0 - 0.1 / steps
    return Chain(kernel, np.full((1, 2), 0.1), np.ones(1))


def ratio(chain, gamma, cost_scale="episode"):
    """Predicted per true change of J in one small update."""
    states = len(chain.start)
    pi = np.full((states, 2), 0.5)
    visits, total = chain.visits(pi), chain.total(pi)
    flat = lambda x: jnp.asarray(x.reshape(2 * states))
    gain = np.zeros((states, 2))
    gain[:, 0] = 1.0  # the reward wants the first action
    batch = sampled_batch(
        jnp.asarray(np.repeat(np.eye(states), 2, axis=0)),
        jnp.tile(jnp.arange(2), states)[:, None],
        flat(gain - 0.5),
        flat(chain.advantage(pi, gamma))[:, None],
        weight=flat(visits[:, None] * pi / visits.sum()),
        cost_return=jnp.asarray([total]),
        cost_limit=jnp.asarray([10 * total]),
        horizon=jnp.asarray(1 / (1 - gamma)),
        length=jnp.asarray(visits.sum()),
    )
    algorithm = CTRPO(cost_scale=cost_scale, region=REGION, critic=FIT, beta=1e-6)
    policy = tabular_policy(pi)
    critics = jax.tree.map(
        lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x,
        init_critics(jax.random.key(0), states, 1, (1,)),
    )
    learner = Learner(policy, critics, algorithm.init(1, policy))
    after = jax.jit(algorithm.improve)(learner, batch, jax.random.key(0))
    assert int(after.metrics["status"]) == 0
    true = chain.total(probabilities(after.policy, states)) - total
    return float(after.spent[0]) / true


@pytest.mark.parametrize(
    ("chain", "at_99", "at_999"),
    [
        (at_once(), 1.0, 1.0),
        (persisting(25), 0.80, 0.98),
        (persisting(100), 0.52, 0.92),
        (persisting(350), 0.28, 0.80),
        (surviving(50), 0.68, 0.96),
        (surviving(350), 0.23, 0.75),
    ],
    ids=["at once", "persist 25", "persist 100", "persist 350", "survive 50", "survive 350"],
)
def test_kappa_of_an_episode_is_only_as_good_as_the_discount(chain, at_99, at_999, float64):
    """κ = length turns a mean advantage into a sum over the episode, but the advantage itself has
    forgotten what comes after 1/(1 − γ_c) steps. The table of docs/training.md."""
    found = [ratio(chain, gamma) for gamma in (0.99, 0.999)]
    np.testing.assert_allclose(found, [at_99, at_999], atol=0.006)


def test_the_closed_form(float64):
    """One state: A(a) − A(b) = γ Δ V_γ, so the ratio is γ V_γ / V_1 with V_γ = c / (1 − γ k)."""
    k = 1 - 1.05 / 350
    for gamma in (0.9, 0.99, 0.999):
        expected = gamma * (1 - k) / (1 - gamma * k)
        assert ratio(surviving(350), gamma) == pytest.approx(expected, rel=5e-3)


def test_without_discount_it_is_exact(float64):
    """Negative control of the instrument: only γ_c stands between prediction and truth."""
    for chain in (persisting(350), surviving(350)):
        assert ratio(chain, 1 - 1e-9) == pytest.approx(1.0, abs=5e-3)


def test_the_published_unit_is_off_by_the_quotient_of_the_horizons(float64):
    """κ = 1/(1 − γ) = 100 where an episode lasts 1000: a tenth, whatever the costs do."""
    assert ratio(at_once(), 0.99, "discount") == pytest.approx(0.1, rel=1e-3)
    assert ratio(at_once(), 0.99, "none") == pytest.approx(0.001, rel=1e-3)
