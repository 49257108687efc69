# SPDX-License-Identifier: Apache-2.0
"""Check that constraints.txt pins all that the development install needs and nothing else."""

import importlib.metadata as metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as name_of


def needed(text: str, found: dict[str, str]) -> dict[str, str]:
    """Name → installed version of a requirement and of all that it requires in turn."""
    wish = Requirement(text)
    package = metadata.distribution(wish.name)
    key = f"{name_of(wish.name)}{sorted(wish.extras)}"
    if key in found:
        return found
    found[key] = f"{name_of(wish.name)}=={package.version}"
    for line in package.requires or ():
        inner = Requirement(line)
        if inner.marker is None or any(
            inner.marker.evaluate({"extra": extra}) for extra in wish.extras or {""}
        ):
            needed(line.partition(";")[0], found)
    return found


lines = (Path(__file__).parents[1] / "constraints.txt").read_text().splitlines()
pinned = [line.partition("==") for line in lines if line[:1].isalpha()]
pins = {f"{name_of(name)}=={version}" for name, _, version in pinned}
found = {
    line for line in needed("holdfast-rl[dev]", {}).values() if not line.startswith("holdfast-rl==")
}
if found != pins:
    raise SystemExit(
        f"constraints.txt pins {sorted(pins - found)} without need and lacks "
        f"{sorted(found - pins)}; mend it, or run `make setup`."
    )
