# SPDX-License-Identifier: Apache-2.0
"""Every reader of a stranger's file, fed with damaged ones.

A target takes bytes and a choice of damages, writes what comes of them where the reader looks, and
reads. A reader may raise a ValueError in its own words, one sentence; whatever else escapes is a
defect. `make fuzz` drives the targets by coverage (`run.py`), the tests by hypothesis.
"""

from __future__ import annotations

import atexit
import copy
import hashlib
import io
import json
import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

import holdfast
from holdfast.bench.suite import cells, load_suite
from holdfast.files import MALFORMED, reason
from holdfast.records.evaluations import read_violations
from holdfast.records.find import load, not_started
from holdfast.records.rows import read_progress, rows_until, tail
from holdfast.run import from_json, make_run, to_json
from holdfast.runs import checkpoint
from holdfast.runs.folder import open_folder, state_arrays, state_from
from holdfast.runs.plot import plot_run
from holdfast.runs.space_json import parse_space
from holdfast.ship.export.numpy_policy import Policy
from holdfast.tabular import read_cmdp
from holdfast.train.state import first_state, networks, refuse_huge

Choose = Callable[[int], int]
"""n -> one of 0, ..., n - 1."""

HOME = str(Path(holdfast.__file__).parent)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
PLACE = Path(tempfile.mkdtemp(prefix="holdfast-fuzz-", dir=MEMORY))
atexit.register(shutil.rmtree, PLACE, ignore_errors=True)
NASTY: list[Any] = [
    None, True, -1, 0, 1.5, 10**30, 10**400, 1e308, float("nan"), float("inf"), "", "²", "..",
    "x" * 300, "cost", "box", "[1, 2]", [], {}, [[]], [1, "a"], {"a": {}}, [None],
    [10**9, 10**9, 10**9],
]  # fmt: skip


def run(name: str, data: bytes) -> None:
    """One input through one target: choices are taken from the front of the bytes."""
    stream = io.BytesIO(data)
    TARGETS[name](data[-32:], lambda n: int.from_bytes(stream.read(2)) % n)


class Defect(Exception):
    """A reader failed in other words than its own."""


def judged(read: Callable[[], object]) -> None:
    """Run a reader; its own sentences are welcome, all else is a defect."""
    try:
        read()
    except ValueError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if not last.filename.startswith(HOME):
            raise Defect(f"raw {type(error).__name__}: {error}") from error
        if "\n" in str(error).strip() or len(str(error)) > 2000:
            raise Defect(f"not one sentence: {str(error)[:3000]}") from error
    except Exception as error:
        raise Defect(f"{type(error).__name__}: {error}") from error


def damaged(document: Any, choose: Choose) -> Any:
    """A copy of plain data with some of its values replaced, removed or doubled."""
    document = json.loads(json.dumps(document))
    for _ in range(1 + choose(3)):
        parent, key = document, None
        for _ in range(1 + choose(6)):
            inner = parent if key is None else parent[key]
            if not isinstance(inner, dict | list) or not inner:
                break
            keys = sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))
            parent, key = inner, keys[choose(len(keys))]
        if key is None:
            continue
        match choose(4):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, dict):
                parent[f"{key}2"] = parent[key]
            case _:
                parent[key] = copy.deepcopy(NASTY[choose(len(NASTY))])
    return document


def garbled(content: bytes, raw: bytes, choose: Choose) -> bytes:
    """Bytes with a piece replaced by others."""
    if choose(8) == 0 or not content:
        return raw
    start, span = choose(len(content)), choose(16)
    return content[:start] + raw[: choose(32)] + content[start + span :]


def either(document: Any, raw: bytes, choose: Choose) -> bytes:
    """JSON with wrong values, or no JSON any more."""
    whole = json.dumps(damaged(document, choose) if choose(4) else document).encode()
    return whole if choose(4) else garbled(whole, raw, choose)


