# SPDX-License-Identifier: Apache-2.0
"""Curves and tables of the runs that results/ keeps, drawn anew at every build."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from building.reference import table as markdown

ROOT = Path(__file__).parents[2]
WORDS = {"reward": "return", "cost": "cost of an episode", "regret": "cost regret"}
THEMES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {
        **{k: "#d6d6d6" for k in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")},
        **{"axes.titlecolor": "#d6d6d6", "axes.edgecolor": "#8a8a8a", "grid.color": "#3a3c40"},
    },
}
INK = {"light": lambda rgb: rgb, "dark": lambda rgb: [0.45 + 0.55 * part for part in rgb]}
"""What a colour becomes on the paper of a theme."""
VARIANTS = {"c-trpo": ("c-trpo-no-hysteresis", "c-trpo-noise"), "cpo": ("cpo-hysteresis",)}
"""Page → names that have no page of their own."""
SHOWN = "SafetyHalfCheetahVelocity-v1"
"""The task on the start page."""


def suites(results: Path) -> dict[str, Any]:
    """Folder of results/ → its runs."""
    from holdfast.report import load_runs

    folders = sorted(path for path in results.iterdir() if path.is_dir())
    return {folder.name: load_runs([folder])[0] for folder in folders}


def draw(results: Path, target: Path) -> list[Path]:
    """The curves of each algorithm in each folder of results/, and those of the start page."""
    from holdfast.algorithms import ALGORITHMS

    files: list[Path] = []
    target.mkdir(parents=True, exist_ok=True)
    for suite, runs in suites(results).items():
        for name in ALGORITHMS:
            own = [run for run in runs if run.algorithm in (name, *VARIANTS.get(name, ()))]
            if own and not any(name in names for names in VARIANTS.values()):
                files += figures(own, target, f"{name}_{suite}")
        if suite == "ours":
            files += figures([run for run in runs if run.task == SHOWN], target, "start")
    for old in set(target.iterdir()) - set(files):
        old.unlink()
    return files


def figures(runs: Sequence[Any], target: Path, stem: str) -> list[Path]:
    """One file for each task, metric and theme."""
    from matplotlib import rc_context

    from holdfast.report.curves import CURVES
    from holdfast.report.figures import STYLE

    files: list[Path] = []
    for task in sorted({run.task for run in runs}):
        here = [run for run in runs if run.task == task]
        for theme, colours in THEMES.items():
            for metric in CURVES:
                with rc_context(STYLE | colours):
                    files.append(target / f"{stem}_{plain(task)}_{metric}_{theme}.svg")
                    made = figure(here, metric, INK[theme])
                    made.savefig(files[-1], transparent=True, metadata={"Date": None})
    return files


def figure(runs: Sequence[Any], metric: str, ink: Callable[[Any], Any]) -> Any:
    """Of one task: the IQM over the seeds and their range, the limit if it is of costs."""
    from matplotlib.colors import to_rgb

    from holdfast.drawing.axes import draw_curve, draw_limit, figure_of
    from holdfast.drawing.palette import METHODS
    from holdfast.report.curves import curves

    drawn = curves(runs)
    tint = dict(zip(sorted({label for label, _ in drawn}), METHODS, strict=False))
    made, axes = figure_of(1, 1, (3.1, 2.1))
    axis = axes[0, 0]
    for (label, _), found in drawn.items():
        curve, colour = found[metric], ink(to_rgb(tint[label]))
        band = curve.low, curve.high
        draw_curve(
            axis, curve.steps / 1e6, curve.value, colour, band, lw=1.3, label=label, shade=0.2
        )
    axis.set_title(f"{plain(runs[0].task)}: {WORDS[metric]}", fontsize=9)
    for limit in runs[0].limits.values() if metric == "cost" else ():
        draw_limit(axis, limit, "#e0561f")  # visible on both themes
    if metric != "reward":
        axis.set_ylim(0, max(1.0, axis.get_ylim()[1]))
    if len(tint) > 1 and metric == "reward":
        axis.legend(fontsize=7)
    axis.set_xlabel("million environment steps")
    return made


def plain(task: str) -> str:
    return task.removeprefix("Safety").rpartition("-")[0]


def shown(stem: str, folder: Path, where: str, words: str) -> str:
    """Markdown for the three figures of each task of a stem, where they were drawn."""
    from holdfast.report.curves import CURVES

    end = "_cost_light.svg"
    tasks = [f.name[len(stem) + 1 : -len(end)] for f in sorted(folder.glob(f"{stem}_*{end}"))]
    images = [
        f"![{words}, {task}: {WORDS[metric]}]({where}/{stem}_{task}_{metric}_{theme}.svg)"
        f"{{.only-{theme}}}"
        for task in tasks
        for metric in CURVES
        for theme in THEMES
    ]
    return (
        "\n\n" + "\n".join(['<div class="curves">\n', *images, "\n</div>"]) + "\n" if images else ""
    )


def curves(algorithm: str, folder: Path) -> str:
    """The section of an algorithm's page that shows the runs of it which results/ keeps."""
    parts: list[str] = []
    files = folder.glob(f"{algorithm}_*_*_cost_light.svg")
    kept = {file.name.split("_")[1] for file in files}
    for suite in [*(name for name in KEPT if name in kept), *sorted(kept - set(KEPT))]:
        words = f"{algorithm}, results/{suite}"
        images = shown(f"{algorithm}_{suite}", folder, "../generated/curves", words)
        parts.append(f"The runs in `results/{suite}`{KEPT.get(suite, '')}{ABOUT}{images}")
    if not parts:
        parts = [f"No run of it is kept in `results/`; `{command(algorithm)}` makes some."]
    return "\n\n## Curves\n\n" + "\n\n".join(parts)


