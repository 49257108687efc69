# SPDX-License-Identifier: Apache-2.0
"""A run as the plain data of run.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from holdfast.algorithms import ALGORITHMS, find
from holdfast.run.fields import Run
from holdfast.settings import Settings, built, converted, shown


def to_json(run: Run) -> dict[str, object]:
    """Plain data for run.json."""
    return asdict(run)


def from_json(given: object) -> Run:
    """The run of a run.json, every key and type checked."""
    if not isinstance(given, Mapping):
        raise ValueError(f"a run is a table of settings, not {shown(given)}.")
    data = cast(Mapping[str, object], given)
    name = find(str(data.get("name", "")))
    kind = cast(type[Settings], type(ALGORITHMS[name].make()))
    algorithm = converted(data.get("algorithm", {}), kind, "algorithm")
    rest = {key: value for key, value in data.items() if key != "algorithm"}
    rest.setdefault("noise_time", 0.0)  # runs of versions without this setting were white
    return built(Run, rest, "run", algorithm=algorithm)


def default_settings(algorithm: str) -> dict[str, object]:
    """What a run.json means that names an algorithm and nothing else; empty for an unknown one."""
    return to_json(from_json({"name": algorithm})) if algorithm in ALGORITHMS else {}
