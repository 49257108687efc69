# SPDX-License-Identifier: Apache-2.0
"""Print the lowest versions that pyproject.toml allows, as constraints for `make test-floors`."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
groups = [project["dependencies"], *project["optional-dependencies"].values()]
lines = {line for group in groups for line in group if not line.startswith("holdfast-rl[")}
for line in sorted(lines):
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)", line)
    if found is None:
        raise SystemExit(
            f"'{line}' in pyproject.toml states no lowest version; write NAME>=VERSION."
        )
    print("==".join(found.groups()))
