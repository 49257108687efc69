# SPDX-License-Identifier: Apache-2.0
"""`holdfast export`: a trained policy for use without Holdfast."""

from __future__ import annotations

import shlex
from pathlib import Path

import tyro

from holdfast.cli.arguments import Out, RunFolder, WhichPolicy
from holdfast.console import plain_console
from holdfast.runs.checkpoint import Which


def command(
    run: tyro.conf.Positional[RunFolder],
    out: Out = Path("policy.onnx"),
    which: WhichPolicy = "newest",
    double: bool = False,
    noise: bool = False,
) -> None:
    """Write a trained policy for use without Holdfast, checked against Holdfast's actions.

    Args:
        run: The run folder.
        out: policy.onnx, or policy.npz for NumPy alone (with its reader policy.py beside it).
        double: Write ONNX with inputs and outputs in float64 instead of float32.
        noise: Add a second ONNX output, `sampled`: an action drawn with the input `noise`.
    """
    from holdfast.agent import Agent
    from holdfast.cluster.storage import called
    from holdfast.runs.folder import open_folder

    agreement = Agent.load(run, which=which).export(out, double=double, noise=noise)
    console = plain_console()
    for file in agreement.files:
        console.print(f"Wrote:   {file}", soft_wrap=True)
    console.print(f"Checked: {agreement}", soft_wrap=True)
    name, consent = shlex.quote(called(run)), open_folder(run).consent
    judge = f"holdfast evaluate {name}{_which(which)} --greedy{consent}"
    console.print(
        "Judge:   without noise it takes the most likely action, whose costs differ from those of "
        f"sampled ones: {judge}",
        soft_wrap=True,
    )


def _which(which: Which) -> str:
    return "" if which == "newest" else f" --which {which}"
