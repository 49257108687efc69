# SPDX-License-Identifier: Apache-2.0
"""Evaluation: fresh episodes of a fixed policy, and what they say about its safety."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from holdfast.core.actor import Actor
from holdfast.core.stats import iqm
from holdfast.core.verdict import Verdict, verdict
from holdfast.envs.base import VecEnv
from holdfast.rollout import to_env


@dataclass(frozen=True)
class Evaluation:
    """n episodes of one policy."""

    returns: NDArray[np.float64]
    """[n]"""
    costs: NDArray[np.float64]
    """[n, K]"""
    lengths: NDArray[np.int64]
    """[n]"""
    limits: dict[str, float]
    """Limit of each of the K constraints."""
    deterministic: bool

    @property
    def verdict(self) -> Verdict:
        """Whether the mean cost is below the limits, with confidence."""
        return verdict(self.costs, list(self.limits.values()))

    def summary(self) -> dict[str, Any]:
        """Plain data: what the table shows."""
        judged = self.verdict
        return {
            "episodes": len(self.returns),
            "deterministic": self.deterministic,
            "return": _spread(self.returns),
            "length": float(self.lengths.mean()),
            "cost": {
                name: {
                    **_spread(self.costs[:, i]),
                    "upper_95": judged.upper[i],
                    "limit": limit,
                }
                for i, (name, limit) in enumerate(self.limits.items())
            },
            "violation_rate": {
                "estimate": judged.violating.value,
                "low_95": judged.violating.low,
                "high_95": judged.violating.high,
            },
            "safe_at_95": judged.safe,
        }

    def print(self, console: Console) -> None:
        """The summary as a table, and the verdict in a sentence."""
        data, judged = self.summary(), self.verdict
        how = "most likely actions" if self.deterministic else "sampled actions"
        table = Table(title=f"{data['episodes']} fresh episodes, {how}", title_justify="left")
        for column in ("", "mean", "IQM", "95 % upper bound", "limit"):
            table.add_column(column, justify="left" if not column else "right")
        returns = data["return"]
        table.add_row("return", f"{returns['mean']:.1f}", f"{returns['iqm']:.1f}", "", "")
        for name, cost in data["cost"].items():
            style = "red" if cost["upper_95"] > cost["limit"] else "green"
            upper = f"[{style}]{cost['upper_95']:.2f}[/]"
            label = "cost" if name == "cost" else f"cost: {name}"
            table.add_row(
                label, f"{cost['mean']:.2f}", f"{cost['iqm']:.2f}", upper, f"{cost['limit']:g}"
            )
        table.add_row("length", f"{data['length']:.1f}", "", "", "")
        console.print(table)
        rate = data["violation_rate"]
        console.print(
            f"Episodes over a limit: {rate['estimate']:.1%} "
            f"(95 % interval {rate['low_95']:.1%} to {rate['high_95']:.1%})",
            highlight=False,
        )
        colour = {"yes": "green", "no": "red", "undecided": "yellow"}[judged.safe]
        console.print(f"Safe at 95 %: [bold {colour}]{judged.safe}[/]", highlight=False)

    def json(self) -> str:
        return json.dumps(self.summary(), indent=2)


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    return {"mean": float(values.mean()), "iqm": float(iqm(values)), "sd": float(values.std())}


def evaluate(
    actor: Actor,
    normalise: Callable[[NDArray[Any]], NDArray[np.float32]],
    env: VecEnv,
    limits: dict[str, float],
    *,
    episodes: int = 100,
    seed: int = 1_000_000,
    deterministic: bool = False,
    clip_actions: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Evaluation:
    """Run fresh episodes; every environment contributes equally many.

    Taking the first that finish would favour short episodes, which are often the unsafe or the
    failed ones.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1; 100 give a useful verdict.")
    each = -(-episodes // env.num_envs)
    rng = np.random.default_rng(np.random.SeedSequence([seed]))
    obs = env.reset(seed)
    running = np.zeros((env.num_envs, 2 + len(env.cost_names)))
    count = np.zeros(env.num_envs, np.int64)
    rows: list[tuple[int, int, NDArray[np.float64]]] = []
    while (count < each).any():
        noise = None if deterministic else actor.draw(rng, (env.num_envs,))
        action = actor.act(normalise(obs), noise)
        step = env.step(to_env(env.action_space, action, clip_actions))
        running += np.column_stack([step.reward, np.ones(env.num_envs), step.cost])
        for i in np.flatnonzero(step.terminated | step.truncated):
            if count[i] < each:
                rows.append((int(count[i]), int(i), running[i].copy()))
            count[i] += 1
            running[i] = 0.0
            if watch is not None:
                watch(min(len(rows), episodes))
        obs = step.obs
    rows.sort(key=lambda row: row[:2])
    table = np.array([row[2] for row in rows[:episodes]])
    return Evaluation(
        table[:, 0], table[:, 2:], table[:, 1].astype(np.int64), limits, deterministic
    )
