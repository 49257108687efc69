# SPDX-License-Identifier: Apache-2.0
"""Exact natural policy gradients, constrained (C-NPG) and plain (NPG), in softmax logits θ[s,a].

    G_C = G_K + Σ_i w_i ∇V_{c_i} ∇V_{c_i}ᵀ,  w_i = β_i φ''(b_i − V_{c_i}),      x = G_C⁺ ∇V_r

For the softmax policy G_K⁺ ∇V_f is the advantage A_f, centred in each state. With R_i = E_d[A_{c_i}
A_r] and S_ij = E_d[A_{c_i} A_{c_j}] the rank-K formula is

    x = A_r − A_cᵀ (W⁻¹ + S)⁻¹ R

One step costs one policy evaluation and a K×K solve: no Jacobian, no Gramian, any number of states.
In other parameters the same x is a dense least-squares problem of S·A + K rows.

`flow` integrates θ' = x in continuous time. `ascend` takes steps by one of three rules. `plain` is
the paper's θ += dt·x, `normalised` the published figure's θ += dt·x/‖x‖; both may overshoot. `safe`
halves the normalised step while any slack would fall below a tenth of its value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from holdfast.tabular.cmdp import FiniteCMDP, Floats, check_policy
from holdfast.tabular.occupancy import ExactValues, advantage, evaluate
from holdfast.tabular.parameters import SOFTMAX, Parametrisation
from holdfast.tabular.potentials import POTENTIALS, Potential

KEEP = 0.1
"""Share of each slack that remains after a `safe` step."""


@dataclass(frozen=True)
class Geometry:
    """The metric of the gradient."""

    beta: float | tuple[float, ...] = 1.0
    """β, weight of the barriers: one for all constraints or one for each; 0 is plain NPG."""
    barrier: str = "entropy"
    """φ: `entropy` (x log x), `log` (−log x), or another key of `POTENTIALS`."""
    log_occupancy: bool = False
    """Parity with the published figure: barrier normals from ⟨c, log d⟩ instead of ⟨c, d⟩ (D32)."""

    def __post_init__(self) -> None:
        if self.barrier not in POTENTIALS:
            raise ValueError(
                f"unknown barrier {self.barrier!r}; use one of {', '.join(POTENTIALS)}."
            )
        if np.any(np.asarray(self.beta) < 0.0):
            raise ValueError(f"beta={self.beta} must not be negative; 0 switches a barrier off.")

    @property
    def potential(self) -> Potential:
        """φ and the maps derived from it."""
        return POTENTIALS[self.barrier]

    def weights(self, cmdp: FiniteCMDP) -> Floats:
        """β [K]; 0 where the limit is infinite."""
        beta = np.asarray(self.beta, dtype=np.float64)
        if beta.ndim and beta.shape != cmdp.cost_limit.shape:
            raise ValueError(
                f"beta={self.beta} names {beta.size} constraints, but the CMDP has "
                f"{cmdp.num_constraints}: give one number, or one for each."
            )
        return np.where(np.isfinite(cmdp.cost_limit), beta, 0.0)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A trajectory of policies, start included: T points."""

    time: Floats
    """[T] continuous time for `flow`, step number otherwise."""
    policy: Floats
    """[T, S, A]"""
    reward_return: Floats
    """[T]"""
    cost_return: Floats
    """[T, K]"""
    stopped: str
    """The reason of its end, in words."""

    @staticmethod
    def of(time: Floats, points: list[ExactValues], stopped: str) -> "Trajectory":
        """The path through evaluated policies."""
        return Trajectory(
            time=time,
            policy=np.stack([point.policy for point in points]),
            reward_return=np.array([point.reward_return for point in points]),
            cost_return=np.stack([point.cost_return for point in points]),
            stopped=stopped,
        )


