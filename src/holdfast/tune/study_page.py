# SPDX-License-Identifier: Apache-2.0
"""The page of a study: every trial, the winner, and commands that continue with it."""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from holdfast.drawing import svg
from holdfast.drawing.palette import page_colours
from holdfast.files import write_atomic
from holdfast.run import Run, make_run
from holdfast.settings import leaves
from holdfast.tune.space import tuned
from holdfast.tune.study import Study, Trial, winner

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:var(--ink);background:var(--bg)}"
    "table{border-collapse:collapse;width:100%;font-size:14px}"
    "td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right}"
    "td:first-child,th:first-child{text-align:left}pre{background:var(--chip);padding:.8rem;"
    "overflow-x:auto}.best{background:var(--chip);font-weight:600}.scroll{overflow-x:auto}"
    ".charts{display:flex;flex-wrap:wrap;gap:1rem}.charts svg{flex:1 1 22rem}"
    ".no{color:var(--unsafe)}.yes{color:var(--safe)}"
)


def command_of(run: Run) -> str:
    """`holdfast train ...` for a run, with the settings that differ from the algorithm's
    defaults.
    """
    plain = make_run(run.name, run.preset, env=run.env)
    usual = {setting.path: setting.value for setting in leaves(plain)}
    words = ["holdfast", "train", run.name, run.env]
    words += ["--preset", run.preset] if run.preset else []
    for setting in leaves(run):
        value = setting.value
        if setting.name in ("env", "preset", "name") or usual.get(setting.path) == value:
            continue
        flag = "--" + setting.name.replace("_", "-")
        if setting.name == "limits" and isinstance(value, dict):
            words += [w for name, limit in value.items() for w in ("--limit", f"{name}={limit}")]
        elif setting.name == "env_args" and isinstance(value, dict):
            words += [w for name, arg in value.items() for w in ("--env-arg", f"{name}={arg}")]
        elif isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            many = value if isinstance(value, tuple) else (value,)
            words += [flag, *map(str, many)]
    return shlex.join(words)


