# SPDX-License-Identifier: Apache-2.0
"""Commands for a policy that leaves: export. Each is parsed by its signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

Out = Annotated[Path, tyro.conf.arg(aliases=["-o"])]


def export_command(run: tyro.conf.Positional[Path], out: Out = Path("policy.onnx")) -> None:
    """Write a trained policy for use without Holdfast, checked against its actions here.

    Args:
        run: The run folder.
        out: policy.onnx, or policy.npz for NumPy alone (with policy.py beside it, which reads it).
    """
    from holdfast.agent import Agent

    agreement = Agent.load(run).export(out)
    console = Console()
    for file in agreement.files:
        console.print(f"Wrote:   {file}", highlight=False, soft_wrap=True, markup=False)
    console.print(f"Checked: {agreement}", highlight=False, soft_wrap=True)
