# SPDX-License-Identifier: Apache-2.0
"""The board judges each constraint by its own limit, never their sum by one."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.bench.board import Board
from holdfast.bench.suite import Cell
from holdfast.run import make_run

TWO = "env_steps,ep_return,ep_cost,ep_cost/heat,ep_cost/noise,steps_per_second\n"


@pytest.mark.parametrize(
    ("limits", "header", "row", "shown"),
    [
        # the sum is 14, above each limit, and both limits are held
        ({"heat": 9.0, "noise": 9.75}, TWO, "200,1,14,8,6,50",
         {"heat 8.0/9": "32", "noise 6.0/9.75": "32"}),
        # one is broken though the sum is below the other's limit
        ({"heat": 3.0, "noise": 20.0}, TWO, "200,1,14,8,6,50",
         {"heat 8.0/3": "31", "noise 6.0/20": "32"}),
        ({"heat": 7.0, "noise": 7.0}, TWO, "200,1,14,8,6,50",
         {"heat 8.0/7": "31", "noise 6.0/7": "32"}),
        ({"cost": 7.0}, "env_steps,ep_return,ep_cost,steps_per_second\n", "200,1,6,50",
         {"cost 6.0/7": "32"}),
        ({"heat": 5.0}, "env_steps,ep_return,ep_cost,steps_per_second\n",
         "200,1,6,50", {"heat 6.0/5": "31"}),
    ],
)  # fmt: skip
def test_each_cost_stands_beside_its_own_limit(
    limits: dict[str, float], header: str, row: str, shown: dict[str, str], tmp_path: Path
):
    cell = Cell("cell", make_run("c-trpo", env="probe/Machines-v0"))
    (tmp_path / "cell").mkdir()
    (tmp_path / "cell" / "run.json").write_text(json.dumps({"limits": limits}))
    (tmp_path / "cell" / "progress.csv").write_text(f"{header}{row}\n")
    board = Board([cell], tmp_path, Console(file=io.StringIO()))
    costs = "  ".join(shown)
    assert str(board.describe("cell")) == f"return 1.0  {costs}  50 steps/s"
    screen = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    live = Board([cell], tmp_path, screen)
    live.close()
    screen.print(live.describe("cell"), highlight=False)
    for text, colour in shown.items():
        name, numbers = text.split()
        assert f"{name} \x1b[{colour}m{numbers}\x1b[0m" in screen.file.getvalue()


def test_the_regret_shown_is_of_the_raw_costs(tmp_path: Path):
    cell = Cell("cell", make_run("c-trpo", env="probe/Speed-v0"))
    (tmp_path / "cell").mkdir()
    header = "env_steps,ep_return,ep_cost,cost_regret,cost_regret_raw,steps_per_second\n"
    (tmp_path / "cell" / "run.json").write_text('{"limits": {"cost": 6.0}}')
    (tmp_path / "cell" / "progress.csv").write_text(f"{header}200,1,6,99,12.4,50\n")
    board = Board([cell], tmp_path, Console(file=io.StringIO()))
    assert str(board.describe("cell")) == "return 1.0  cost 6.0/6  regret 12  50 steps/s"


def test_a_line_counts_the_runs(tmp_path: Path):
    cell = Cell("cell", make_run("c-trpo", env="probe/Speed-v0"))
    written = io.StringIO()
    Board([cell], tmp_path, Console(file=written)).show(["cell"])
    assert written.getvalue() == "0 of 1 runs, 0%, --:-- left: cell 0%\n"
