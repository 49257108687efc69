# SPDX-License-Identifier: Apache-2.0
"""`holdfast evaluate`: judge a trained policy, also under conditions other than in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import tyro
from rich.table import Table
from rich.text import Text

from holdfast.agent import Agent
from holdfast.bars.episode_bars import EvaluationBar
from holdfast.cli.arguments import (
    EnvironmentOptions,
    Judging,
    RunFolder,
    WhichPolicy,
    judging_limits,
)
from holdfast.cluster.storage import refuse_zoo, sync_back
from holdfast.console import counted, plain_console
from holdfast.judge.evaluate import Evaluation
from holdfast.judge.perturb import Perturbation, parse_perturbations
from holdfast.judge.verdict import COLOURS
from holdfast.runs.folder import save_evaluation

CODES = {"yes": 0, "no": 1, "undecided": 3}
"""Verdict → exit code; 2 is that of a wrong command."""

LIMIT = "Judge by another limit: 10, spill=10 or 'spill=10 worst 5%'; repeat it for several."
PERTURB = (
    "Other conditions: mass=+20% friction=-30% (native tasks), sensor-noise=0.05, action-delay=2; "
    "several values (mass=-20%,0,+20%) make a grid."
)


def command(
    run: tyro.conf.Positional[RunFolder],
    which: WhichPolicy = "newest",
    judging: tyro.conf.OmitArgPrefixes[Judging] = Judging(),
    environment: tyro.conf.OmitArgPrefixes[EnvironmentOptions] = EnvironmentOptions(),
    limit: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(help=LIMIT)] = (),
    perturb: Annotated[tuple[str, ...], tyro.conf.arg(help=PERTURB)] = (),
    json: bool = False,
    save: bool = False,
) -> None:
    """Run fresh episodes of a trained policy and judge its safety.

    The exit code is 0 if it is proved safe, 1 if proved unsafe, 3 if undecided.

    Args:
        run: The run folder.
        judging: Number and kind of the episodes.
        environment: Evaluate in another environment.
        json: Print JSON instead of a table.
        save: Keep the numbers in the run folder, for `holdfast report`.
    """
    if save and (environment.env is not None or limit or perturb or which != "newest"):
        raise ValueError(
            "--save stores the evaluation of the newest policy in its own task: leave --env, "
            "--limit, --perturb and --which out."
        )
    if save:
        refuse_zoo(run, "leave --save out")
    given, limits = judging.given() | environment.given(), judging_limits(limit)
    agent = Agent.load(run, which=which)
    found: dict[Perturbation, Evaluation] = {}
    for condition in parse_perturbations(perturb):
        with EvaluationBar(judging.episodes, quiet=json) as bar:
            found[condition] = agent.evaluate(
                **given,
                limits=limits,
                perturb=condition if perturb else None,
                on_progress=bar.update,
            )
    if save:
        save_evaluation(run, next(iter(found.values())))
        sync_back(run)
    show(found, bool(perturb), json)
    verdicts = [result.verdict.safe for result in found.values()]
    worst = next(answer for answer in ("no", "undecided", "yes") if answer in verdicts)
    if CODES[worst]:
        raise SystemExit(CODES[worst])


def show(found: Mapping[Perturbation, Evaluation], several: bool, json: bool) -> None:
    """Print one evaluation in full, or a row for each condition."""
    console = plain_console()
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
    table = Table(
        title=f"{counted(len(first.returns), 'fresh episode')} of each, {how}", title_justify="left"
    )
    table.add_column("condition")
    for name, claim in first.claims.items():
        label = "cost" if name == "cost" else f"cost: {name}"
        table.add_column(Text(f"{label} (limit {claim})"), justify="right")
    table.add_column("return", justify="right")
    table.add_column("proved safe at 95 %")
    for condition, result in found.items():
        safe = result.verdict.safe
        table.add_row(
            str(condition),
            *(f"{mean:.2f}" for mean in result.costs.mean(0)),
            f"{result.returns.mean():.1f}",
            Text(safe, COLOURS[safe]),
        )
    return table
