# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command is one function of its arguments; errors are one sentence."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from rich.table import Table
from rich.text import Text

from holdfast import process
from holdfast.cli import training
from holdfast.cli.words import for_shell
from holdfast.console import plain_console, styled
from holdfast.envs.failure import EnvFailure

USAGE = "usage: holdfast COMMAND [ARGUMENTS]; `holdfast COMMAND --help` explains each."
DEBUG = "HOLDFAST_DEBUG"
"""Environment variable: with any value errors keep their tracebacks."""
CUT_OFF = 141
"""Exit code: nobody reads the output any more; that of programs which SIGPIPE ends."""


@dataclass(frozen=True)
class Command:
    """A command: the function at MODULE.NAME of this package, and what it does."""

    name: str
    place: str
    summary: str

    def call(self, args: list[str]) -> None:
        """Import the function and call it with these arguments, parsed by its own signature.

        `train` and `tune` parse them themselves, as their options depend on the algorithm.
        """
        module, _, function = self.place.partition(".")
        found = getattr(importlib.import_module(f"holdfast.cli.{module}"), function)
        if self.name in ("train", "tune"):
            found(args)
        else:
            # tyro keeps the line breaks of an argument's help, whatever the width.
            found.__doc__ = re.sub(r"\n {12}(?=\S)", " ", found.__doc__)
            tyro.cli(found, args=args, prog=f"holdfast {self.name}")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `holdfast`."""
    try:
        run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt as stop:
        what, code = process.describe(stop)
        training.fail("; ".join([what, *getattr(stop, "__notes__", ())]) + ".", code)
    except (ValueError, RuntimeError, OSError) as error:
        flush("\n" if isinstance(error, BrokenPipeError) else "")  # a line tells whose pipe it was
        if os.environ.get(DEBUG):
            raise
        notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
        if isinstance(error, EnvFailure):
            notes.append(f"{DEBUG}=1 shows the full traceback.")
        training.fail(" ".join([for_shell(str(error)), *notes]), 2)
    except MemoryError as error:
        training.fail(f"there is not enough memory for this ({error}).", 2)
    finally:
        flush()


def run(args: list[str]) -> None:
    """What the arguments ask for."""
    if not args or args[0] in ("-h", "--help", "help"):
        print_commands()
    elif args[0] in ("-V", "--version"):
        from holdfast import __version__

        print(f"holdfast {__version__}")
    elif args[0] in COMMANDS:
        with process.terminable():
            COMMANDS[args[0]].call(args[1:])
    else:
        from holdfast.settings import nearest

        raise ValueError(f"unknown command '{args[0]}'{nearest(args[0], COMMANDS)}")


def flush(last: str = "") -> None:
    """Write what is still to be printed; if nobody reads it any more (| head), end quietly."""
    try:
        print(end=last, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CUT_OFF) from None


def print_commands() -> None:
    console = plain_console()
    console.print(styled(("Holdfast", "bold"), ": safe reinforcement learning under cost limits\n"))
    table = Table.grid(padding=(0, 3))
    for name, command in COMMANDS.items():
        table.add_row(Text(f"  {name}", "cyan"), command.summary)
    console.print(table)
    console.print(f"\n{USAGE}")


COMMANDS = {
    command.name: command
    for command in (
        Command("list", "looking.list_command", "algorithms, and the settings of one"),
        Command("train", "training.train_command", "train ALGO on ENV"),
        Command("resume", "training.resume_command", "continue a run"),
        Command("evaluate", "judging.evaluate_command", "judge a trained policy's safety"),
        Command("watch", "shipping.watch_command", "film a trained policy"),
        Command("certify", "shipping.certify_command", "a model card: what is known of its safety"),
        Command("export", "shipping.export_command", "the policy as ONNX, or for NumPy alone"),
        Command("zoo", "zoo.zoo_command", "trained policies that come with the library"),
        Command("envs", "looking.envs_command", "tasks, and a description of one"),
        Command("check", "looking.check_command", "find faults in your environment"),
        Command("bench", "comparing.bench", "run a whole comparison"),
        Command("tune", "tuning.tune_command", "search for settings that keep the limit"),
        Command("report", "comparing.report_command", "compare runs in one page"),
        Command("solve", "exact.solve", "the optimum of a finite CMDP, exactly"),
        Command("verify", "exact.verify", "check the theorems numerically"),
        Command("figures", "exact.figures", "draw the geometry of safe policies"),
        Command("playground", "exact.playground", "write the interactive page of trust regions"),
        Command("plot", "looking.plot_command", "draw a run's return, cost and regret"),
        Command(
            "demo",
            "training.demo_command",
            "C-TRPO on HalfCheetah in about a minute, and its verdict",
        ),
    )
}
