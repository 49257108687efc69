# SPDX-License-Identifier: Apache-2.0
"""What a user named is printed as it was named: no markup, no emoji codes."""

import ast
import io
from pathlib import Path

import pytest
from rich.console import Console

import holdfast
from holdfast import cli
from holdfast.bars.episode_bars import EvaluationBar, FilmBar
from holdfast.bars.training_bar import Bar, training_bar
from holdfast.console import plain_console, styled
from holdfast.envs.check import Finding, print_findings
from holdfast.run import make_run

ROW = dict(ep_return=1.0, ep_cost=2.0, cost_regret_raw=3.0, steps_per_second=4.0)
NAMES = ("car.py:Car", "a:key:b", "[bold]x[/]", "holdfast-rl[wandb]")


def screen(**how):
    """A console as rich makes it: with markup and emoji codes."""
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None, **how)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_as_they_are(name, capsys):
    plain_console().print(name)
    plain_console(stderr=True).print(styled((name, "bold"), " ", name))
    told = capsys.readouterr()
    assert told.out == f"{name}\n" and told.err == f"{name} {name}\n"


def test_the_control_rich_itself_changes_them():
    out = screen()
    out.print("a:key:b", "[bold]x[/]")
    assert out.file.getvalue() == "a🔑b x\n"


@pytest.mark.parametrize("name", NAMES)
def test_displays_show_names_as_they_are(name):
    out = screen()
    bar = Bar(10, {name: 1.0}, name, console=out)
    bar.write(5, ROW)
    bar.close()
    with FilmBar(console=out) as film:
        film.report(name)
    with EvaluationBar(1, console=out) as shown:
        shown.progress.update(shown.task, description=name)
    print_findings([Finding("error", name, name, name)], out)
    told = out.file.getvalue()
    assert told.count(name) >= 6
    assert "🔑" not in told and "🚗" not in told


def test_the_first_line_of_a_run_and_an_error_show_names_as_they_are(tmp_path, capsys):
    run = make_run("c-trpo", env="car.py:Car", cost_limit=1.0)
    env = holdfast.make_env("probe/Speed-v0", 10)
    training_bar(run, env, {"cost": 1.0}).close()
    assert "c-trpo on car.py:Car (Holdfast's default): " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["evaluate", str(tmp_path / "bad:key:x")])
    assert "bad:key:x" in capsys.readouterr().err


def test_nobody_makes_another_console():
    root = Path(holdfast.__file__).parent
    calls = [
        (file.relative_to(root).as_posix(), node.func.id)
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert {file for file, name in calls if name == "Console"} == {"console.py"}
    assert not [file for file, name in calls if name == "from_markup"]
