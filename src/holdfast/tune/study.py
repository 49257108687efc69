# SPDX-License-Identifier: Apache-2.0
"""A study: the search by Optuna, and the results in run folders.

    OUT/study.json     the run, the search space, the constraint, and the parameters of every trial
    OUT/trial-007/     an ordinary run folder
    OUT/study.html     the page

A study writes only study.json, atomically, before its trials start. The state of a trial (complete,
stopped by its curve, or not trained) follows from its run folder alone. So a study that is killed
at any instant continues as if uninterrupted. The next parameters are a function of the seed and of
the trials before, in waves of a fixed size.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from holdfast.bench.suite import Cell
from holdfast.files import read_json, write_json
from holdfast.process import optional
from holdfast.records.log import read_limits
from holdfast.records.rows import read_progress
from holdfast.records.statistics import Array
from holdfast.run import Run, to_json
from holdfast.tune.space import Dimension, Param, tuned

Constraint = Literal["regret", "tail"]
FORMAT = 1
TAIL = 0.25
"""The last share of a run, from which its return and the cost of `tail` are taken."""
STARTUP = 5
"""Number of random trials, and of complete safe ones, before any trial is stopped."""
MOST = 10_000


@dataclass(frozen=True)
class Study:
    """The search space, and the comparison of trials."""

    run: Run
    """The run with the settings of all trials."""
    space: tuple[Dimension, ...]
    constraint: Constraint = "regret"
    """The quantity that must be at most `allow`: the raw regret of an epoch, or the cost of the
    last quarter above its limit; in units of the limit.
    """
    allow: float = 0.01
    wave: int = 1
    """Number of trials that are proposed together, before results of any of them."""

    def asked(self) -> dict[str, Any]:
        """Plain data, for study.json."""
        rest = {"constraint": self.constraint, "allow": self.allow, "wave": self.wave}
        return {"run": to_json(self.run), "space": [asdict(d) for d in self.space], **rest}


@dataclass(frozen=True)
class Trial:
    """One trial, read from its run folder."""

    number: int
    params: Mapping[str, Param]
    """The sampled parameters."""
    state: Literal["waiting", "complete", "stopped"]
    curve: Array
    """[epochs] the return of each epoch so far."""
    value: float = np.nan
    """Mean return of the last quarter."""
    excess: float = np.inf
    """The constrained quantity minus `allow`: at most 0 is safe."""

    @property
    def name(self) -> str:
        return name_of(self.number)

    @property
    def safe(self) -> bool:
        return self.state == "complete" and self.excess <= 0


def name_of(number: int) -> str:
    return f"trial-{number:03d}"


def cell_of(study: Study, trial: Trial) -> Cell:
    return Cell(trial.name, tuned(study.run, study.space, trial.params))


def begin(out: Path, study: Study) -> tuple[Study, list[dict[str, Param]]]:
    """The study in a folder, with the parameters of its trials so far; ValueError if it is another.

    The size of a wave is that of the first command, since proposals depend on it.
    """
    file = out / "study.json"
    if not file.exists():
        if out.exists() and any(not child.name.startswith(".") for child in out.iterdir()):
            raise ValueError(f"'{out}' is not empty and has no study: choose another --out.")
        return study, []
    data = read_json(file)
    if data.get("format") != FORMAT or not isinstance(data.get("trials"), list):
        raise ValueError(f"'{file}' is not a study of this version: choose another --out.")
    study = replace(study, wave=max(1, int(data.get("wave", study.wave))))
    before, now = _plain(data), _plain(study.asked())
    for name in now:
        if before.get(name) != now[name]:
            what = "search space" if name == "space" else name
            found = _first_difference(before.get(name), now[name])
            raise ValueError(
                f"'{out}' has a study with another {what} ({found}): repeat its first command, or "
                "choose another --out."
            )
    return study, list(data["trials"])


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data after a round trip through JSON."""
    import json

    return json.loads(json.dumps({k: v for k, v in data.items() if k not in ("trials", "format")}))


def _first_difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in now:
            if before.get(key) != now[key]:
                return f"{key}: {_first_difference(before.get(key), now[key])}"
    if isinstance(before, list) and isinstance(now, list):
        names = [[str(d["name"]) for d in part if isinstance(d, dict)] for part in (before, now)]
        if names[0] != names[1]:
            return f"{', '.join(names[0])}; requested: {', '.join(names[1])}"
        return next(_first_difference(a, b) for a, b in zip(before, now, strict=True) if a != b)
    return f"{str(before)[:80]}; requested: {str(now)[:80]}"


