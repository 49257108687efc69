# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/paper.md that follow from code: claims with their controls, and the errata.

`python evidence/paper_page.py` writes them between the page's marks.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.paper.claims import EVERYWHERE, WITH_MANY_OPTIMA
from tables import Rows, markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
MARKS = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.S)
ITEMS: dict[str, tuple[str, str]] = {
    "occupancies satisfy the flow equations": ("occupancies form a polytope", "3e-17"),
    "performance difference lemma": ("performance difference lemma", "3e-16"),
    "rank-K formula solves the constrained Gramian": ("the Hessian is rank one more", "8e-17"),
    "escort and log-linear policies move the same way": ("regular parametrisations", "2e-15"),
    "strong duality of the linear programme": ("CMDP as a linear programme", "3e-15"),
    "mirror path = constrained natural gradient flow": ("C-NPG is mirror descent", "2e-10"),
    "the flow never leaves the interior of the safe set": ("Theorem 4.4: safe in training", "0"),
    "V_r converges to the constrained optimum": ("Theorem 4.5: convergence", "2e-5"),
    "C-TRPO tends to CPO as β → 0": ("approximation of CPO", "9e-7"),
    "the ideal trust region lies in the safe set": ("trust regions hold safe policies only", "0"),
    "reward and violation bounds of the update": (
        "reward bound and worst-case violation of an update",
        "0",
    ),
    "Φ_K induces D_K": ("the KL of TRPO is a Bregman divergence", "4e-16"),
    "Φ_C induces D_C": ("the constrained KL is one too", "1e-15"),
    "∇𝔸 = ∇V at the old policy": ("the surrogate matches to first order", "2e-13"),
    "∇²D̄_C = ∇²D_C = G_C": ("the divergences match to second order; C-NPG's metric", "8e-12"),
    "trust regions are nested in β": ("approximation of CPO, its proof", "3e-13"),
    "as β → ∞ nothing is spent": ("β → ∞ stops any rise of the predicted cost", "5e-6"),
    "δ(β) = δ − βΨ bounds the KL of the update": ("worst-case violation: δ(β)", "4e-14"),
    "plain steps θ + εG⁺∇V follow the flow": ("C-NPG as an algorithm", "4e-12"),
    "as β falls the update tends to CPO's": ("interior-point remark: decreasing β", "9e-7"),
    "the limit is the Bregman projection": ("implicit bias", "1e-12"),
    "the limit meets as few limits as an optimum must": ("implicit bias, active limits", "0"),
}
"""Claim → the paper's item, and the worst deviation of `holdfast verify --random 4 --seed 1`."""
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


def claims() -> Rows:
    """A row for each claim of `verify`."""
    rows: Rows = [["claim of `verify`", "in the paper", "worst", "allowed", "verdict"]]
    for text, (_, allowed) in (EVERYWHERE | WITH_MANY_OPTIMA).items():
        item, worst = ITEMS[text]
        rows.append([text, item, worst, f"{allowed:g}", "holds"])
    return rows


def errata() -> Rows:
    rows: Rows = [["", "printed", "right", "test"]]
    for number, (printed, right, tests) in enumerate(ERRATA, 1):
        named = ", ".join(f"`{test}`" for test in tests.split(", "))
        rows.append([str(number), printed, right, named])
    return rows


def filled(text: str) -> str:
    found = {"claims": markdown(claims()), "errata": markdown(errata())}
    return MARKS.sub(lambda mark: mark[1] + found[mark[2]] + mark[3], text)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
