# SPDX-License-Identifier: Apache-2.0
"""Fuzz the readers by coverage: `make fuzz`, or python tests/fuzz/run.py TARGET -runs=100000.

libFuzzer, through atheris, keeps inputs that reach new code and mutates them further. It ends with
an error, and the input in a file, at the first thing that is no sentence of a reader's own.
"""

import sys
import warnings
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
warnings.simplefilter("ignore")
with atheris.instrument_imports(include=["holdfast"]):
    import targets


def main() -> None:
    name, *options = sys.argv[1:]
    if name not in targets.TARGETS:
        raise SystemExit(f"unknown target '{name}'; known are {', '.join(targets.TARGETS)}.")
    argv = [sys.argv[0], "-max_len=120", "-len_control=0", "-timeout=60", *options]
    atheris.Setup(argv, lambda data: targets.run(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
