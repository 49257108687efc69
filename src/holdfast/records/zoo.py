# SPDX-License-Identifier: Apache-2.0
"""Trained policies that come with the library, by name: zoo/TASK.

    ZOO/index.json               name → numbers and the digest of every file
    ZOO/TASK/                    a run folder with one checkpoint and its model card

A policy is copied before it is used, and every file is checked by its digest. So no command can
change the library's own files. HOLDFAST_ZOO names another folder of the same form.
"""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast.files import MB, CheckpointError, confined, content, read_json
from holdfast.settings import nearest

PREFIX, INDEX, FORMAT = "zoo/", "index.json", 1
LARGEST = 64 * MB
"""Largest size of one file of a policy, in bytes."""


class ZooError(CheckpointError):
    """A policy that is missing or altered."""


def zoo_folder() -> Path:
    """The folder of the policies."""
    given = os.environ.get("HOLDFAST_ZOO")
    return Path(given) if given else Path(str(files("holdfast"))) / "zoo"


def is_zoo(where: str | os.PathLike[str]) -> bool:
    """Whether it names a policy of the zoo: zoo/TASK, unless a folder has the same name."""
    name = os.fspath(where).replace(os.sep, "/")
    return name.startswith(PREFIX) and not Path(where).exists()


def entries(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Task → the index entry of its policy; empty without a zoo."""
    folder = folder or zoo_folder()
    if not (folder / INDEX).is_file():
        return {}
    data = read_json(folder / INDEX)
    found = data.get("policies")
    if data.get("format") != FORMAT or not isinstance(found, dict):
        raise ZooError(
            f"'{folder / INDEX}' is not an index of this version: install Holdfast again."
        )
    return {str(name): dict(entry) for name, entry in found.items()}


def digests(folder: Path) -> dict[str, str]:
    """Relative name → digest of every file of a policy."""
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {n: hashlib.sha256(content(folder / n, LARGEST)).hexdigest() for n in names}


def entry_of(
    where: str | os.PathLike[str], known: dict[str, dict[str, Any]]
) -> tuple[str, dict[str, Any]]:
    """(task, its entry) of zoo/TASK or TASK."""
    name = os.fspath(where).replace(os.sep, "/").removeprefix(PREFIX).strip("/")
    if name not in known:
        other = "this installation contains no policies; `holdfast zoo --make RUNS` makes them."
        there = [f"{PREFIX}{task}" for task in known]
        hint = nearest(f"{PREFIX}{name}", there) if there else f"; {other}"
        raise ZooError(f"there is no policy 'zoo/{name}' and no such folder{hint}")
    return name, known[name]


def checked(where: str | os.PathLike[str]) -> tuple[str, dict[str, bytes]]:
    """(task, its files) of zoo/TASK, each checked by its digest."""
    (name, entry), folder = entry_of(where, entries()), zoo_folder()
    wanted, found = entry.get("sha256"), dict[str, bytes]()
    if not isinstance(wanted, dict) or not wanted:
        raise ZooError(f"the index of the zoo lists no files of '{name}': install Holdfast again.")
    for file, digest in wanted.items():
        try:
            data = content(folder / name / confined(str(file)), LARGEST)
        except (OSError, ValueError) as error:
            raise ZooError(
                f"the policy 'zoo/{name}' lacks its {file} ({error}): install Holdfast again."
            ) from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise ZooError(
                f"{file} of the policy 'zoo/{name}' was altered (its digest differs): install "
                "Holdfast again."
            )
        found[str(file)] = data
    return name, found
