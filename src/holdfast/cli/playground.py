# SPDX-License-Identifier: Apache-2.0
"""`holdfast playground`: the interactive page of trust regions."""

from pathlib import Path
from typing import Annotated

import tyro

from holdfast.cli.cmdp import load


def command(
    out: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "playground.html", cmdp: str = "toy"
) -> None:
    """Write the interactive page: one HTML file that works offline.

    Args:
        out: The file to write.
        cmdp: Another CMDP of 2 states, 2 actions and 1 constraint.
    """
    from holdfast.paper.square import page

    Path(out).write_text(page(load(cmdp)), encoding="utf-8")
    print(f"{out}: open it in a browser")
