# SPDX-License-Identifier: Apache-2.0
"""The command line. Each command is one function of its arguments; errors are one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tyro
from rich.console import Console
from rich.table import Table

from holdfast import process
from holdfast.cli import looking, training

USAGE = "usage: holdfast COMMAND [ARGUMENTS]; `holdfast COMMAND --help` explains each."


@dataclass(frozen=True)
class Command:
    """A command: what it does and the function of the arguments after its name."""

    call: Callable[[list[str]], None]
    summary: str


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of `holdfast`."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print_commands()
        return
    if args[0] in ("-V", "--version"):
        from holdfast import __version__

        print(f"holdfast {__version__}")
        return
    try:
        command = COMMANDS.get(args[0])
        if command is None:
            from holdfast.settings import nearest

            raise ValueError(f"unknown command '{args[0]}'{nearest(args[0], COMMANDS)}")
        with process.terminable():
            command.call(args[1:])
    except KeyboardInterrupt as stop:
        what, code = process.describe(stop)
        training.fail(f"{what}.", code)
    except (ValueError, RuntimeError, OSError) as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
        training.fail(" ".join([str(error), *notes]), 2)
    except MemoryError as error:
        training.fail(f"there is not enough memory for this ({error}).", 2)


def print_commands() -> None:
    console = Console()
    console.print("[bold]Holdfast[/]: safe reinforcement learning under cost limits\n")
    table = Table.grid(padding=(0, 3))
    for name, command in COMMANDS.items():
        table.add_row(f"  [cyan]{name}[/]", command.summary)
    console.print(table)
    console.print(f"\n{USAGE}")


def with_tyro(function: Callable[..., None], name: str) -> Callable[[list[str]], None]:
    """Arguments parsed by the function's own signature and docstring."""

    def call(args: list[str]) -> None:
        tyro.cli(function, args=args, prog=f"holdfast {name}")

    return call


def later(module: str, function: str, name: str) -> Callable[[list[str]], None]:
    """A command whose module is imported only when it is called."""

    def call(args: list[str]) -> None:
        import importlib

        with_tyro(getattr(importlib.import_module(module), function), name)(args)

    return call


EXACT, JUDGING = "holdfast.cli.exact", "holdfast.cli.judging"
SHIPPING = "holdfast.cli.shipping"

COMMANDS: dict[str, Command] = {
    "list": Command(with_tyro(looking.list_command, "list"), "algorithms, and the settings of one"),
    "train": Command(training.train_command, "train ALGO on ENV"),
    "resume": Command(with_tyro(training.resume_command, "resume"), "continue a run"),
    "evaluate": Command(
        later(JUDGING, "evaluate_command", "evaluate"), "judge a trained policy's safety"
    ),
    "watch": Command(later(SHIPPING, "watch_command", "watch"), "film a trained policy"),
    "certify": Command(
        later(SHIPPING, "certify_command", "certify"), "a model card: what is known of its safety"
    ),
    "export": Command(
        later(SHIPPING, "export_command", "export"), "the policy as ONNX, or for NumPy alone"
    ),
    "envs": Command(with_tyro(looking.envs_command, "envs"), "tasks, and a description of one"),
    "check": Command(with_tyro(looking.check_command, "check"), "find faults in your environment"),
    "bench": Command(later("holdfast.cli.comparing", "bench", "bench"), "run a whole comparison"),
    "report": Command(
        later("holdfast.cli.comparing", "report_command", "report"), "compare runs in one page"
    ),
    "solve": Command(later(EXACT, "solve", "solve"), "the optimum of a finite CMDP, exactly"),
    "verify": Command(later(EXACT, "verify", "verify"), "check the theorems numerically"),
    "figures": Command(later(EXACT, "figures", "figures"), "draw the geometry of safe policies"),
    "playground": Command(
        later(EXACT, "playground", "playground"), "write the interactive page of trust regions"
    ),
    "plot": Command(
        with_tyro(looking.plot_command, "plot"), "draw a run's return, cost and regret"
    ),
    "demo": Command(
        with_tyro(training.demo_command, "demo"),
        "C-TRPO on HalfCheetah in about a minute, and its verdict",
    ),
}
