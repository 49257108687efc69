# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/paper.md that follow from code: claims with their controls, and the errata.

`python evidence/paper_page.py` measures the claims and writes both between the page's marks.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast.paper.claims import EVERYWHERE, WITH_MANY_OPTIMA, check_claims
from tables import Rows, markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
MARKS = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.S)
ITEMS: dict[str, str] = {
    "occupancies satisfy the flow equations": "occupancies form a polytope",
    "performance difference lemma": "performance difference lemma",
    "rank-K formula solves the constrained Gramian": "the Hessian is rank one more",
    "escort and log-linear policies move the same way": "regular parametrisations",
    "strong duality of the linear programme": "CMDP as a linear programme",
    "mirror path = constrained natural gradient flow": "C-NPG is mirror descent",
    "the flow never leaves the interior of the safe set": "Theorem 4.4: safe in training",
    "V_r converges to the constrained optimum": "Theorem 4.5: convergence",
    "C-TRPO tends to CPO as β → 0": "approximation of CPO (Proposition 3¹)",
    "the ideal trust region lies in the safe set": "trust regions hold safe policies only",
    "reward and violation bounds of the update": "bounds on reward and violation (Proposition 4¹)",
    "Φ_K induces D_K": "the KL of TRPO is a Bregman divergence",
    "Φ_C induces D_C": "the constrained KL is one too",
    "∇𝔸 = ∇V at the old policy": "the surrogate matches to first order",
    "∇²D̄_C = ∇²D_C = G_C": "the divergences match to second order; C-NPG's metric",
    "trust regions are nested in β": "approximation of CPO, its proof",
    "as β → ∞ nothing is spent": "β → ∞ stops any rise of the predicted cost",
    "δ(β) = δ − βΨ bounds the KL of the update": "worst-case violation: δ(β)",
    "plain steps θ + εG⁺∇V follow the flow": "C-NPG as an algorithm",
    "as β falls the update tends to CPO's": "interior-point remark: decreasing β",
    "the limit is the Bregman projection": "implicit bias",
    "the limit meets as few limits as an optimum must": "implicit bias, active limits",
}
"""Claim → the paper's item; a number with ¹ is that of its first version."""
RANDOM, SEED = 4, 1
"""Of the CMDPs on which the page measures the claims."""
ERRATA: tuple[tuple[str, str, str], ...] = (
    (
        "φ'(x) → +∞ as x → 0",
        "−∞: φ' of a convex φ increases",
        "test_the_slope_tends_to_minus_infinity",
    ),
    (
        "Ψ and D_φ with −φ'(δ_b) x, twice; with plus once",
        "plus: else Ψ'(0) ≠ 0 and Ψ < 0 somewhere; ∇_d φ(b − c·d) = −c φ'",
        "test_the_sign_before_the_slope",
    ),
    (
        "Ψ → ∞ at δ_b (proof of the CPO limit)",
        "for x log x Ψ(δ_b) = δ_b is finite, and ∞ only beyond; the conclusion stays. A region "
        "touches the limit below slack δ/β",
        "test_the_price_of_the_whole_slack_is_finite_for_x_log_x, "
        "test_where_an_entropy_region_touches_the_limit",
    ),
    (
        "δ(β) decreases to 0 with β, so that the bound becomes V_c(π_{k+1}) ≤ V_c(π_k)",
        "neither: on the toy with δ = 0.1 it is .0999, .0823, .0816, .0960 and .99995 δ for "
        "β = 1e-3, 1, 10, 100, 1e5, and V_c rises. Only what is spent tends to 0",
        "test_what_the_barrier_leaves_of_the_radius_neither_falls_nor_vanishes",
    ),
    (
        "C-TRPO's bound is higher than CPO's",
        "lower: δ(β) ≤ δ and 𝔸_c < δ_b",
        "test_the_bound_of_c_trpo_is_the_lower_one",
    ),
    (
        "g_k = ∇𝔸_c",
        "∇𝔸_r; the cost's only in recovery",
        "test_the_gradient_of_the_update_is_that_of_the_reward",
    ),
    (
        "the regret sums i = 0, …, m",
        "i = 1, …, m: there are m costs",
        "test_the_regret_counts_each_constraint_once",
    ),
    (
        "advantages carry 1 − γ",
        "then ∇𝔸 = ∇V, the performance difference and both bounds lack 1/(1 − γ)",
        "test_normalised_advantages_lack_a_factor",
    ),
    (
        "ideal D_C(d_k‖d), surrogate D̄_C(π‖π_k), both called Bregman",
        "Σ d_k KL(π‖π_k) is one of Φ_K in neither order; they agree to second order",
        "test_the_surrogates_kl_is_no_bregman_divergence_of_the_entropy",
    ),
    (
        "D_K blows up when either policy meets the boundary; KL's support condition",
        "only in its second argument; finite if q = 0 implies p = 0",
        "test_the_entropy_is_infinite_in_its_second_argument_only",
    ),
    (
        "appendix: step √δ/‖·‖_G",
        "√(2δ)/‖·‖_G, as in the main text",
        "test_the_step_length_has_a_factor_two",
    ),
    (
        "comparison with CPO: both quadratic constraints without ½",
        "½ uᵀGu ≤ δ: without it the step is √2 too short",
        "test_the_quadratic_constraint_has_a_half",
    ),
    (
        "the Hessian of D_φ equals the Gramian",
        "that of D̄_KL + β D̄_φ does; D_φ's alone has rank one",
        "test_the_barriers_hessian_alone_is_not_the_gramian",
    ),
    (
        "a bound with 𝔸^{π'}(π)",
        "𝔸^π(π'): with the other order the predicted change has the opposite sign",
        "test_the_policy_advantage_is_of_the_new_policy_under_the_old",
    ),
    (
        "the closed safe set is invariant",
        "its interior; on the boundary the metric is not defined",
        "test_only_the_interior_is_invariant",
    ),
    (
        "implicit bias: argmin D_C(d*‖d_0), also for −log x",
        "infinite for every optimum on its limit; drop the term that all optima share",
        "test_the_implicit_bias_is_vacuous_for_the_log_barrier_on_active_limits",
    ),
    (
        "toy trajectories of C-NPG",
        "the published code took the Jacobian of log d (D32)",
        "test_the_printed_toy_trajectories_use_the_gramian_of_log_d",
    ),
    (
        "b_H = 0.8 b throughout",
        "the large table's C-TRPO row is of runs with h = 1 (24 of 24 cells), as are the noise "
        "study's; the released bar chart has h = 0.8. b_H is also used as a fraction",
        "test_the_printed_tables_c_trpo_has_no_hysteresis",
    ),
)
"""(printed, right, tests)."""