# What is honest: a run folder, its arrays, a suite, a CMDP, an export.
EXPORTED: dict[str, Any] = {
    "about": {"env": "x"},
    "network": {
        "activation": "tanh", "image": [], "channels": [], "memory": 0, "colours_first": False,
    },
    "parts": [{"path": [], "shape": [3], "sizes": [], "starts": []}],
    "action": {"shape": [2], "dtype": "float64"},
}  # fmt: skip
RUN = make_run("c-trpo", env="probe/Speed-v0", hidden=[4], num_envs=2, epoch_steps=20)
BOX = {"type": "box", "dtype": "float32", "shape": [2], "low": -1.0, "high": [1.0, 2.0]}
PARTS = {
    "type": "dict",
    "parts": [
        ["a", {"type": "tuple", "parts": [BOX, {"type": "multi-binary", "shape": [2]}]}],
        ["b", {"type": "multi-discrete", "sizes": [2, 3], "start": [0, 0]}],
        ["c", {"type": "discrete", "n": 3, "start": 0}],
    ],
}
CONFIG: dict[str, Any] = {
    "run": to_json(RUN),
    "limits": {"cost": 6.0},
    "observation": {"shape": [3]},
    "action": BOX,
    "native": {"observation": PARTS, "action": None},
    "versions": {"holdfast": "0.1.0"},
}
COLUMNS = "epoch,env_steps,ep_return,ep_return_raw,ep_cost,ep_cost_raw,cost_regret,cost_regret_raw"
RECORD = f"{COLUMNS}\n1,20,1.5,1.5,7.0,7.0,1.0,1.0\n2,40,2.5,,5.0,True,1.0,1e0\n".encode()
SUITE = {
    "steps": 100,
    "seeds": [0, 1],
    "tasks": ["probe/Speed-v0"],
    "algorithms": ["cpo", {"name": "c-trpo", "sweep": {"beta": [0.2, 1.0]}}],
    "settings": {"num_envs": 4, "epoch_steps": 20},
    "limits": {"probe/Speed-v0": 10},
}
CMDP = {
    "gamma": 0.9,
    "initial": [0.8, 0.2],
    "reward": [[1, 0], [2, 0]],
    "cost": [[[0.1, 0], [1, 0.01]]],
    "cost_limit": [0.2],
    "transition": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
}
ENTRIES = {k: v for k, v in CMDP.items() if k != "transition"} | {
    "entries": [[0, 0, 0, 1], [0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1.0]]
}
JUDGEMENT = {
    "epoch": 2,
    "cost": {"cost": {"distance": 0.1, "distance_violating": 0.2}},
    "violation_rate": {"estimate": 0.5},
}


def _template() -> Any:
    folder = PLACE / "honest"
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(CONFIG))
    opened = open_folder(folder)
    return first_state(RUN, opened.spaces), first_state(RUN, opened.spaces, shapes_only=True)


STATE, SHAPES = _template()
ARRAYS = {k: np.array(v, order="C") for k, v in state_arrays(STATE).items()}
STORED = save(ARRAYS)


def config(raw: bytes, choose: Choose) -> None:
    """run.json, as resume, evaluate, watch, certify and export read it."""
    folder = _folder("config")
    (folder / "run.json").write_bytes(either(CONFIG, raw, choose))

    def read() -> None:
        opened = open_folder(folder)
        refuse_huge(opened.run, opened.spaces, networks(opened.run, opened.spaces)[0])
        if slow:
            first_state(opened.run, opened.spaces, shapes_only=True)

    slow = choose(256) == 255  # networks, too
    judged(read)


def record(raw: bytes, choose: Choose) -> None:
    """progress.csv, through every reader of it."""
    folder = _folder("record")
    file = folder / "progress.csv"
    file.write_bytes(garbled(RECORD, raw, choose))
    readers = (lambda: rows_until(file, 1), lambda: read_progress(file), lambda: tail(file))
    judged(readers[choose(3)])


def spaces(raw: bytes, choose: Choose) -> None:
    """A description of spaces, as `config` holds it."""
    described = damaged(PARTS, choose)
    judged(lambda: malformed(lambda: parse_space(described)))


def settings(raw: bytes, choose: Choose) -> None:
    """The settings of a run, as `config` holds them."""
    changed = damaged(CONFIG["run"], choose)
    judged(lambda: malformed(lambda: from_json(changed)))


def malformed(read: Callable[[], object]) -> None:
    """As `open_folder` does: data of another form are one of these, and it says so."""
    try:
        read()
    except MALFORMED as error:
        reason(error)


def arrays(raw: bytes, choose: Choose) -> None:
    """A checkpoint, whose digest is right: what is in it must not matter more for that."""
    folder = _folder("arrays")
    place = folder / "checkpoint" / "epoch-000001"
    place.mkdir(parents=True, exist_ok=True)
    if choose(2):
        changed = dict(ARRAYS)
        name = sorted(changed)[choose(len(changed))]
        shapes = [(), (0,), (1,), (2,), (2, 3), (3, 2, 1), changed[name].shape]
        kinds = [np.float32, np.float64, np.int64, np.bool_, np.uint8]
        changed[name] = np.zeros(shapes[choose(len(shapes))], kinds[choose(len(kinds))])
        content = save(changed)
    else:
        content = garbled(STORED, raw, choose)
    meta = {"format": 1, "epoch": 1, "sha256": hashlib.sha256(content).hexdigest()}
    (place / "state.safetensors").write_bytes(content)
    (place / "state.json").write_bytes(
        json.dumps(meta).encode() if choose(8) else either(meta, raw, choose)
    )

    def read() -> None:
        epoch, found, _ = checkpoint.load(folder)
        state_from(SHAPES, epoch, found)

    judged(read)


def suite(raw: bytes, choose: Choose) -> None:
    """A suite file, to its cells."""
    file = _folder("suite") / "mine.toml"
    text = toml(damaged(SUITE, choose)).encode()
    file.write_bytes(text if choose(4) else garbled(text, raw, choose))
    judged(lambda: cells(load_suite(file)))


