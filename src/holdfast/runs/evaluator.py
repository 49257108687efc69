# SPDX-License-Identifier: Apache-2.0
"""Evaluation while training: fresh episodes every few epochs, and the best policy that is safe.

The episodes use separate environments and random numbers, so they change no bit of the run. Each
evaluation is a row of evaluations.csv. A policy counts as safe by its fresh episodes alone, never
by the epochs that trained it: selecting a good epoch also selects good luck. Of the safe policies
the one with the largest mean return is kept in best/.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from holdfast.envs.base import VecEnv
from holdfast.envs.make import is_given
from holdfast.judge.evaluate import Evaluation, evaluate
from holdfast.judge.verdict import FEWEST
from holdfast.records.rows import EVALUATIONS, Row, read_rows
from holdfast.run import Run
from holdfast.runs import checkpoint
from holdfast.runs.checkpoint import BEST
from holdfast.runs.folder import state_arrays
from holdfast.runs.progress import ProgressFile
from holdfast.train import Epoch
from holdfast.train.environment import Given, Spaces, open_env
from holdfast.train.state import EVALUATION, State, actor_of


@dataclass
class Evaluator:
    """Judges the policy of every N-th epoch; call it with each `Epoch` of a run.

    >>> judge = Evaluator(run, limits, make_env(run.env, run.num_envs))
    >>> for epoch in train(run, env):
    ...     judge(epoch)
    """

    run: Run
    """`evaluate_every` and `evaluate_episodes` are its settings."""
    limits: dict[str, float]
    """b of each constraint; `run.limits` has the kinds."""
    env: VecEnv
    """Separate environments, not those of training."""
    folder: Path | None = None
    """The folder of evaluations.csv and best/; None: they stay in memory."""
    rows: list[Row] = field(default_factory=list[Row])
    """One row for each evaluation so far."""
    best: State | None = None
    """The safe policy with the largest return so far."""

    def resume(self, state: State | None) -> None:
        """Continue after a state: drop later rows, and repeat its own evaluation if a stop lost
        it.
        """
        if self.folder is None:
            return
        epoch = state.epoch if state else 0
        ProgressFile(self.folder / EVALUATIONS, epoch)
        self.rows = list(read_rows(self.folder / EVALUATIONS))
        known = bool(self.rows) and self.rows[-1]["epoch"] == epoch
        if state is not None and epoch and self.due(epoch) and not known:
            self.judge(state)

    def due(self, epoch: int) -> bool:
        """Every N-th epoch, and the last one."""
        every = self.run.evaluate_every
        return bool(every) and (epoch % every == 0 or epoch == self.run.epochs)

    def __call__(self, epoch: Epoch) -> Evaluation | None:
        """Evaluate this epoch's policy if an evaluation is due."""
        return self.judge(epoch.state) if self.due(epoch.index) else None

    def judge(self, state: State) -> Evaluation:
        """Run fresh episodes of a state's policy; keep their row, and the policy if it is the
        best.
        """
        run = self.run
        address = np.random.SeedSequence([run.seed, state.epoch, EVALUATION])
        result = evaluate(
            actor_of(run, state),
            self.env,
            {**self.limits, **run.kinds},
            episodes=run.evaluate_episodes,
            seed=int(address.generate_state(1)[0] >> 1),
            discount=run.cost_discount,
        )
        row = row_of(result, state.epoch, state.epoch * run.epoch_steps)
        safe = [earlier["return"] for earlier in self.rows if earlier["safe"]]
        better = bool(row["safe"]) and row["return"] > max(safe, default=-math.inf)
        self.rows.append(row)
        if better:
            self.best = state
        if self.folder is not None:
            if better:
                checkpoint.save(self.folder, state.epoch, state_arrays(state), 1, BEST)
            ProgressFile(self.folder / EVALUATIONS, state.epoch - 1).write(
                int(row["env_steps"]), row
            )
        return result

    def close(self) -> None:
        self.env.close()


def open_evaluator(
    run: Run, spaces: Spaces, given: Given = (None, None), folder: Path | None = None
) -> Evaluator | None:
    """The evaluator of a run, with environments of its own; None: the run has no evaluations.

    `given` are environment and cost function as a user passed them, else those that the run names.
    The user has consented to them when the training environments were opened.
    """
    if not run.evaluate_every:
        return None
    refuse_given(run, given)
    env = open_env(run, *given, to_evaluate=True, trusted=True)
    return Evaluator(run, dict(spaces.limits), env, folder)


def refuse_given(run: Run, given: Given) -> None:
    """Refuse a single instance, which cannot be used for training and evaluation at once."""
    if run.evaluate_every and is_given(given[0]):
        raise ValueError(
            f"evaluate_every={run.evaluate_every} needs a second set of environments, and a "
            "single instance was passed: pass a class, a function that makes it, "
            "or its name."
        )


def row_of(result: Evaluation, epoch: int, env_steps: int) -> dict[str, float | int]:
    """The row of evaluations.csv."""
    several, judged = len(result.limits) > 1, result.verdict
    highs = [
        high if math.isfinite(high) else float(costs.max())  # all cost the same: no spread was seen
        for high, costs in zip(judged.seen.upper, result.costs.T, strict=True)
    ]
    means = result.costs.mean(0)
    row: dict[str, float | int] = {
        "epoch": epoch,
        "env_steps": env_steps,
        "episodes": len(result.returns),
        "return": float(result.returns.mean()),
        "length": float(result.lengths.mean()),
        "cost": float(means.sum()),
    }
    for i, name in enumerate(result.limits):
        end = f"/{name}" if several else ""
        row |= {f"cost{end}": float(means[i])} if several else {}
        row[f"cost_high{end}"] = highs[i]
    fewest = max(FEWEST, *(c.fewest for c in judged.claims if c.kind == "tail"), 0)
    below = all(high <= c.bound for high, c in zip(highs, judged.claims, strict=True))
    return row | {
        "safe": int(below and len(result.returns) >= fewest),
        "proved": int(judged.safe == "yes"),
    }
