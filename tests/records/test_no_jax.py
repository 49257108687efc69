# SPDX-License-Identifier: Apache-2.0
"""Reading runs and comparing them takes no JAX: a report begins in a second."""

import json
import subprocess
import sys
from pathlib import Path

READ_AND_REPORT = """
import importlib, pkgutil, sys
import holdfast.records
from holdfast.report import report
for module in pkgutil.iter_modules(holdfast.records.__path__, "holdfast.records."):
    importlib.import_module(module.name)
    print(module.name)
for folder in sys.argv[1:]:
    report([folder], folder + "-report", figures=False)
    print("jax" in sys.modules)
"""


def write_run(folder: Path, seed: int, **settings: float) -> None:
    """A run folder of one epoch."""
    folder.mkdir(parents=True)
    run = {"name": "c-trpo", "env": "SafetyAntVelocity-v1", "seed": seed, "steps": 1000} | settings
    (folder / "run.json").write_text(json.dumps({"run": run, "limits": {"cost": 25.0}}))
    (folder / "progress.csv").write_text("epoch,env_steps,ep_return,ep_cost\n1,1000,3,20\n")
    (folder / "done.json").write_text("{}")


def test_records_and_reports_import_no_jax(tmp_path: Path):
    """Runs of one version need none; where versions meet, the defaults of today's are asked."""
    for seed in (0, 1):
        write_run(tmp_path / "one" / str(seed), seed, gamma=0.9)
        write_run(tmp_path / "two" / str(seed), seed, **({"gamma": 0.9} if seed else {}))
    command = [sys.executable, "-c", READ_AND_REPORT, str(tmp_path / "one"), str(tmp_path / "two")]
    *modules, first, second = subprocess.check_output(command, text=True).split()
    assert {"holdfast.records.find", "holdfast.records.statistics"} <= set(modules)
    assert (first, second) == ("False", "True")


def test_the_command_report_imports_no_jax():
    """Nor does parsing its arguments; `train`, which needs JAX, shows that the check sees it."""

    def imported(*command: str) -> set[str]:
        timed = [sys.executable, "-X", "importtime", "-m", "holdfast", *command]
        times = subprocess.run(timed, capture_output=True, text=True, check=True).stderr
        return {line.rsplit("|", 1)[-1].strip() for line in times.splitlines()}

    assert "jax" not in imported("report", "--help")
    assert "jax" in imported("list", "c-trpo")
