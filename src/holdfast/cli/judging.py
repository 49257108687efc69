# SPDX-License-Identifier: Apache-2.0
"""`holdfast evaluate`: a trained policy judged, also under other conditions than it was trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.agent import Agent
from holdfast.bars import EvaluationBar
from holdfast.cli.folders import RunFolder
from holdfast.cli.options import args_of, parse_limits
from holdfast.envs.perturb import Perturbation, parse_perturbations
from holdfast.evaluate import Evaluation
from holdfast.runs.evaluations import save_evaluation
from holdfast.runs.storage import give_back

CODES = {"yes": 0, "no": 1, "undecided": 3}
"""Verdict → exit code; 2 says that something was wrong with the command."""


def evaluate_command(
    run: tyro.conf.Positional[RunFolder],
    episodes: int = 100,
    until_decided: bool = False,
    max_episodes: int = 10_000,
    cost_bound: float | None = None,
    limit: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    seed: int = 1_000_000,
    greedy: bool = False,
    perturb: tuple[str, ...] = (),
    env: str | None = None,
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    cost: str | None = None,
    trust_env: bool = False,
    json: bool = False,
    save: bool = False,
) -> None:
    """Run fresh episodes of a trained policy and judge its safety.

    The exit code is 0 if it is proved safe, 1 if proved unsafe, 3 if undecided.

    Args:
        run: The run folder.
        episodes: How many episodes.
        until_decided: Run more until the policy is proved safe or unsafe.
        max_episodes: Stop there even if nothing is proved.
        cost_bound: The most that one episode can cost; native tasks and probes know it.
        limit: Judge by another limit, NUMBER or NAME=NUMBER; repeat it for several.
        seed: Seed of the episodes; differs from the training seeds.
        greedy: Take the most likely action instead of sampling.
        perturb: Other conditions: mass=+20% friction=-30% (native tasks), sensor-noise=0.05,
            action-delay=2; several values (mass=-20%,0,+20%) make a grid.
        env: Judge in this environment instead: an id, module:Class or path/to/file.py:Class.
        env_arg: An argument to make it with, NAME=VALUE; repeat it for several.
        cost: A cost function's name, module:function or file.py:function.
        trust_env: Import the environment that the run folder names, if it is not one of ours.
        json: Print JSON instead of a table.
        save: Keep the numbers in the run folder, where `holdfast report` finds them.
    """
    if save and (env is not None or limit or perturb):
        raise ValueError("--save keeps what was trained for: leave --env, --limit, --perturb out.")
    args = args_of(env, env_arg)
    agent = Agent.load(run)
    limits = _limits(limit)
    found: dict[Perturbation, Evaluation] = {}
    for condition in parse_perturbations(perturb):
        with EvaluationBar(episodes, quiet=json) as bar:
            found[condition] = agent.evaluate(
                env,
                episodes,
                seed=seed,
                deterministic=greedy,
                cost=cost,
                env_args=args,
                trust_env=trust_env,
                limits=limits,
                perturb=condition if perturb else None,
                cost_bound=cost_bound,
                until_decided=until_decided,
                max_episodes=max_episodes,
                on_progress=bar.update,
            )
    if save:
        save_evaluation(run, next(iter(found.values())))
        give_back(run)
    show(found, bool(perturb), json)
    verdicts = [result.verdict.safe for result in found.values()]
    worst = next(answer for answer in ("no", "undecided", "yes") if answer in verdicts)
    if CODES[worst]:
        raise SystemExit(CODES[worst])


def _limits(words: tuple[str, ...]) -> float | dict[str, float] | None:
    """10, or spill=10 for each of several; none: the run's."""
    if len(words) == 1 and "=" not in words[0]:
        try:
            return float(words[0])
        except ValueError:
            pass
    return parse_limits(words) or None


def show(found: Mapping[Perturbation, Evaluation], several: bool, json: bool) -> None:
    """One evaluation in full, or a row for each condition."""
    console = Console()
    if json:
        import json as format

        rows = [
            {"condition": dataclasses.asdict(how), **result.summary()}
            for how, result in found.items()
        ]
        plain: Any = rows if several else next(iter(found.values())).summary()
        print(format.dumps(plain, indent=2))
    elif not several:
        next(iter(found.values())).print(console)
    else:
        console.print(conditions(found))


def conditions(found: Mapping[Perturbation, Evaluation]) -> Table:
    """Return, costs and verdict under each condition."""
    first = next(iter(found.values()))
    how = "most likely actions" if first.deterministic else "sampled actions"
    table = Table(title=f"{len(first.returns)} fresh episodes of each, {how}", title_justify="left")
    table.add_column("condition")
    for name, limit in first.limits.items():
        label = "cost" if name == "cost" else f"cost: {name}"
        table.add_column(escape(f"{label} (limit {limit:g})"), justify="right")
    table.add_column("return", justify="right")
    table.add_column("proved safe at 95 %")
    colour = {"yes": "green", "no": "red", "undecided": "yellow"}
    for condition, result in found.items():
        safe = result.verdict.safe
        table.add_row(
            str(condition),
            *(f"{mean:.2f}" for mean in result.costs.mean(0)),
            f"{result.returns.mean():.1f}",
            f"[{colour[safe]}]{safe}[/]",
        )
    return table