def measured() -> dict[str, float]:
    """Claim → its worst deviation: what `holdfast verify --random 4 --seed 1` prints."""
    worst: dict[str, float] = defaultdict(float)
    for claim in check_claims(RANDOM, SEED):
        worst[claim.text] = max(worst[claim.text], claim.worst)
    return dict(worst)


def controls() -> dict[str, list[str]]:
    """Claim → what its controls get wrong, from tests/paper/test_claims.py."""
    sys.path.insert(0, str(ROOT / "tests" / "paper"))
    tested: Any = import_module("test_claims")
    found: dict[str, list[str]] = defaultdict(list)
    for text, _, label, _ in tested.CONTROLS:
        found[text].append(label)
    return dict(found)


def claims(worst: Mapping[str, float]) -> Rows:
    """A row for each claim of `verify`."""
    head = ["claim of `verify`", "in the paper", "worst", "allowed", "verdict", "fails with"]
    rows: Rows = [head]
    wrong = controls()
    for text, (_, allowed) in (EVERYWHERE | WITH_MANY_OPTIMA).items():
        verdict = "holds" if worst[text] <= allowed else "**fails**"
        numbers = [f"{x:.0e}" if x else "0" for x in (worst[text], allowed)]
        rows.append([text, ITEMS[text], *numbers, verdict, "; ".join(wrong[text])])
    return rows


def on_page(text: str) -> dict[str, float]:
    """Claim → the worst deviation that the page shows."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    return {line[0]: float(line[2]) for line in lines if line[0] in ITEMS}


def errata() -> Rows:
    rows: Rows = [["", "printed", "right", "test"]]
    for number, (printed, right, tests) in enumerate(ERRATA, 1):
        named = ", ".join(f"`{test}`" for test in tests.split(", "))
        rows.append([str(number), printed, right, named])
    return rows


def filled(text: str, worst: Mapping[str, float]) -> str:
    found = {"claims": markdown(claims(worst)), "errata": markdown(errata())}
    return MARKS.sub(lambda mark: mark[1] + found[mark[2]] + mark[3], text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), measured()))