def cmdp(raw: bytes, choose: Choose) -> None:
    """A CMDP file, dense or as entries."""
    file = _folder("cmdp") / "mine.json"
    file.write_bytes(either(ENTRIES if choose(2) else CMDP, raw, choose))
    judged(lambda: read_cmdp(file))


def report(raw: bytes, choose: Choose) -> None:
    """Folders of ours and of others, as the report finds and labels them; none may stop it."""
    folder = _folder("report")
    foreign = {"algo": "cpo", "env_id": "Task-v0", "seed": 1, "cost_limit": 25, "total_steps": 40}
    for name, file, document in (("a", "run.json", CONFIG), ("b", "config.json", foreign)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / file).write_bytes(either(document, raw, choose))
        content = RECORD if choose(2) else garbled(RECORD, raw, choose)
        (folder / name / "progress.csv").write_bytes(content)
    listed = {"suite": "mine", "cells": ["a", "c", "../d"]}
    (folder / "suite.json").write_bytes(
        either(listed, raw, choose) if choose(2) else b'{"cells":[]}'
    )
    (folder / "evaluation_greedy.json").write_bytes(either(JUDGEMENT, raw, choose))
    judged(lambda: not_started(folder))
    judged(lambda: load([folder]))
    judged(lambda: read_violations(folder, "greedy", 2))


def table(raw: bytes, choose: Choose) -> None:
    """A Parquet table of runs: damaged bytes, or columns of the wrong kind."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {
        "algorithm": ["cpo", "cpo"], "task": ["T", "T"], "seed": [0, 0], "env_steps": [10, 20],
        "ep_return": [1.0, 2.0], "ep_cost": [1.0, 2.0], "cost_limit": [5.0, 5.0],
        "beta": [0.5, 0.5], "kl": [0.1, None],
    }  # fmt: skip
    name = sorted(columns)[choose(len(columns))]
    odd: list[Any] = [
        ["x", "y"], [None, None], [[1], [2, 3]], [b"a", b"b"], [-1, -1], [1e308, float("nan")],
        [{"a": 1}, {"a": 2}], [True, False], [2**62, 2**62], ["1", "2"],
    ]  # fmt: skip
    columns[name] = odd[choose(len(odd))]
    target = io.BytesIO()
    parquet.write_table(pa.table(columns), target)
    file = _folder("table") / "runs.parquet"
    content = target.getvalue()
    file.write_bytes(content if choose(2) else garbled(content, raw, choose))
    judged(lambda: load([file]))


def exported(raw: bytes, choose: Choose) -> None:
    """An exported policy.npz."""
    texts = damaged(EXPORTED, choose) if choose(2) else EXPORTED
    parts: dict[str, Any] = {
        "weight0": np.zeros((3, 2), np.float32), "bias0": np.zeros(2, np.float32),
        "std": np.ones(2, np.float32), "middle": np.zeros(2), "half": np.ones(2),
        "low": -np.ones(2), "high": np.ones(2), "mean": np.zeros(3), "scale": np.ones(3),
        **{str(key): np.array(json.dumps(text)) for key, text in texts.items()},
    }  # fmt: skip
    name = sorted(parts)[choose(len(parts))]
    shapes = [(), (0,), (3,), (2, 3), (3, 2), (1, 1, 1)]
    match choose(4):
        case 0:
            del parts[name]
        case 1:
            parts[name] = np.zeros(shapes[choose(len(shapes))])
        case 2:
            parts[name] = np.array("text")
        case _:
            pass
    target = io.BytesIO()
    np.savez(target, **parts)
    content = target.getvalue()
    file = _folder("exported") / "policy.npz"
    file.write_bytes(content if choose(2) else garbled(content, raw, choose))
    judged(lambda: Policy(file)(np.zeros(3)))


def picture(raw: bytes, choose: Choose) -> None:
    """`holdfast plot` of a record whose columns are not those of a run."""
    folder = _folder("picture")
    (folder / "run.json").write_text(json.dumps(CONFIG))
    (folder / "progress.csv").write_bytes(garbled(RECORD, raw, choose))
    judged(lambda: plot_run(open_folder(folder), folder / "progress.svg"))


def _folder(name: str) -> Path:
    folder = PLACE / name
    folder.mkdir(exist_ok=True)
    return folder


def toml(value: Any, top: bool = True) -> str:
    """Plain data as TOML; what TOML cannot say becomes text."""
    if isinstance(value, dict) and top:
        return "\n".join(f"{json.dumps(k)} = {toml(v, False)}" for k, v in value.items())
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(k)} = {toml(v, False)}" for k, v in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner, False) for inner in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return '"none"' if value is None else json.dumps(value)


READERS = (config, spaces, settings, record, arrays, suite, cmdp, report, table, exported)
TARGETS: dict[str, Callable[[bytes, Choose], None]] = {read.__name__: read for read in READERS}
