# SPDX-License-Identifier: Apache-2.0
"""`holdfast certify`: a model card on a policy's safety."""

from __future__ import annotations

from typing import Any

import tyro

from holdfast.cli.arguments import (
    EnvironmentOptions,
    Judging,
    OutOrNone,
    RunFolder,
    judging_limits,
)
from holdfast.console import plain_console


def command(
    run: tyro.conf.Positional[RunFolder],
    out: OutOrNone = None,
    judging: tyro.conf.OmitArgPrefixes[Judging] = Judging(episodes=200),
    environment: tyro.conf.OmitArgPrefixes[EnvironmentOptions] = EnvironmentOptions(),
    limit: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    film: bool = True,
    perturb: tuple[str, ...] = (),
    describe: str = "",
) -> None:
    """Write a model card: a page and a JSON file with the evidence on a policy's safety.

    Args:
        run: The run folder.
        judging: Number and kind of the episodes.
        environment: Evaluate in another environment.
        out: A folder for card.html and card.json; by default RUN/card.
        limit: Judge by another limit, NUMBER or NAME=NUMBER; repeat it for several.
        film: Add a video of the costliest of 20 episodes.
        perturb: Evaluate under other conditions too, as in evaluate: mass=-20%,+20%.
        describe: Description of the task; by default that of its environment.
    """
    from holdfast.bars.episode_bars import EvaluationBar
    from holdfast.cluster.storage import sync_back
    from holdfast.ship.certify import certify

    given: dict[str, Any] = judging.given() | environment.given()
    given["limits"] = judging_limits(limit)
    with EvaluationBar(judging.episodes) as bar:
        given |= {"film": film, "perturb": perturb, "describe": describe}
        page, data = certify(run, out, **given, on_progress=bar.update)
    sync_back(run)
    console = plain_console()
    console.print(f"Page: {page}", soft_wrap=True)
    console.print(f"Data: {data}", soft_wrap=True)
