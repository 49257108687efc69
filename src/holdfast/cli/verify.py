# SPDX-License-Identifier: Apache-2.0
"""`holdfast verify`: check the theorems numerically."""

from typing import Annotated

import tyro
from rich.table import Table
from rich.text import Text

from holdfast.cli.cmdp import choice, load
from holdfast.console import plain_console

RANDOM = (
    "Number of random CMDPs of up to 20 states, 5 actions and 3 constraints; by default 20 "
    "without a source, none with one."
)


def command(
    source: tyro.conf.Positional[str] = "",
    random: Annotated[int | None, tyro.conf.arg(help=RANDOM)] = None,
    seed: int = 0,
    beta: float | None = None,
    barrier: str | None = None,
    radius: float | None = None,
) -> None:
    """Check the theorems numerically; exits with 1 if one fails.

    They are checked on the toy and on random CMDPs, or on yours, from a policy inside its limits.

    Args:
        source: Any source of `holdfast solve`.
        seed: Seed of the random CMDPs.
        beta: Weight of the barrier, instead of each claim's default.
        barrier: The barrier: entropy, log, or your own, file.py:name.
        radius: Radius of the updates in the claims.
    """
    from holdfast.paper.claims import check_claims

    chosen = choice(beta, barrier, radius)
    table = Table("claim", "on", "worst deviation", "allowed", "verdict", box=None)
    own = {source: load(source)} if source else {}
    count = (0 if own else 20) if random is None else random
    claims = check_claims(count, seed, own=own, choice=chosen)
    for claim in claims:
        verdict = Text("holds", "green") if claim.holds else Text("FAILS", "bold red")
        table.add_row(
            claim.text, claim.where, f"{claim.worst:.1e}", f"{claim.allowed:.0e}", verdict
        )
    plain_console().print(table)
    if not all(claim.holds for claim in claims):
        raise SystemExit(1)
