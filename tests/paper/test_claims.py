# SPDX-License-Identifier: Apache-2.0
"""What `verify` measures, and that each measurement notices something wrong.

A control replaces one ingredient of a claim (the metric, a sign, a factor) by a wrong one; the
claim must then fail, on the toy as well as on random CMDPs.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.own_barrier import use_barrier
from holdfast.paper import claims
from holdfast.paper.geometry_claims import Choice, safe_mirror_gradient
from holdfast.tabular.cmdp import FiniteCMDP, Floats
from holdfast.tabular.flow import Geometry, Trajectory, ascend, direction, flow, natural_gradient
from holdfast.tabular.instances import uniform_policy
from holdfast.tabular.lp import optimum
from holdfast.tabular.mirror import bregman_projection, mirror_path
from holdfast.tabular.occupancy import (
    ExactValues,
    advantage,
    constrained_gramian,
    evaluate,
    occupancy,
    policy_advantage,
    policy_of,
)
from holdfast.tabular.parameters import Parametrisation, log_linear
from holdfast.tabular.potentials import psi
from holdfast.tabular.trust import bregman_divergence, update

NPG = Geometry(0.0)


def pushed_out(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry) -> Floats:
    """The barrier's correction with the wrong sign."""
    return 2.0 * direction(cmdp, found, NPG) - direction(cmdp, found, geometry)


def unguarded(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry) -> Floats:
    return direction(cmdp, found, NPG)


def wandering(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry) -> Floats:
    """A direction that has nothing to do with the metric: reward and cost together."""
    return found.adv_r + found.adv_c.sum(axis=0)


def few_features(features: Floats) -> Parametrisation:
    """All features make the policy, but only the first may change it."""
    whole = log_linear(features)
    return replace(whole, scores=lambda theta: whole.scores(theta)[..., :1])


def spending(cmdp: FiniteCMDP, policy: Floats, times: Floats, geometry: Geometry) -> Trajectory:
    """An optimum, but of all of them the one that costs most: the last cost pays a little."""
    greedy = optimum(replace(cmdp, reward=cmdp.reward + 1e-4 * cmdp.cost[-1]))
    return Trajectory.of(np.ones(1), [evaluate(cmdp, greedy.policy)], "")


