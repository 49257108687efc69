# SPDX-License-Identifier: Apache-2.0
"""What the built packages contain: `packages.py DIST` checks the links and the zoo of a wheel.

README's links are absolute if `[project.urls]` names a Repository. Without one the same is checked
for a wheel that is built again, from the sdist, with an address.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ZOO = "holdfast/zoo/"
ADDRESS = '\n[project.urls]\nRepository = "https://code.example/holdfast"\n'


def contents(wheel: Path) -> tuple[str, set[str]]:
    """(description, files of the zoo) of a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = packed.read(metadata).decode().partition("\n\n")[2]
    return text, {name.removeprefix(ZOO) for name in names if name.startswith(ZOO)}


def relative(text: str) -> list[str]:
    """Links that lead nowhere on a package index."""
    return re.findall(r"\]\((?!https?:|#|mailto:)([^)]+)\)", text)


def with_address(sdist: Path, work: Path) -> Path:
    """The wheel of an sdist whose `[project.urls]` has an address."""
    with tarfile.open(sdist) as packed:
        packed.extractall(work, filter="data")
    (source,) = work.iterdir()
    (source / "PKG-INFO").unlink()  # hatchling would take the description from there
    with open(source / "pyproject.toml", "a") as file:
        file.write(ADDRESS)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*build, "--directory", str(work / "dist")], cwd=source, check=True)
    return next((work / "dist").glob("*.whl"))


def main(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    text, policies = contents(wheel)
    tracked = subprocess.run(
        ["git", "ls-files", f"src/{ZOO}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    wanted = {name.removeprefix(f"src/{ZOO}") for name in tracked}
    if policies != wanted:
        raise SystemExit(f"the zoo of the wheel differs: {sorted(policies ^ wanted)[:5]}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {len(policies)} files of the zoo")
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"].get("urls", {})
    if "Repository" not in urls:
        assert relative(text), "without an address the links are as in README.md"
        print("[project.urls] names no Repository: links are relative, so do not publish these")
        with tempfile.TemporaryDirectory() as work:
            text, _ = contents(with_address(sdist, Path(work)))
    if relative(text) or not text:
        raise SystemExit(f"links of the description are relative: {relative(text)[:3]}")
    print("with an address every link of the description is absolute")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
