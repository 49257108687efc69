# SPDX-License-Identifier: Apache-2.0
"""Try the Dockerfile: build and run it where a builder is, else run its steps without one.

Without a builder each stage is a fresh virtual environment in a folder that stands for the root of
its file system. What needs root there (system packages, users) is named and left out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SYSTEM = ("apt-get", "useradd")
TRIED = (
    ["--version"],
    ["list"],
    ["train", "c-trpo", "probe/Speed-v0", "--steps", "2000", "--epoch-steps", "1000", "--num-envs",
     "5", "--hidden", "8", "--quiet", "--out", "run"],
    ["export", "run", "-o", "policy.onnx"],
)  # fmt: skip


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, arguments) of a Dockerfile, in order."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines()]


def has_builder() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


def build() -> None:
    subprocess.run(["docker", "build", "-t", "holdfast:check", str(ROOT)], check=True)
    script = " && ".join(" ".join(["holdfast", *words]) for words in TRIED)
    command = ["docker", "run", "--rm", "--entrypoint", "sh", "holdfast:check", "-c", script]
    subprocess.run(command, check=True)


class Stage:
    """An empty environment that the instructions of a stage change."""

    def __init__(self, root: Path) -> None:
        self.root, self.where = root, root
        subprocess.run([sys.executable, "-m", "venv", str(root / "venv")], check=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        path = f"{root / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.env = kept | {"PATH": path, "HOME": str(root), "XDG_CACHE_HOME": str(root / "cache")}

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/") if path.startswith("/") else self.where / path

    def copy(self, words: list[str], source: Path) -> None:
        *names, target = words
        to = self.place(target)
        for name in names:
            found = source / name.lstrip("/")
            inside = target.endswith("/") or len(names) > 1 or target == "./"
            end = to / found.name if inside else to
            end.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                shutil.copytree(found, end, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(found, end)

    def run(self, command: str) -> None:
        if command.startswith(SYSTEM):
            print(f"not run here: {command[:70]} ...")
            return
        here = re.sub(r"(?<![\w.])/(?=(wheels|src|work)\b)", f"{self.root}/", command)
        print(f"run: {command}", flush=True)
        subprocess.run(["bash", "-euc", here], cwd=self.where, env=self.env, check=True)


def steps(work: Path) -> None:
    stages: dict[str, Stage] = {}
    stage, entry, arguments = None, list[str](), dict[str, str]()
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "FROM":
            called = rest.split(" AS ")[1] if " AS " in rest else "last"
            stage = stages[called] = Stage(work / called)
        elif name == "ARG" and stage is None:
            continue  # of the image that a stage begins with
        elif stage is None:
            raise SystemExit(f"{name} stands before the first FROM")
        elif name in ("ARG", "ENV"):
            key, _, value = rest.partition("=")
            arguments[key] = value.strip('"')
            stage.env[key] = (
                os.environ.get(key, arguments[key]) if name == "ARG" else arguments[key]
            )
        elif name == "WORKDIR":
            stage.where = stage.place(rest)
            stage.where.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            words = rest.split()
            source = ROOT
            if words[0].startswith("--from="):
                source = stages[words.pop(0).removeprefix("--from=")].root
            stage.copy(words, source)
        elif name == "RUN":
            stage.run(rest)
        elif name == "ENTRYPOINT":
            entry = json.loads(rest)
        elif name not in ("USER", "CMD"):
            raise SystemExit(f"{name} is no instruction that this script knows")
    assert stage is not None
    stage.env.pop("MUJOCO_GL", None)  # the system's GL is not part of what runs here
    for words in TRIED:
        print("run:", *entry, *words, flush=True)
        command = [shutil.which(entry[0], path=stage.env["PATH"]) or entry[0], *words]
        subprocess.run(command, cwd=stage.where, env=stage.env, check=True)


if __name__ == "__main__":
    if has_builder():
        build()
    else:
        print("no builder here: the steps run in empty environments")
        with tempfile.TemporaryDirectory(prefix="holdfast-container-") as made:
            steps(Path(made))
    print("the container's steps work")