def write(out: Path, study: Study, asked: Sequence[Mapping[str, Param]]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    data = study.asked() | {"format": FORMAT, "trials": [dict(params) for params in asked]}
    write_json(out / "study.json", data)


def read_trials(out: Path, study: Study, asked: Sequence[Mapping[str, Param]]) -> list[Trial]:
    """All trials from their folders; each is compared with the waves before its own."""
    found: list[Trial] = []
    for number, params in enumerate(asked):
        before = found[: number // study.wave * study.wave]
        found.append(read_trial(out, study, number, params, before))
    return found


def read_trial(
    out: Path, study: Study, number: int, params: Mapping[str, Param], before: Sequence[Trial]
) -> Trial:
    """One trial, cut at the epoch where its curve falls below the median."""
    folder = out / name_of(number)
    columns = read_progress(folder / "progress.csv")
    curve = columns.get("ep_return_raw", columns["ep_return"])
    end = stopped_at(study, curve, before)
    if end is not None:
        return Trial(number, params, "stopped", curve[:end], float(curve[end - 1]))
    if not (folder / "done.json").exists() or not curve.size:
        return Trial(number, params, "waiting", curve)
    limits = read_limits(read_json(folder / "run.json").get("limits"))
    last = max(1, round(TAIL * curve.size))
    excess = _excess(study, columns, limits, last) - study.allow
    return Trial(number, params, "complete", curve, float(curve[-last:].mean()), excess)


def _excess(
    study: Study, columns: Mapping[str, Array], limits: Mapping[str, float], last: int
) -> float:
    """Regret of an epoch, or cost of the last quarter above its limit; for the worst constraint."""
    worst = -np.inf
    for name, limit in limits.items():
        end, unit = f"/{name}" if len(limits) > 1 else "", limit or 1.0
        if study.constraint == "regret":
            regret = columns[f"cost_regret_raw{end}"]
            worst = max(worst, float(regret[-1]) / len(regret) / unit)
        else:
            worst = max(worst, float(columns[f"ep_cost_raw{end}"][-last:].mean() - limit) / unit)
    return worst


def stopped_at(study: Study, curve: Array, before: Sequence[Trial]) -> int | None:
    """The epoch at which a trial falls below the median of the safe ones before it; or None.

    The median is over safe trials only, because unsafe ones often have a higher return. The first
    quarter of a run is never judged.
    """
    safe = [trial for trial in before if trial.safe]
    if len(safe) < STARTUP:
        return None
    optuna = load_optuna()
    epochs = study.run.epochs
    pruner = optuna.pruners.MedianPruner(
        n_startup_trials=STARTUP, n_warmup_steps=max(1, round(TAIL * epochs))
    )
    others = optuna.create_study(direction="maximize")
    others.add_trials([_frozen(optuna, study, trial) for trial in safe])
    for epoch in range(1, min(curve.size, epochs - 1) + 1):
        seen = {i + 1: float(v) for i, v in enumerate(curve[:epoch])}
        running = optuna.trial.create_trial(
            state=optuna.trial.TrialState.RUNNING, intermediate_values=seen
        )
        if pruner.prune(others, running):
            return epoch
    return None


def propose(study: Study, trials: Sequence[Trial], count: int) -> list[dict[str, Param]]:
    """Parameters of the next trials: a function of the seed and of the trials so far."""
    optuna = load_optuna()
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=STARTUP, seed=int(_seed(study.run.seed, len(trials)))
    )
    history = optuna.create_study(direction="maximize", sampler=sampler)
    history.add_trials([_frozen(optuna, study, trial) for trial in trials])
    space = {d.name: d.distribution(optuna) for d in study.space}
    return [dict(history.ask(space).params) for _ in range(count)]


def _seed(seed: int, trial: int) -> int:
    return int(np.random.SeedSequence([seed, trial]).generate_state(1)[0])


def _frozen(optuna: Any, study: Study, trial: Trial) -> Any:
    states = optuna.trial.TrialState
    done = trial.state == "complete"
    return optuna.trial.create_trial(
        state=states.COMPLETE if done else states.PRUNED,
        value=trial.value,
        params=dict(trial.params),
        distributions={d.name: d.distribution(optuna) for d in study.space},
        intermediate_values={i + 1: float(v) for i, v in enumerate(trial.curve)},
        constraints={study.constraint: trial.excess} if done else None,
    )


def load_optuna() -> Any:
    optuna = optional("optuna", "tune", "`holdfast tune`")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def winner(trials: Sequence[Trial]) -> Trial | None:
    """The safe trial with the largest return; if none is safe, the one nearest to its limit."""
    complete = [trial for trial in trials if trial.state == "complete"]
    safe = [trial for trial in complete if trial.safe]
    if safe:
        return max(safe, key=lambda trial: trial.value)
    return min(complete, key=lambda trial: trial.excess, default=None)
