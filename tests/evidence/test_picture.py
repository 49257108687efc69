# SPDX-License-Identifier: Apache-2.0
"""Pictures of kept runs: the README's, and the time of the noise."""

from kept_runs import outcome, write_run  # isort: skip

import picture


def test_the_time_of_the_noise_is_drawn_for_each_task(tmp_path):
    """From runs that log it; a folder without any leaves no picture."""
    assert picture.draw_noise(tmp_path, tmp_path / "noise.png") is None
    for seed, time in ((0, 10.0), (1, 0.0)):
        write_run(tmp_path, seed, 1.0, task="SafetyPointGoal1-v0")
        file = tmp_path / f"c-trpo_SafetyPointGoal1-v0_seed{seed}" / "progress.csv"
        lines = file.read_text().splitlines()
        lines = [lines[0] + ",noise_time", *(f"{line},{time}" for line in lines[1:])]
        file.write_text("\n".join(lines) + "\n")
    times = picture.noise_times(tmp_path)
    assert {task: [list(own) for _, own in runs] for task, runs in times.items()} == {
        "SafetyPointGoal1-v0": [[10.0, 10.0], [0.0, 0.0]]
    }
    assert picture.draw_noise(tmp_path, tmp_path / "noise.png").stat().st_size > 5_000


def test_the_picture_has_a_column_for_each_task_that_has_runs(tmp_path):
    tasks = list(picture.PUBLISHED)[:2]
    runs = [outcome("c-trpo", seed, 1.0 + seed, task, 10.0) for task in tasks for seed in (0, 1)]
    file = picture.draw(runs, tmp_path / "one.png")
    assert file.read_bytes()[:4] == b"\x89PNG"
    axis = Axis()
    picture.bars(axis, [1.0, 3.0], {"cpo": 7.0})
    assert (
        axis.heights == [2.0, 7.0]
        and axis.dots == [1.0, 3.0]
        and axis.words == {"2": (0, 3.0), "7": (1, 7.0)}
    )


class Axis:
    """Notes what is drawn."""

    def __init__(self):
        self.words = {}

    def bar(self, _, heights, **__):
        self.heights = heights

    def annotate(self, word, place, **__):
        self.words[word] = place

    def plot(self, _, values, *__, **___):
        self.dots = values

    def __getattr__(self, _):
        return lambda *_, **__: None
