# SPDX-License-Identifier: Apache-2.0
"""The command line: `holdfast NAME` is the function `command` of `holdfast.cli.NAME`.

Each command is one function, and an error is one sentence. A module is imported when its command is
called; from then on `list` in this package is that module, not Python's `list`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import tyro
from rich.table import Table
from rich.text import Text

from holdfast import process
from holdfast.cli.words import fail, for_shell
from holdfast.console import plain_console, styled
from holdfast.envs.failure import EnvFailure

USAGE = "usage: holdfast COMMAND [ARGUMENTS]; `holdfast COMMAND --help` explains each."
DEBUG = "HOLDFAST_DEBUG"
"""Environment variable: if it is set, errors keep their tracebacks."""
CUT_OFF = 141
"""Exit code if the reader of the output has closed the pipe, as after SIGPIPE."""


@dataclass(frozen=True)
class Command:
    """A command: the function `command` of this package's module of its name."""

    name: str
    summary: str
    own_parser: bool = False
    """Whether it parses its arguments itself, because its options depend on the algorithm."""

    def call(self, args: list[str]) -> None:
        """Import the function and call it with these arguments, parsed by its own signature."""
        command = importlib.import_module(f"holdfast.cli.{self.name}").command
        if self.own_parser:
            command(args)
        else:
            tyro.cli(command, args=args, prog=f"holdfast {self.name}")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `holdfast`."""
    try:
        run([*(sys.argv[1:] if argv is None else argv)])
    except KeyboardInterrupt as stop:
        what, code = process.describe(stop)
        fail("; ".join([what, *getattr(stop, "__notes__", ())]) + ".", code)
    except (ValueError, RuntimeError, OSError) as error:
        flush("\n" if isinstance(error, BrokenPipeError) else "")  # perhaps of another pipe
        if os.environ.get(DEBUG):
            raise
        notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
        if isinstance(error, EnvFailure):
            notes.append(f"{DEBUG}=1 shows the full traceback.")
        fail(" ".join([for_shell(str(error)), *notes]), 2)
    except MemoryError as error:
        fail(f"there is not enough memory for this ({error}).", 2)
    finally:
        flush()


def run(args: list[str]) -> None:
    """Run the command that the arguments name."""
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
    """Flush the output; if its reader has closed the pipe (| head), end without an error."""
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
        Command("list", "list algorithms, or the settings of one"),
        Command("train", "train ALGO on ENV", own_parser=True),
        Command("resume", "continue a run"),
        Command("evaluate", "judge a trained policy's safety"),
        Command("watch", "film a trained policy"),
        Command("certify", "write a model card on a policy's safety"),
        Command("export", "write a policy as ONNX, or for NumPy alone"),
        Command("zoo", "list trained policies of the library"),
        Command("envs", "list tasks, or describe one"),
        Command("check", "find faults in your environment"),
        Command("bench", "run a whole comparison"),
        Command("tune", "search for settings that keep the limit", own_parser=True),
        Command("report", "compare runs in one page"),
        Command("solve", "solve a finite CMDP exactly"),
        Command("verify", "check the theorems numerically"),
        Command("figures", "draw the geometry of safe policies"),
        Command("playground", "write the interactive page of trust regions"),
        Command("plot", "draw a run's return, cost and regret"),
        Command("demo", "train C-TRPO on HalfCheetah and judge it, in about a minute"),
    )
}