def command(algorithm: str) -> str:
    """What makes runs of it: the first suite that has some, or plain training."""
    from holdfast.bench.suite import load_suite

    for suite in SUITES:
        entries = load_suite(ROOT / suite if suite.endswith(".toml") else suite).algorithms
        if any(entry.name == algorithm for entry in entries):
            return f"holdfast bench {suite} --only {algorithm}/"
    return f"holdfast train {algorithm} {SHOWN}"


SUITES = ("reproduction", "evidence/rivals.toml", "evidence/others.toml")
"""Where runs that results/ does not keep come from."""
KEPT = {
    "ours": ", the default on seeds that no setting was chosen on (but Humanoid's seed "
    "20 had been seen before a change)",
    "again": ", the same on another processor",
    "ours-long": ", the default to 10 million steps",
    "reproduction": ", with `--preset published`",
    "others": ", with the defaults",
    "rivals": ", with the defaults, on seeds of `ours`",
    "holding": ", the default and its parts on the seeds that they were chosen on",
}
"""Folder of results/ → what its runs are, in the order of a page."""
ABOUT = (
    ": the interquartile mean over the seeds, the range from the lowest to the highest seed, "
    "and the limit (dashed)."
)


def table(folder: Path) -> str:
    """What the default does, as the picture shows it: a row for each task with finished runs."""
    from holdfast.report import load_runs
    from holdfast.report.finals import finals, horizons

    runs = [run for run in load_runs([folder])[0] if run.done] if folder.exists() else []
    if not runs:
        return "No finished runs are kept there yet.\n"
    horizon = horizons(runs)
    smooth, raw = (finals(runs, horizon, name) for name in ("cost_regret", "cost_regret_raw"))
    labels = {label for label, _ in smooth}
    rows: list[list[str]] = []
    for (label, task), final in sorted(smooth.items(), key=lambda item: item[0][1]):
        values = (final.reward, final.regret, raw[label, task].regret)
        name = plain(task) if len(labels) == 1 else f"{plain(task)}, {label}"
        steps = f"{horizon[task] / 1e6:g}"
        rows.append([name, str(len(final.seeds)), steps, *map(mean_and_range, values)])
    head = ("task", "seeds", "million steps", "return", "regret", "raw regret")
    return markdown(head, rows) + "\n"


def mean_and_range(values: Any) -> str:
    """The mean, and from one seed to another the lowest and the highest."""
    spread = f" <small>({values.min():.4g} .. {values.max():.4g})</small>"
    return f"{values.mean():.4g}{spread if len(values) > 1 else ''}"