def suite_of(study: Study, best: Trial, seeds: Sequence[int]) -> str:
    """A suite as TOML: the winner and the initial settings, on seeds that the search did not
    use.
    """
    run = tuned(study.run, study.space, best.params)
    known = {setting.path: setting.value for setting in leaves(study.run)}
    plain = make_run(run.name, run.preset, env=run.env)
    usual = {setting.path: setting.value for setting in leaves(plain)}
    shown_elsewhere = ("env", "seed", "steps", "preset", "name")
    shared = {
        s.name: s.value
        for s in leaves(study.run)
        if s.name not in shown_elsewhere and usual.get(s.path) != s.value
    }
    found = {s.name: s.value for s in leaves(run) if known.get(s.path) != s.value}
    shared = {name: value for name, value in shared.items() if name not in found}
    lines = [
        f'description = "The winner of {_plain_text(study.run.env)} beside the initial settings"',
        f"steps = {run.steps}",
        f"seeds = {list(seeds)}",
        f"tasks = [{_toml(run.env)}]",
        *([f"preset = {_toml(run.preset)}"] if run.preset else []),
        f"settings = {_toml(shared)}",
        f"algorithms = [{_toml(run.name)}, {{ name = {_toml(run.name)}, settings = "
        f"{_toml(found)} }}]" if found else f"algorithms = [{_toml(run.name)}]",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _plain_text(text: str) -> str:
    return "".join(c for c in text if c.isalnum() or c in " -_./:")


def _toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


def write_page(out: Path, study: Study, trials: Sequence[Trial], proof: Sequence[str]) -> Path:
    """study.html: the picture, the winner with its commands, and a table of all trials."""
    best = winner(trials)
    run, show = study.run, html.escape
    title = f"{run.name} on {run.env}: {len(trials)} trials of {run.steps:,} steps"
    parts = [f"<h1>{show(title)}</h1>", _meaning(study), _picture(trials)]
    if best is not None:
        heading = "The winner" if best.safe else "No trial is safe; the one nearest to its limit"
        found = f"return {best.value:.4g}, {_excess(study, best)}"
        parts.append(f"<h2>{heading}: {best.name}, {show(found)}</h2>")
        parts.append(f"<pre>{show(chr(10).join(proof))}</pre>")
        parts.append(
            "<p>It is the best of many on one seed, so its numbers are too optimistic: the suite "
            "uses seeds that the search did not use.</p>"
        )
    names = [d.name for d in study.space]
    head = "".join(f"<th>{show(n)}</th>" for n in ("trial", *names, "return", "excess", "state"))
    rows = [_row(study, trial, trial is best) for trial in _ranked(trials)]
    parts.append(f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>')
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{show(title)}</title><style>{page_colours()}{svg.STYLE}{STYLE}</style>{''.join(parts)}</html>\n"
    )
    write_atomic(out / "study.html", page.encode())
    return out / "study.html"


def _ranked(trials: Sequence[Trial]) -> list[Trial]:
    order = {"complete": 0, "stopped": 1, "waiting": 2}
    key = lambda t: (order[t.state], not t.safe, -np.nan_to_num(t.value), t.number)
    return sorted(trials, key=key)


def _meaning(study: Study) -> str:
    what = {
        "regret": "the raw regret of an epoch (its mean cost above the limit)",
        "tail": "the mean cost of the last quarter above its limit",
    }[study.constraint]
    space = "; ".join(map(str, study.space))
    return (
        f"<p>Searched: {html.escape(space)}. <em>Return</em>: mean of the last quarter of a run. "
        f"<em>Excess</em>: {what}, in units of the limit; a trial is safe at {study.allow:g} or "
        "less. A trial is stopped when its return falls below the median of the safe ones before "
        "it.</p>"
    )


def _excess(study: Study, trial: Trial) -> str:
    return f"excess {trial.excess + study.allow:.4g}"


def _row(study: Study, trial: Trial, best: bool) -> str:
    settings = tuned(study.run, study.space, trial.params)
    values = {s.name: s.value for s in leaves(settings)}
    shown = [f"{v:.4g}" if isinstance(v := values[d.name], float) else str(v) for d in study.space]
    done = trial.state == "complete"
    mark = ("yes" if trial.safe else "no") if done else ""
    state = {"yes": "safe", "no": "unsafe", "": trial.state}[mark]
    if trial.state == "stopped":
        state = f"stopped at epoch {trial.curve.size}"
    numbers = [
        f"{trial.value:.4g}" if trial.curve.size else "",
        f"{trial.excess + study.allow:.4g}" if done else "",
    ]
    cells = "".join(f"<td>{html.escape(text)}</td>" for text in (trial.name, *shown, *numbers))
    kind = ' class="best"' if best else ""
    return f'<tr{kind}>{cells}<td class="{mark}">{state}</td></tr>'


def _picture(trials: Sequence[Trial]) -> str:
    """Return against excess, and the curves, as inline SVG."""
    done = [trial for trial in trials if trial.state == "complete"]
    if not done:
        return ""
    colour = lambda trial: f"var(--{'safe' if trial.safe else 'unsafe'})"
    dots = [(trial.excess, trial.value, colour(trial)) for trial in done]
    curves = [
        (
            np.arange(1.0, trial.curve.size + 1),
            np.asarray(trial.curve, np.float64),
            colour(trial) if trial.safe or trial in done else "var(--soft)",
        )
        for trial in trials
        if trial.curve.size
    ]
    across = "excess above the allowed one (green: safe)"
    left = svg.scatter(dots, "Return against excess of each trial", across, "return, last quarter")
    right = svg.lines(curves, {}, "Return of each trial", "epoch (grey: stopped)", "return")
    return f'<div class="charts">{left}{right}</div>'
