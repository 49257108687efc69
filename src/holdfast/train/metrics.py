# SPDX-License-Identifier: Apache-2.0
"""What an epoch says of itself: estimates of return and cost, regret, the row of progress.csv."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import jax
import numpy as np

from holdfast.core.critic import CriticFit
from holdfast.core.diagnosis import signal_share, worst_case
from holdfast.core.episodes import Episodes
from holdfast.core.trust_region import TrustRegion
from holdfast.core.types import Batch, Learner, in_units
from holdfast.envs.base import Floats, VecEnv
from holdfast.run import Run
from holdfast.train.state import State
from holdfast.update import Advantages

CLOCK_COLUMNS = ("steps_per_second", "time_rollout", "time_estimate", "time_update")
"""The only columns that differ between two runs of the same (config, seed)."""


def cost_columns(run: Run, episodes: Episodes) -> slice:
    """Where the constrained quantity stands in the rows of `Episodes`."""
    k = episodes.constraints
    return slice(2, 2 + k) if run.cost_criterion == "undiscounted" else slice(2 + k, None)


def cost_estimate(run: Run, episodes: Episodes) -> tuple[Floats, Floats, float]:
    """([K] Ĵ_c, [K] its standard error, mean episode length), all of the estimate in use."""
    columns = cost_columns(run, episodes)
    if run.cost_estimate == "window":
        known, error = episodes.smooth, episodes.smooth_error
    else:
        known, error = episodes.raw, episodes.raw_error
    return known[columns], error[columns], float(known[1])


def excess(run: Run, episodes: Episodes, limits: Floats) -> Floats:
    """[2, K] positive part of (smoothed, raw) cost minus limit in this epoch."""
    columns = cost_columns(run, episodes)
    both = np.stack([episodes.smooth[columns], episodes.raw[columns]])
    return np.maximum(both - limits, 0.0)


def foresee(
    run: Run, env: VecEnv, state: State, spent: Floats | None
) -> tuple[State, dict[str, float]]:
    """The state with what the update predicts [K], if it does, and the columns that tell of it."""
    if spent is None:
        return state, {}
    forecast, realised = state.forecast.after(cost_estimate(run, state.episodes)[0], spent)
    metrics = {"spent": forecast.spent, "realised": realised, "spent_ratio": forecast.ratio}
    ends = ["", *(f"/{cost}" for cost in env.cost_names)] if len(env.cost_names) > 1 else [""]
    row = {f"{name}{end}": float(v[i]) for name, v in metrics.items() for i, end in enumerate(ends)}
    return replace(state, forecast=forecast), row


def diagnose(
    run: Run,
    old: Learner,
    new: Learner,
    batch: Batch,
    advantages: Advantages,
    metrics: Mapping[str, float],
) -> dict[str, float]:
    """The columns that a run asks for about the step from `old` to `new`."""
    if not (run.worst_case or run.signal_share):
        return {}
    critic = run.algorithm.critic
    if isinstance(critic, CriticFit) and critic.comes_first(old.critics, len(batch.weight)):
        # These advantages made the step.
        seen = advantages(new.critics)
        batch = replace(batch, adv_r=seen["adv_r"], adv_c=seen["adv_c"])
    said: dict[str, float] = {}
    if run.worst_case:
        said |= foretell(run, old, new, batch, metrics)
    if run.signal_share:
        region = getattr(run.algorithm, "region", TrustRegion())
        said |= {k: float(x) for k, x in _signal_share(old.policy, batch, region).items()}
    return said


def foretell(
    run: Run, old: Learner, new: Learner, batch: Batch, metrics: Mapping[str, float]
) -> dict[str, float]:
    """The worst that the update can do to the cost, and what the barrier leaves of the radius."""
    batch = in_units(batch, getattr(run.algorithm, "cost_scale", "discount"))
    found = _worst_case(old.policy, new.policy, batch, run.cost_gamma)
    said = {name: float(x) for name, x in found.items()}
    region = getattr(run.algorithm, "region", None)
    if region is not None:
        said["delta_beta"] = region.radius - (metrics["divergence"] - metrics["kl"])
    return said


_worst_case = jax.jit(worst_case)
_signal_share = jax.jit(signal_share, static_argnums=2)


def progress_row(
    run: Run, env: VecEnv, state: State, metrics: Mapping[str, float], clock: list[float]
) -> dict[str, float | int]:
    """The row of progress.csv."""
    columns = cost_columns(run, state.episodes)
    smooth, raw = state.episodes.smooth, state.episodes.raw
    rollout, prepare, update = (b - a for a, b in itertools.pairwise(clock))
    row: dict[str, float | int] = {
        "epoch": state.epoch,
        "env_steps": state.epoch * run.epoch_steps,
        "ep_return": float(smooth[0]),
        "ep_cost": float(smooth[columns].sum()),
        "ep_length": float(smooth[1]),
        "cost_regret": float(state.regret[0].sum()),
        "ep_return_raw": float(raw[0]),
        "ep_cost_raw": float(raw[columns].sum()),
        "cost_regret_raw": float(state.regret[1].sum()),
        "episodes": state.episodes.ended,
    }
    if len(env.cost_names) > 1:
        for i, name in enumerate(env.cost_names):
            row[f"ep_cost/{name}"] = float(smooth[columns][i])
            row[f"cost_regret/{name}"] = float(state.regret[0, i])
            row[f"ep_cost_raw/{name}"] = float(raw[columns][i])
            row[f"cost_regret_raw/{name}"] = float(state.regret[1, i])
    for name in ("kl", "divergence", "recovering"):
        row[name] = 0
    row |= {name: int(v) if isinstance(v, bool | int) else v for name, v in metrics.items()}
    row |= {
        "steps_per_second": run.epoch_steps / (clock[-1] - clock[0]),
        "time_rollout": rollout,
        "time_estimate": prepare,
        "time_update": update,
    }
    return row