def direction(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry) -> Floats:
    """x = G_C⁺ ∇V_r [S, A], the least-norm natural gradient at an evaluated policy."""
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    x = _centred(found, found.adv_r)
    if not np.any(on):
        return x
    normals = _normals(cmdp, found, geometry, on)
    softness = geometry.potential.softness(found.slack[on]) / beta[on]
    weighted = (found.occupancy * normals).reshape(len(normals), -1)
    spread = weighted @ normals.reshape(len(normals), -1).T
    rate = weighted @ found.adv_r.reshape(-1)
    price = np.linalg.solve(np.diag(softness) + spread, rate)
    return x - np.einsum("k,ksa->sa", price, _centred(found, normals))


def penalised_direction(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry) -> Floats:
    """G_K⁺ ∇(V_r − Σ β_i φ(b_i − V_{c_i})) [S, A]: the barrier in the objective."""
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    price = -beta[on] * geometry.potential.slope(found.slack[on])
    return _centred(found, found.adv_r - np.einsum("k,ksa->sa", price, found.adv_c[on]))


def natural_gradient(
    cmdp: FiniteCMDP, found: ExactValues, scores: Floats, geometry: Geometry = Geometry()
) -> Floats:
    """x = G_C⁺ ∇V_r [P] in parameters with scores ∇_θ log π [S, A, P], from their Gramian.

    G_C = MᵀM and ∇V_r = Mᵀy for M = (√d ∇log π; √w_i E_d[A_{c_i} ∇log π]), y = (√d A_r; 0), so x
    is the least-norm least-squares solution, without squaring M's condition.
    """
    root = np.sqrt(found.occupancy).reshape(-1, 1)
    rows = root * scores.reshape(root.size, -1)
    beta = geometry.weights(cmdp)
    on = beta > 0.0
    weight = beta[on] * geometry.potential.curvature(found.slack[on])
    normals = _normals(cmdp, found, geometry, on).reshape(len(weight), root.size)
    tall = np.concatenate([rows, np.sqrt(weight)[:, None] * ((normals * root.T) @ rows)])
    wanted = np.append(root[:, 0] * found.adv_r.reshape(-1), np.zeros(len(weight)))
    return np.asarray(np.linalg.lstsq(tall, wanted, rcond=1e-12)[0], np.float64)


def _normals(cmdp: FiniteCMDP, found: ExactValues, geometry: Geometry, on: Any) -> Floats:
    """The normals of the barriers' metric: A_c of the constraints with a barrier [·, S, A]."""
    if not geometry.log_occupancy:
        return found.adv_c[on]
    with np.errstate(divide="ignore", invalid="ignore"):
        return advantage(cmdp, found.policy, cmdp.cost[on] / found.occupancy)


def _centred(found: ExactValues, adv: Floats) -> Floats:
    """The least-norm representative of a natural gradient: mean zero in each visited state."""
    visited = (found.visits > 0.0)[:, None]
    return np.where(visited, adv - adv.mean(axis=-1, keepdims=True), 0.0)


def ascend(
    cmdp: FiniteCMDP,
    policy: ArrayLike,
    geometry: Geometry = Geometry(),
    rule: Literal["plain", "normalised", "safe"] = "safe",
    dt: float = 0.01,
    steps: int = 10_000,
    parameters: Parametrisation = SOFTMAX,
) -> Trajectory:
    """Follow the natural gradient in discrete steps from a positive policy.

    Steps are straight in the parameters, so other parameters give other policies unless dt is
    small.
    """
    theta, guarded = _start(cmdp, policy, geometry, parameters)
    found = evaluate(cmdp, parameters.policy(theta))
    points, stopped = [found], f"took all {steps} steps"
    for _ in range(steps):
        x = _velocity(cmdp, found, theta, geometry, parameters)
        norm = float(np.linalg.norm(x))
        if not norm > 1e-14:
            stopped = "the natural gradient vanished"
            break
        if rule == "safe":
            at = lambda moved: evaluate(cmdp, parameters.policy(moved))
            theta, moved = _safe_step(at, theta, found, dt / norm * x, guarded)
            if moved is None:
                stopped = "no step leaves a tenth of every slack"
                break
            found = moved
        else:
            theta = theta + (dt if rule == "plain" else dt / norm) * x
            found = evaluate(cmdp, parameters.policy(theta))
        points.append(found)
        if np.any(found.slack[guarded] <= 0.0):
            stopped = f"crossed a limit in step {len(points) - 1}"
            break
    return Trajectory.of(np.arange(len(points), dtype=np.float64), points, stopped)