CONTROLS: list[tuple[str, str, str, Callable[..., Any]]] = [
    (
        "occupancies satisfy the flow equations",
        "paper.claims.occupancy",
        "another discount",
        lambda cmdp, policy: occupancy(replace(cmdp, gamma=0.5 * cmdp.gamma), policy),
    ),
    (
        "performance difference lemma",
        "paper.claims.advantage",
        "normalised advantages",
        lambda cmdp, policy, signal: (1.0 - cmdp.gamma) * advantage(cmdp, policy, signal),
    ),
    (
        "performance difference lemma",
        "paper.claims.occupancy",
        "the old policy's occupancy",
        lambda cmdp, policy: occupancy(cmdp, uniform_policy(cmdp)),
    ),
    (
        "rank-K formula solves the constrained Gramian",
        "paper.claims.direction",
        "another barrier",
        lambda cmdp, found, geometry: direction(cmdp, found, Geometry(1.0, "log")),
    ),
    (
        "rank-K formula solves the constrained Gramian",
        "paper.claims.direction",
        "the barrier with the wrong sign",
        pushed_out,
    ),
    (
        "escort and log-linear policies move the same way",
        "paper.claims.log_linear",
        "too few features",
        few_features,
    ),
    (
        "escort and log-linear policies move the same way",
        "paper.claims.natural_gradient",
        "another metric",
        lambda cmdp, found, scores, geometry: natural_gradient(cmdp, found, scores, Geometry(1.1)),
    ),
    (
        "strong duality of the linear programme",
        "paper.claims.optimum",
        "doubled prices",
        lambda cmdp: replace(optimum(cmdp), multiplier=2.0 * optimum(cmdp).multiplier),
    ),
    (
        "mirror path = constrained natural gradient flow",
        "paper.claims.flow",
        "another barrier",
        lambda cmdp, policy, times, geometry, tolerance: flow(cmdp, policy, times, Geometry(0.5)),
    ),
    (
        "mirror path = constrained natural gradient flow",
        "paper.claims.flow",
        "another weight",
        lambda cmdp, policy, times, geometry, tolerance: flow(
            cmdp, policy, times, Geometry(0.51, "log")
        ),
    ),
    (
        "the flow never leaves the interior of the safe set",
        "tabular.flow.direction",
        "the barrier with the wrong sign",
        pushed_out,
    ),
    (
        "the flow never leaves the interior of the safe set",
        "tabular.flow.direction",
        "no barrier",
        unguarded,
    ),
    (
        "the flow never leaves the interior of the safe set",
        "tabular.flow.direction",
        "a direction of no metric",
        wandering,
    ),
    (
        "V_r converges to the constrained optimum",
        "paper.claims.mirror_path",
        "no barrier",
        lambda cmdp, policy, times, geometry: mirror_path(cmdp, policy, times, NPG),
    ),
    (
        "V_r converges to the constrained optimum",
        "paper.claims.mirror_path",
        "reward with the wrong sign",
        lambda cmdp, policy, times, geometry: mirror_path(
            replace(cmdp, reward=-cmdp.reward), policy, times, geometry
        ),
    ),
    (
        "C-TRPO tends to CPO as β → 0",
        "paper.claims.update",
        "β stays",
        lambda cmdp, policy, radius, method, geometry: update(
            cmdp, policy, radius, method, Geometry(1.0)
        ),
    ),
    (
        "C-TRPO tends to CPO as β → 0",
        "paper.claims.update",
        "limits forgotten",
        lambda cmdp, policy, radius, method, geometry: update(
            cmdp, policy, radius, "trpo" if method == "cpo" else method, geometry
        ),
    ),
    (
        "the ideal trust region lies in the safe set",
        "paper.claims.ideal_update",
        "the surrogate's region",
        lambda cmdp, policy, radius, geometry: (
            update(cmdp, policy, radius, "ctrpo", geometry).policy
        ),
    ),
    (
        "reward and violation bounds of the update",
        "paper.claims.update",
        "surrogates taken as exact",
        lambda cmdp, policy, radius, method, geometry: replace(
            update(cmdp, policy, radius), kl=0.0
        ),
    ),
    (
        "the limit meets as few limits as an optimum must",
        "paper.claims.mirror_path",
        "an optimum that spends what it may",
        spending,
    ),
    (
        "the limit meets as few limits as an optimum must",
        "paper.claims.mirror_path",
        "no barrier at the last limit",
        lambda cmdp, policy, times, geometry: mirror_path(
            cmdp, policy, times, Geometry((1.0,) * (cmdp.num_constraints - 1) + (0.0,))
        ),
    ),
    (
        "Φ_K induces D_K",
        "paper.geometry_claims.bregman_divergence",
        "arguments swapped",
        lambda cmdp, first, second, geometry: bregman_divergence(cmdp, second, first, geometry),
    ),
    (
        "Φ_C induces D_C",
        "paper.geometry_claims.safe_mirror_gradient",
        "the printed sign of φ'",
        lambda cmdp, d, geometry: (
            2.0 * np.log(policy_of(d)) - safe_mirror_gradient(cmdp, d, geometry)
        ),
    ),
    (
        "∇𝔸 = ∇V at the old policy",
        "paper.geometry_claims.policy_advantage",
        "normalised advantages",
        lambda old, adv, policy: 0.1 * policy_advantage(old, adv, policy),
    ),
    (
        "∇²D̄_C = ∇²D_C = G_C",
        "paper.geometry_claims.constrained_gramian",
        "the KL's alone",
        lambda cmdp, policy, weight: constrained_gramian(cmdp, policy, 0.0 * weight),
    ),
    (
        "∇²D̄_C = ∇²D_C = G_C",
        "paper.geometry_claims.constrained_gramian",
        "the barrier's alone",
        lambda cmdp, policy, weight: (
            constrained_gramian(cmdp, policy, weight)
            - constrained_gramian(cmdp, policy, 0.0 * weight)
        ),
    ),
    (
        "trust regions are nested in β",
        "paper.geometry_claims.update",
        "a region without its barrier",
        lambda cmdp, policy, radius, method, geometry: update(
            cmdp, policy, radius, "trpo" if geometry.beta > 10.0 else method, geometry
        ),
    ),
    (
        "as β → ∞ nothing is spent",
        "paper.geometry_claims.update",
        "β stays",
        lambda cmdp, policy, radius, method, geometry: update(
            cmdp, policy, radius, method, Geometry(1.0)
        ),
    ),
    (
        "δ(β) = δ − βΨ bounds the KL of the update",
        "paper.geometry_claims.psi",
        "a doubled price",
        lambda potential, slack, spent: 2.0 * psi(potential, slack, spent),
    ),
    (
        "plain steps θ + εG⁺∇V follow the flow",
        "paper.geometry_claims.ascend",
        "the metric of the KL",
        lambda cmdp, policy, geometry, **given: ascend(cmdp, policy, NPG, **given),
    ),
    (
        "as β falls the update tends to CPO's",
        "paper.geometry_claims.update",
        "β stays",
        lambda cmdp, policy, radius, method, geometry=Geometry(): update(
            cmdp, policy, radius, method, Geometry(1.0)
        ),
    ),
    (
        "the limit is the Bregman projection",
        "paper.claims.bregman_projection",
        "another weight",
        lambda cmdp, policy, geometry: bregman_projection(cmdp, policy, Geometry(1.1)),
    ),
]


@pytest.mark.parametrize(("text", "target", "label", "wrong"), CONTROLS)
def test_each_claim_notices_what_is_wrong(
    text: str, target: str, label: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = target.rsplit(".", 1)
    monkeypatch.setattr(import_module(f"holdfast.{module}"), name, wrong)
    for claim in claims.check_claims(2, seed=1, only=text):
        assert not claim.holds, claim


def test_every_claim_has_a_control() -> None:
    found = claims.check_claims(2, seed=1)
    assert [claim for claim in found if not claim.holds] == []
    assert {claim.text for claim in found} == {text for text, *_ in CONTROLS}


def test_a_choice_replaces_the_defaults() -> None:
    choice = Choice(beta=0.3, barrier="log", radius=0.02)
    assert choice.geometry(1.0) == Geometry(0.3, "log") and choice.radii(0.1, 0.2) == (0.02,)
    assert Choice().geometry(0.5) == Geometry(0.5) and Choice().radii(0.1, 0.2) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("beta", "barrier", "radius"),
    [
        (0.3, "log", 0.02),
        (10.0, "entropy", 0.5),
        (0.01, "entropy", None),
        (None, "reciprocal", None),
        (10.0, "reciprocal", 0.5),
    ],
)
def test_claims_hold_with_another_weight_barrier_and_radius(
    beta: float | None, barrier: str, radius: float | None
) -> None:
    """Limits in β and time are taken as far as the barrier needs: 1/x is dear near its limit."""
    own = Path(__file__).parents[2] / "docs" / "examples" / "barriers.py"
    name = use_barrier(f"{own}:reciprocal") if barrier == "reciprocal" else barrier
    choice = Choice(beta, name, radius)
    found = claims.check_claims(1, seed=1, choice=choice)
    assert [claim for claim in found if not claim.holds] == []
