# SPDX-License-Identifier: Apache-2.0
"""How big the house is, and through how many rooms one walks in it.

    python benchmarks/house.py                      # this tree
    python benchmarks/house.py TREE [TREE ...]      # other checkouts, one row each

Files and code lines are those of src/holdfast: lines with code on them, so neither blank lines,
comments nor docstrings (of modules, classes, functions or fields). Hops are the files of ours in
which a function was called while the thing was done: one epoch of C-TRPO on a native task, `bench`
of one small cell followed by `report`, and `solve`. Worker processes and cells count too. What runs
at import does not count, nor does what calls nothing of its own, such as a table of tasks.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path
from statistics import median

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT |= {tokenize.ENDMARKER, tokenize.ENCODING}
# Python imports a `sitecustomize` when it starts, so child processes record themselves as well.
RECORDER = r"""
import atexit, inspect, os, sys, threading
SRC, OUT = os.environ["HOUSE_SRC"], os.environ["HOUSE_OUT"]
passed, known, importing = set(), set(), threading.local()
def profile(frame, event, arg):
    code = frame.f_code
    if event == "return":
        if code.co_name == "<module>" and code.co_filename.startswith(SRC):
            importing.depth = getattr(importing, "depth", 0) - 1
    elif event == "call" and code not in known:
        if not code.co_filename.startswith(SRC):
            known.add(code)
        elif code.co_name == "<module>":
            importing.depth = getattr(importing, "depth", 0) + 1
        elif not getattr(importing, "depth", 0) and code.co_flags & inspect.CO_NEWLOCALS:
            known.add(code)
            passed.add(code.co_filename)
def start():
    known.clear(), passed.clear()
    sys.setprofile(profile), threading.setprofile(profile)
def stop():
    sys.setprofile(None), threading.setprofile(None)
def write():
    stop()
    with open(os.path.join(OUT, str(os.getpid())), "w") as file:
        file.write("\n".join(passed))
atexit.register(write)
sys.house = (start, stop)
if os.environ.get("HOUSE_ALL"):
    start()
"""
EPOCH = """
import sys
from holdfast import make_env, make_run
from holdfast.train import train
run = make_run("c-trpo", env="SafetyPointGoal1-v0", steps=2000, epoch_steps=2000, num_envs=2)
env = make_env(run.env, 2)
epochs = train(run, env)
sys.house[0]()
next(epochs)
sys.house[1]()
"""
SUITE = """
steps = 200
seeds = 1
tasks = ["probe/Speed-v0"]
algorithms = ["c-trpo"]
[settings]
epoch_steps = 200
num_envs = 2
hidden = [4]
"""
COMMAND = "import sys; from holdfast.cli import main; main(sys.argv[1:])"


def code_lines(text: str) -> int:
    """Lines with code on them."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in LAYOUT
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def size(tree: Path) -> dict[str, float]:
    """Files and lines of a tree."""
    files = {path: path.read_text() for path in (tree / "src/holdfast").rglob("*.py")}
    whole = [len(text.splitlines()) for text in files.values()]
    return {
        "files": len(files),
        "code lines": sum(map(code_lines, files.values())),
        "median file": median(whole),
        "under 60": sum(lines < 60 for lines in whole),
        "over 300": sum(lines > 300 for lines in whole),
    }


def passed(tree: Path, everything: bool, *calls: list[str]) -> int:
    """Files of a tree in which a function was called by these calls of Python."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(RECORDER)
        out = Path(folder, "passed")
        out.mkdir()
        source = str((tree / "src").resolve())
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([folder, source]),
            "HOUSE_SRC": source,
            "HOUSE_OUT": str(out),
            "HOUSE_ALL": "1" if everything else "",
            "JAX_PLATFORMS": "cpu",
        }
        for call in calls:
            subprocess.run(
                [sys.executable, *call], env=environment, check=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        return len({line for file in out.iterdir() for line in file.read_text().splitlines()})


def hops(tree: Path) -> dict[str, int]:
    """Files passed through by three things that people do."""
    with tempfile.TemporaryDirectory() as folder:
        suite, runs = Path(folder, "small.toml"), str(Path(folder, "runs"))
        suite.write_text(SUITE)
        bench = ["-c", COMMAND, "bench", str(suite), "--out", runs, "--jobs", "1"]
        report = ["-c", COMMAND, "report", runs, "-o", str(Path(folder, "report"))]
        return {
            "epoch": passed(tree, False, ["-c", EPOCH]),
            "bench → report": passed(tree, True, bench, report),
            "solve": passed(tree, True, ["-c", COMMAND, "solve", "toy"]),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trees", type=Path, nargs="*", default=[Path(__file__).parents[1]])
    parser.add_argument("--sizes-only", action="store_true", help="run nothing")
    given = parser.parse_args()
    for number, tree in enumerate(given.trees):
        row = {"tree": tree.resolve().name} | size(tree)
        if not given.sizes_only:
            row |= hops(tree)
        if not number:
            print(f"| {' | '.join(row)} |\n|{'---|' * len(row)}")
        cells = [value if isinstance(value, str) else f"{value:g}" for value in row.values()]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
