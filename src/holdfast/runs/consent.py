# SPDX-License-Identifier: Apache-2.0
"""Runs that this user trained on this machine; they may import the code that they name.

A run folder may name code (`car.py:Car`), and a folder from elsewhere must not choose what is
imported here. Training writes a record into the user's state folder: the path of the run, the
digest of its run.json, and the working folder of relative names. A folder from elsewhere has no
record. A folder that was moved or changed, or is used from another working folder, does not match
its record.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from holdfast.envs.foreign.references import needs_consent
from holdfast.files import CheckpointError, read_json, write_json
from holdfast.run import Run


def state_folder() -> Path:
    """The state folder of this user's programs."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "holdfast"


def remember(folder: Path, run: Run) -> None:
    """Record that this user trains `run` here, with code that the user named or allowed."""
    if not needs_consent((run.env, run.cost), run.env_args):
        return
    with suppress(OSError):  # without a place for records it asks, which is safe
        file = _record(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, _seen(folder))


def is_remembered(folder: Path) -> bool:
    """Whether the folder is unchanged since this user trained it on this machine."""
    try:
        return read_json(_record(folder)) == _seen(folder)
    except (OSError, CheckpointError):
        return False


def _record(folder: Path) -> Path:
    place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    return state_folder() / "runs" / f"{place}.json"


def _seen(folder: Path) -> dict[str, str]:
    config = hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()
    return {"run": str(folder.resolve()), "config": config, "from": str(Path.cwd())}
