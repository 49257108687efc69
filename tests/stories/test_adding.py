# SPDX-License-Identifier: Apache-2.0
"""The table "To add" of CONTRIBUTING, done: in a copy of the package, in the stated places only."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.core.barrier import BARRIERS
from holdfast.envs import native
from holdfast.tabular.potentials import POTENTIALS

ROOT = Path(__file__).parents[2]
PACKAGE = Path(holdfast.__file__).parent
QUICK = (
    "--steps 200 --epoch-steps 200 --num-envs 2 --hidden 8 --cg-steps 2 --critic-passes 1 --quiet"
)


def insert(file: Path, before: str, text: str) -> None:
    """One place: text in front of the only line that begins so."""
    source = file.read_text()
    assert len(re.findall(rf"^{re.escape(before)}", source, re.M)) == 1, before
    file.write_text(re.sub(rf"^{re.escape(before)}", lambda m: text + m[0], source, flags=re.M))


def add_algorithm(package: Path, *, registered: bool = True) -> None:
    """A file, and in the register an import and a line."""
    source = (package / "algorithms/trpo.py").read_text()
    source = source.replace("class TRPO", "class Timid").split("\n\n\ndef ")[0] + "\n"
    source = source.replace("TrustRegion()", "TrustRegion(radius=1e-5)")
    (package / "algorithms/timid.py").write_text(source)
    register = package / "algorithms/__init__.py"
    insert(register, "from holdfast.algorithms.trpo ", "from .timid import Timid\n")
    if registered:
        insert(register, '    "trpo": ', '    "timid": Recipe(Timid, "TRPO in tiny steps"),\n')


def add_task(package: Path) -> None:
    """An entry."""
    level = 'Level((TIGHT_GOAL, many(TIGHT_HAZARDS, 3)), "goal", ("cost_hazards",), time_limit=50)'
    insert(package / "envs/native/worlds/tasks.py", '    "Goal0": ', f'    "Goal3": {level},\n')


def add_velocity_task(package: Path) -> None:
    """An entry."""
    entry = '    "SafetyHopperVelocity-v2": VelocityTask("Hopper", 0.5, time_limit=50),\n'
    file = package / "envs/native/worlds/velocity_tasks.py"
    insert(file, '    "SafetyAntVelocity-v1": ', entry)


def add_barrier(package: Path) -> None:
    """An entry in each of two tables: φ = 1/x."""
    left = "jnp.where(s < b, b - s, 1)"
    divergence = f"lambda b, s: jnp.where(s < b, s**2 / (b**2 * {left}), jnp.inf)"
    entry = f'    "reciprocal": Barrier({divergence}, lambda b: 2 / b**3),\n'
    insert(package / "core/barrier.py", '    "entropy": ', entry)
    potential = """Potential(
        value=lambda x: 1 / x,
        slope=lambda x: -1 / x**2,
        curvature=lambda x: 2 / x**3,
        softness=lambda x: x**3 / 2,
        unit=lambda slack, u: u**2 / (slack * (1 - u)),
        at_limit=lambda slack: np.full_like(slack, np.inf),
        unit_reversed=lambda slack, u: (u / (1 - u)) ** 2 / slack,
        shifted=lambda y0, kappa: (y0**-2 + kappa) ** -0.5,
        conjugate=lambda y0, kappa: 2 * (1 - (1 + kappa * y0**2) ** 0.5) / y0,
    )"""
    entry = f'    "reciprocal": {potential},\n'
    insert(package / "tabular/potentials.py", '    "entropy": ', entry)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "holdfast", ignore=ignore))


def python(package: Path, *args: str) -> str:
    """What a Python with the changed package says, and its exit code."""
    done = subprocess.run(
        [sys.executable, *args],
        cwd=package.parent,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return f"{done.stdout}{done.stderr}exit {done.returncode}"


def command_line(package: Path, *commands: str, then: str = "") -> str:
    """`holdfast COMMAND` for each, then some code, in one process."""
    code = "import sys; from holdfast.cli import main; [main(c.split()) for c in sys.argv[1:]]"
    return python(package, "-c", f"{code}; {then}", *commands)


def suite_on(package: Path, file: str, name: str, *options: str) -> str:
    """What pytest says of our own tests about a name."""
    rest = [f"--rootdir={ROOT}", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", name, *options]
    return python(package, "-m", "pytest", str(ROOT / "tests" / file), *rest)


def test_an_algorithm_is_a_file_and_a_line(package: Path) -> None:
    add_algorithm(package)
    train = f"train timid probe/Speed-v0 {QUICK} --out run"
    code = "import holdfast.run as r; print(r.make_run('timid', 'published').algorithm.critic)"
    told = command_line(package, "list", "list timid", train, then=code)
    assert "TRPO in tiny steps" in told and told.endswith("exit 0"), told
    assert "--radius" in told and "1e-05" in told and "kl_average = False" in told  # a preset's
    assert (package.parent / "run/done.json").exists()
    assert "critic_stale_norm=True" in told  # D7, as of any trust region
    few = "timid and gaussian-1 and (keeps_its_shape or zero_advantage or saved_and_resumed)"
    told = suite_on(package, "algorithms/test_conformance.py", few, "-vv")
    assert "test_state_keeps_its_shape[timid-gaussian-1]" in told, told
    assert "3 passed" in told and told.endswith("exit 0"), told


def test_an_algorithm_without_its_line_is_unknown(package: Path) -> None:
    add_algorithm(package, registered=False)
    assert "unknown algorithm 'timid'" in command_line(package, "list timid")


def test_a_task_is_an_entry(package: Path) -> None:
    assert "SafetyPointGoal3-v0" not in native.NATIVE_IDS
    add_task(package)
    code = "import gymnasium, holdfast; print(gymnasium.make('holdfast/SafetyCarGoal3-v0').spec)"
    commands = "envs SafetyPointGoal3-v0", "check SafetyPointGoal3-v0"
    told = command_line(package, *commands, then=code)
    assert "3 hazards" in told and told.endswith("exit 0"), told
    assert "max_episode_steps=50" in told


def test_a_velocity_task_is_an_entry(package: Path) -> None:
    name = "SafetyHopperVelocity-v2"
    assert name not in native.NATIVE_IDS
    add_velocity_task(package)
    told = command_line(package, f"envs {name}", f"check {name}")
    assert "forward speed at most 0.5" in told and "50 steps" in told, told
    assert told.endswith("exit 0"), told


def test_a_barrier_is_an_entry_in_two_tables(package: Path) -> None:
    assert "reciprocal" not in BARRIERS and "reciprocal" not in POTENTIALS
    add_barrier(package)
    exact = (
        "from holdfast import exact, tabular as t; from holdfast.algorithms import CTRPO; "
        "deep = exact.without_damping(CTRPO(barrier='reciprocal')); cmdp = t.toy(); "
        "costs = exact.exact_run(deep, cmdp, t.two_action_policy(0.3, 0.1), 3).cost_return; "
        "print(costs.shape, (costs < cmdp.cost_limit).all()); "
    )
    followed = (
        "from holdfast.paper.figures import trust_regions; "
        "metric, start = t.Geometry(1.0, 'reciprocal'), t.two_action_policy(0.3, 0.1); "
        "follow = lambda path: path(t.toy(), start, [2.0], metric).policy; "
        "print(abs(follow(t.flow) - follow(t.mirror_path)).max() < 1e-8); "
        "square = trust_regions.Square.of; "
        "trust_regions.Square.of = lambda cmdp, _: square(cmdp, 201); "  # coarse, to be quick
        "drawn = trust_regions.draw(); print(len(drawn.figure.axes), drawn.rows[2][:2]); "
    )
    shown = "from holdfast.cli import main; main(['train', 'c-trpo', '--help'])"  # it exits
    told = python(package, "-c", exact + followed + shown)
    assert "(4, 1) True" in told, told  # it serves on exact problems
    assert "True\n12 ('C-TRPO reciprocal', 0.001)" in told, told
    assert "{reciprocal,entropy," in told and told.endswith("exit 0"), told
    told = suite_on(package, "core/test_barrier.py", "reciprocal", "-v")
    assert "6 passed" in told and told.endswith("exit 0"), told


def test_a_wrong_barrier_fails_the_suite(package: Path) -> None:
    add_barrier(package)
    file = package / "core/barrier.py"
    file.write_text(file.read_text().replace("lambda b: 2 / b**3", "lambda b: 3 / b**3"))
    told = suite_on(package, "core/test_barrier.py", "reciprocal and curvature", "-v")
    assert "3 failed" in told and told.endswith("exit 1"), told
