# SPDX-License-Identifier: Apache-2.0
"""An epoch as two lanes, one for each core: before and after the cheaper critics.

    python benchmarks/epoch_picture.py [--tasks ID ...] [--repeats 5] [--out docs/images/epoch.svg]

Each part of an epoch is repeated alone on data of the task: acting, estimate, critics, policy step.
An epoch has them in this order, with a second estimate by the fitted critics before the step. A
part has wall seconds and processor seconds, those of worker processes included. Processor time
fills the first lane up to the wall seconds, then the second; what is white is idle.
"Before" fits both critics jointly, ten passes at a rate of 1e-3; "after" is the default.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from holdfast import make_run
from holdfast.drawing.axes import write_formats
from holdfast.drawing.palette import AMBER, BLUE, GREEN, INK, PURPLE
from holdfast.process import cores, use_compilation_cache
from holdfast.train import train
from holdfast.train.environment import open_env, resolve_limits
from holdfast.train.epoch import advantages_of, batch_of, collect_epoch, compiled_estimate
from holdfast.train.state import UPDATE, VALUE_NOISE, key_of
from holdfast.train.update import make_update

TASKS = ("SafetyHalfCheetahVelocity-v1", "SafetyPointGoal1-v0")
BEFORE = {"critic_apart": False, "critic_decay": False, "critic_passes": 10, "critic_lr": 1e-3}
COLOURS = {"acting": BLUE, "estimate": PURPLE, "critics": AMBER, "step": GREEN}
ORDER = ("acting", "estimate", "critics", "estimate", "step")

Seconds = tuple[float, float]
"""Wall and processor seconds."""
Bar = tuple[int, float, float, str]
"""Lane, begin, width and part."""


def processor_seconds() -> float:
    """Of this process and of its running children."""
    tick, mine, total = os.sysconf("SC_CLK_TCK"), os.getpid(), 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(told[1]) == mine:
            total += (int(told[11]) + int(told[12])) / tick
    return total + time.process_time()


def measured(job: Callable[[], Any], repeats: int) -> Seconds:
    """Medians of several calls after the first."""
    job()
    pairs: list[Seconds] = []
    for _ in range(repeats):
        wall, processor = time.perf_counter(), processor_seconds()
        job()
        pairs.append((time.perf_counter() - wall, processor_seconds() - processor))
    walls, processors = zip(*pairs, strict=True)
    return statistics.median(walls), statistics.median(processors)


def part_seconds(task: str, repeats: int, **settings: Any) -> dict[str, Seconds]:
    """The parts of an epoch of the run, after two epochs of training."""
    run = make_run("c-trpo", env=task, steps=60_000, **settings)
    env = open_env(run)
    epochs = train(run, env)
    next(epochs)
    state = next(epochs).state
    epochs.close()
    start, index = state.env, 3
    update, key = make_update(run.algorithm), key_of(run, index, UPDATE)
    rollout, _ = collect_epoch(run, env, state, index, None)
    advantages = advantages_of(rollout, compiled_estimate(run), key_of(run, index, VALUE_NOISE))
    limits = resolve_limits(run, env)
    batch, _ = batch_of(run, state, rollout, limits, advantages, index)
    assert start is not None and update.fit is not None and update.minibatches is not None

    def act() -> None:
        env.restore(start)
        collect_epoch(run, env, state, index, None)

    def fit() -> None:
        picked = update.minibatches(key, batch)
        jax.block_until_ready(update.fit(state.learner.critics, batch, picked, None))

    jobs: dict[str, Callable[[], Any]] = {
        "acting": act,
        "estimate": lambda: jax.block_until_ready(advantages(state.learner.critics)),
        "critics": fit,
        "step": lambda: jax.block_until_ready(update.improve(state.learner, batch, key)),
    }
    found = {name: measured(job, repeats) for name, job in jobs.items()}
    env.close()
    return found


def bars(parts: dict[str, Seconds]) -> list[Bar]:
    """The lanes of an epoch: the second has the processor time beyond one core."""
    drawn: list[Bar] = []
    begin = 0.0
    for name in ORDER:
        wall, processor = parts[name]
        drawn.append((0, begin, min(processor, wall), name))
        drawn.append((1, begin, min(max(processor - wall, 0.0), wall), name))
        begin += wall
    return drawn


def whole(parts: dict[str, Seconds]) -> float:
    """Wall seconds of an epoch."""
    return sum(parts[name][0] for name in ORDER)


def busy(parts: dict[str, Seconds]) -> float:
    """The share of two cores that is in use."""
    return sum(width for _, _, width, _ in bars(parts)) / (2 * whole(parts))


def draw(rows: dict[str, dict[str, Seconds]], out: Path) -> list[Path]:
    figure, axes = plt.subplots(len(rows), 1, figsize=(8, 1.3 * len(rows)), sharex=False)
    for axis, (title, parts) in zip(axes, rows.items(), strict=True):
        for lane, begin, width, name in bars(parts):
            axis.barh(-lane, width, 0.8, begin, color=COLOURS[name], label=name)
        axis.set_yticks([0, -1], ["core 1", "core 2"])
        axis.set_title(
            f"{title}: {busy(parts):.0%} of two cores", fontsize=9, color=INK, loc="left"
        )
        axis.spines[["top", "right"]].set_visible(False)
    for one, two in zip(axes[::2], axes[1::2], strict=True):  # the same scale before and after
        ends = max(one.get_xlim()[1], two.get_xlim()[1])
        one.set_xlim(0, ends)
        two.set_xlim(0, ends)
    axes[-1].set_xlabel("seconds of an epoch of 20,000 steps")
    handles, names = axes[0].get_legend_handles_labels()
    once = dict(zip(names, handles, strict=True))
    figure.legend(once.values(), once, ncols=4, loc="upper right", fontsize=8, frameon=False)
    figure.tight_layout()
    return write_formats(figure, out.with_suffix(""), [out.suffix[1:]], 150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/images/epoch.svg"))
    options = parser.parse_args()
    use_compilation_cache()
    matplotlib.rcParams["svg.hashsalt"] = "holdfast"
    print(f"{platform.machine()}, {cores()} cores, load {os.getloadavg()[0]:.1f} before, ", end="")
    print(f"jax {jax.__version__}; wall / processor seconds\n")
    head = ["task", "critics", *COLOURS, "epoch", "of two cores"]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    rows: dict[str, dict[str, Seconds]] = {}
    for task in options.tasks:
        for name, settings in (("before", BEFORE), ("after", {})):
            parts = part_seconds(task, options.repeats, **settings)
            rows[f"{task}, {name}"] = parts
            cells = " | ".join(f"{wall:.2f} / {cpu:.2f}" for wall, cpu in parts.values())
            shares = f"{whole(parts):.2f} | {busy(parts):.2f}"
            print(f"| {task} | {name} | {cells} | {shares} |", flush=True)
    print("\nwritten:", *draw(rows, options.out))


if __name__ == "__main__":
    main()
