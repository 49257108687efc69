# SPDX-License-Identifier: Apache-2.0
"""The display of training: a live table on a terminal, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from holdfast.algorithms import CTRPO
from holdfast.console import plain_console
from holdfast.envs.base import VecEnv
from holdfast.envs.make import is_task
from holdfast.envs.probe import PROBES
from holdfast.records.rows import Row, costs_of, own
from holdfast.run import Run
from holdfast.train.environment import describe_acting, listed


def training_bar(
    run: Run,
    env: VecEnv,
    limits: Mapping[str, float],
    done: int = 0,
    about: str = "",
    words: Callable[[str], str] = str,
) -> Bar:
    """The progress bar of a run after `done` steps; prints a line on how it runs, then `about`.

    `words` converts names of settings to the user's notation.
    """
    title = f"{run.name} on {run.env or 'your environment'}"
    console = plain_console(stderr=True)
    total = run.epochs * run.epoch_steps
    chosen = f"preset {run.preset}" if run.preset else "Holdfast's default"
    epochs = f"{run.epochs:,} epochs of {run.epoch_steps:,}" if run.epochs > 1 else "one epoch"
    how = f"{describe_acting(run, env)}{_unused(run, env)}"
    first_line = f"{title} ({chosen}): {total:,} steps in {epochs}, {how}"
    if free := env.facts.free_costs:
        about += words(
            f"\nWarning: no limit is given for {listed(free)}, so the policy may cost any amount "
            f"of it; limits={{{free[0]!r}: NUMBER}} limits it."
        )
    if run.epochs == 1:
        about += words(
            f"\nWarning: one epoch is one update of the policy, after all {total:,} steps"
            f"{_why_so_long(run, env)}; train for more steps, or choose a smaller epoch_steps, to "
            "see it learn."
        )
    for line in (first_line, *about.strip().splitlines()):
        console.print(Text(line), soft_wrap=True)
    return Bar(total, limits, title, done, console=console, final_from=_final_steps(run))


def _why_so_long(run: Run, env: VecEnv) -> str:
    """Why an epoch has more steps than the user requested."""
    if run.steps >= run.epoch_steps:
        return ""
    known = is_task(run.env) or env.facts.time_limit is not None
    why = "" if known else ", as no time limit is declared and an episode may be long"
    return f" ({run.steps:,} were requested{why})"


def _final_steps(run: Run) -> float:
    """Steps after which updates only repair costs; infinite without such a phase."""
    share = run.algorithm.landing if isinstance(run.algorithm, CTRPO) else 0.0
    whole = run.schedule_epochs
    first = next((i for i in range(whole) if share and i / whole >= 1 - share), math.inf)
    return (first + 1) * run.epoch_steps


def decimals(limit: float) -> int:
    """Digits after the point of a cost beside a limit of this size: 1 for 25, 2 for 0.02."""
    own = len(f"{limit:.6f}".rstrip("0").partition(".")[2])
    return max(1, min(own, 1 - math.floor(math.log10(limit)) if limit > 0 else 2))


def against(cost: float, limit: float) -> str:
    """A cost in enough digits for its limit; a cost above the limit is never rounded down to it."""
    digits = decimals(limit)
    while cost > limit and float(f"{cost:.{digits}f}") <= limit and digits < 9:
        digits += 1
    return f"{cost:.{digits}f}"


def _unused(run: Run, env: VecEnv) -> str:
    """Why it does not use the requested number of worker processes."""
    if run.workers < 2 or env.facts.workers > 1:
        return ""
    why = "this environment cannot be distributed"
    if run.env in PROBES:
        why = "probe tasks need no workers"
    elif run.num_envs == 1:
        why = "one environment needs no workers"
    return f"; not in {run.workers} workers: {why}"


PHASES = {"improving": "green", "above the limit": "bold red"}
"""Colours of the words for the purpose of an update; the others are yellow."""


class Bar:
    """Return, cost against limit, regret, mode, speed and time left.

    A live display on a terminal; elsewhere one plain line every `every` seconds.
    """

    def __init__(
        self,
        total: int,
        limits: Mapping[str, float],
        title: str,
        done: int = 0,
        every: float = 10.0,
        console: Console | None = None,
        final_from: float = math.inf,
    ) -> None:
        self.console = console or plain_console(stderr=True)
        self.limits, self.final_from = dict(limits), final_from
        self.total, self.title, self.every = total, title, every
        self.pace = Pace()
        self.spoke = 0.0
        self.row: Row | None = None
        self.live = self.console.is_terminal
        if self.live:
            self.progress = Progress(
                TextColumn("{task.description}", style="bold", markup=False),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%"),
                Remaining(self),
                console=self.console,
                expand=True,
            )
            self.task = self.progress.add_task(title, total=total, completed=done)
            self.display = Live(
                self.table(), console=self.console, refresh_per_second=4, transient=False
            )
            self.display.start()

    def advance(self, env_steps: int) -> None:
        """Within an epoch: only advance the bar."""
        self.pace.record(env_steps)
        if self.live:
            self.progress.update(self.task, completed=min(env_steps, self.total))

    def write(self, env_steps: int, metrics: Row) -> None:
        self.row = metrics
        self.pace.record(env_steps, epoch_ended=True)
        if self.live:
            self.progress.update(self.task, completed=min(env_steps, self.total))
            self.display.update(self.table())
        elif time.monotonic() - self.spoke >= self.every or env_steps >= self.total:
            self.spoke = time.monotonic()
            self.console.print(Text(self.line(env_steps)), soft_wrap=True)

    def line(self, env_steps: int) -> str:
        assert self.row is not None
        shown = costs_of(self.row, self.limits)
        costs = " ".join(f"{n} {against(v, b)}/{b:g}" for n, v, b in shown)
        return (
            f"{env_steps:>11,} steps  return {own(self.row, 'ep_return'):.1f}  {costs}  "
            f"regret {self.regret()}  {self.phase()}  "
            f"{self.row['steps_per_second']:,.0f} steps/s  {clock(self.left(env_steps))} left"
        )

    def regret(self) -> str:
        """In the digits of the smallest limit; 0 only if there is no regret."""
        assert self.row is not None
        digits = max(map(decimals, self.limits.values()), default=1)
        value = self.row["cost_regret_raw"]
        return f"{value:.{digits}f}" if value >= 0.1**digits or not value else f"{value:.1e}"

    def phase(self) -> str:
        """The purpose of the last update in a word."""
        row = self.row or {}
        above = any(cost > limit for _, cost, limit in costs_of(row, self.limits))
        recovers = bool(row.get("recovering", 0))
        if row.get("env_steps", 0) >= self.final_from and (recovers or not row.get("kl", 1)):
            return "final repair"
        if recovers:
            return "recovering" if above else "lowering cost"
        return "above the limit" if above else "improving"

    def left(self, env_steps: int) -> float | None:
        """Seconds; None before anything is known."""
        each = self.pace.seconds_of_step()
        return None if each is None else each * (self.total - env_steps)

    def table(self) -> Table:
        table = Table.grid(expand=True)
        table.add_row(self.progress)
        if self.row is not None:
            text = Text.assemble("return ", (f"{own(self.row, 'ep_return'):.1f}", "bold cyan"))
            for name, cost, limit in costs_of(self.row, self.limits):
                style = "bold red" if cost > limit else "bold green"
                shown = against(cost, limit)
                text.append(f"   {name} ").append(shown, style).append(f" / {limit:g}")
            text.append(f"   regret {self.regret()}   ")
            phase = self.phase()
            text.append(phase, PHASES.get(phase, "yellow"))
            text.append(f"   {self.row['steps_per_second']:,.0f} steps/s", "dim")
            table.add_row(text)
        return table

    def close(self) -> None:
        if self.live:
            self.display.stop()


class Pace:
    """Seconds of a step, without the time of compilation.

    The first epoch compiles before its first step and again in its update. So its pace is measured
    between two of its own steps, and discarded once a later epoch has ended.
    """

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []
        """(time, steps) from which the pace is measured, and the newest."""
        self.epochs = 0
        self.first: float | None = None
        """The pace of the first epoch's own steps."""

    def record(self, steps: int, epoch_ended: bool = False) -> None:
        """Record the number of steps made by now."""
        mark = (time.monotonic(), steps)
        if epoch_ended and not self.epochs:
            self.first, self.marks = self._between(), []
        self.epochs += epoch_ended
        self.marks = [*self.marks[:1], mark]

    def seconds_of_step(self) -> float | None:
        """None before anything is known."""
        known = self._between() if self.epochs != 1 else None
        return self.first if known is None else known

    def _between(self) -> float | None:
        if not self.marks or self.marks[-1][1] <= self.marks[0][1]:
            return None
        (begun, first), (now, last) = self.marks[0], self.marks[-1]
        return (now - begun) / (last - first)


class Remaining(ProgressColumn):
    """Time left at the pace of this process."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self.bar = bar

    def render(self, task: Task) -> Text:
        return Text(f"{clock(self.bar.left(int(task.completed)))} left", "dim")


def clock(seconds: float | None) -> str:
    if seconds is None:
        return "--:--"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