def _safe_step(
    at: Callable[[Floats], ExactValues],
    theta: Floats,
    found: ExactValues,
    step: Floats,
    guarded: Any,
) -> tuple[Floats, ExactValues | None]:
    """The longest of step, step/2, step/4, ... that keeps a tenth of every guarded slack."""
    floor = KEEP * found.slack[guarded]
    for _ in range(60):
        moved = at(theta + step)
        if np.all(moved.slack[guarded] >= floor):
            return theta + step, moved
        step = 0.5 * step
    return theta, None


def flow(
    cmdp: FiniteCMDP,
    policy: ArrayLike,
    times: ArrayLike,
    geometry: Geometry = Geometry(),
    tolerance: float = 1e-10,
    penalised: bool = False,
    parameters: Parametrisation = SOFTMAX,
) -> Trajectory:
    """Integrate θ' = G_C⁺ ∇V_r and report the policies at `times` (increasing, from 0).

    `penalised` puts the barrier into the objective instead of the metric, as penalty methods do.
    """
    if penalised and parameters is not SOFTMAX:
        raise ValueError("penalised flows are in softmax logits only; leave out `parameters`.")
    theta, guarded = _start(cmdp, policy, geometry, parameters)

    def velocity(_: float, flat: Floats) -> Floats:
        here = flat.reshape(theta.shape)
        found = evaluate(cmdp, parameters.policy(here))
        if np.any(found.slack[guarded] <= 0.0):
            # A trial stage left the safe set; NaN makes the integrator reject and shorten it.
            return np.full_like(flat, np.nan)
        if penalised:
            return penalised_direction(cmdp, found, geometry).reshape(-1)
        return _velocity(cmdp, found, here, geometry, parameters).reshape(-1)

    when = np.asarray(times, dtype=np.float64)
    integrate: Any = solve_ivp
    with np.errstate(invalid="ignore"):
        solution = integrate(
            velocity,
            (0.0, float(when[-1])),
            theta.reshape(-1),
            method="DOP853",
            t_eval=when,
            rtol=tolerance,
            atol=tolerance,
        )
    if not len(solution.t):
        raise ValueError(
            f"the flow could not be integrated up to times[0]={when[0]:g}: a slack became as small "
            "as rounding; give earlier times, or a larger beta."
        )
    points = [evaluate(cmdp, parameters.policy(y.reshape(theta.shape))) for y in solution.y.T]
    return Trajectory.of(np.asarray(solution.t), points, str(solution.message))


def _velocity(
    cmdp: FiniteCMDP,
    found: ExactValues,
    theta: Floats,
    geometry: Geometry,
    parameters: Parametrisation,
) -> Floats:
    """θ' = G_C⁺ ∇V_r, of θ's shape; in closed form for softmax logits."""
    if parameters is SOFTMAX:
        return direction(cmdp, found, geometry)
    x = natural_gradient(cmdp, found, parameters.scores(theta), geometry)
    return x.reshape(theta.shape)


def _start(
    cmdp: FiniteCMDP, policy: ArrayLike, geometry: Geometry, parameters: Parametrisation
) -> tuple[Floats, Any]:
    """(θ, which limits have a barrier [K]); ValueError for an invalid start."""
    pi = check_policy(cmdp, policy)
    if np.any(pi <= 0.0):
        raise ValueError(
            f"the start policy has an entry {pi.min():.3g}, but natural gradients need every "
            "action to be possible; mix it with a little of the uniform policy."
        )
    found, guarded = evaluate(cmdp, pi), geometry.weights(cmdp) > 0.0
    if np.any(found.slack[guarded] <= 0.0):
        raise ValueError(
            f"the start policy costs {found.cost_return.tolist()} against limits "
            f"{cmdp.cost_limit.tolist()}; start inside the safe set (`interior_policy` finds one)."
        )
    return parameters.inverse(pi), guarded
