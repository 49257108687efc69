# SPDX-License-Identifier: Apache-2.0
"""A grid on raylets of one machine, each with a folder of its own, and their bad days."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import pytest

from grid import EPOCHS, digests, finish, launch, results, rows, wait_for, write_suite
from holdfast.cluster.ray import connect, refuse_versions
from holdfast.envs.ray_workers import Hosted
from holdfast.process import versions
from holdfast.records.rows import read_rows

LONG = 400
"""Epochs of runs that much happens to."""
CELLS = ("trpo_probe-Speed-v0_seed0", "trpo_probe-Speed-v0_seed1")


def test_without_ray_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RuntimeError, match=r"pip install 'holdfast-rl\[ray\]'"):
        connect("local")


@dataclass
class Machine:
    """A raylet with a folder of its own: nothing but the loopback address is shared."""

    cluster: Any
    folder: Path
    paths: tuple[str, ...] = ()
    node: Any = None

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        there = {
            "TMPDIR": str(self.folder),
            "PYTHONPATH": os.pathsep.join([*self.paths, *sys.path]),
        }
        self.node = self.cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1", env_vars=there)
        return self

    def kill(self) -> None:
        """As a power cut: nothing gets to say goodbye."""
        self.cluster.remove_node(self.node, allow_graceful=False)

    def cut_off(self) -> None:
        """As a network that fails: it lives, and nothing of it gets through any more."""
        import psutil

        (raylet,) = [i.process.pid for i in self.node.all_processes["raylet"]]
        children = [child.pid for child in psutil.Process(raylet).children(recursive=True)]
        signalled([raylet, *children], signal.SIGSTOP)

    def come_back(self) -> None:
        import psutil

        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_STOPPED:
                    if process.environ().get("TMPDIR") == str(self.folder):
                        process.resume()

    def at_work(self) -> bool:
        return any(self.folder.glob("holdfast-*/run/run.json"))

    def drafts(self) -> list[Path]:
        return list(self.folder.glob("holdfast-*/run/checkpoint/.draft-*"))

    def stop_while_writing(self) -> Path:
        """Hold the process that trains here in the middle of a checkpoint; what is half-written."""
        end = time.monotonic() + 200
        while time.monotonic() < end:
            for draft in self.drafts():
                writer = int(draft.name.split("-")[-1])
                signalled([writer], signal.SIGSTOP)
                if draft.exists():
                    return draft
                signalled([writer], signal.SIGCONT)
        raise AssertionError("waited too long")


def signalled(processes: list[int], what: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, what)


def machines(cluster: Any, folder: Path, count: int) -> list[Machine]:
    return [Machine(cluster, folder / f"machine{i}").start() for i in range(count)]


def made(out: Path) -> int:
    return max(rows(out, name) for name in CELLS)


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_bad_days_end_in_the_bits_of_calm_ones(cluster, tmp_path: Path):
    """Machines lost idle and while writing, the driver lost, all machines lost and back again."""
    suite, out = write_suite(tmp_path, LONG), tmp_path / "ray"
    finish(launch(suite, tmp_path / "calm"))
    ask = lambda: launch(suite, out, cluster=cluster.address, jobs=None, retries=9)
    three = machines(cluster, tmp_path, 3)
    driver = ask()
    wait_for(lambda: made(out) >= 5 and sum(m.at_work() for m in three) == 2)
    (idle,) = [m for m in three if not m.at_work()]
    idle.kill()
    writer, other = [m for m in three if m is not idle]
    draft = writer.stop_while_writing()
    writer.kill()
    assert draft.exists()  # it died in the middle of it
    wait_for(lambda: made(out) >= 25)
    driver.kill()
    driver.wait()
    begun = {name: rows(out, name) for name in CELLS}
    assert max(begun.values()) >= 25 and not list(out.glob("*/done.json"))
    three = [other, *machines(cluster, tmp_path / "more", 2)]
    driver = ask()
    wait_for(lambda: made(out) >= 40 and sum(m.at_work() for m in three) == 2)
    for machine in three:
        machine.kill()
    again = machines(cluster, tmp_path / "again", 3)
    assert len(results(out)) < len(CELLS)
    finish(driver)
    assert digests(out) == digests(tmp_path / "calm")
    print(digests(out))
    # What is finished stays, byte for byte, whoever asks again.
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("*/**/*") if path.is_file()}
    finish(ask())
    assert stamps == {p: p.stat().st_mtime_ns for p in out.glob("*/**/*") if p.is_file()}
    assert not any(m.at_work() for m in again)  # and leaves nothing on the machines


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_machine_that_is_cut_off_is_given_up(cluster, tmp_path: Path):
    """Its run goes on elsewhere, to the same bits, and what it says later is not listened to."""
    suite, out = write_suite(tmp_path, LONG), tmp_path / "ray"
    finish(launch(suite, tmp_path / "calm"))
    three = machines(cluster, tmp_path, 3)
    driver = launch(suite, out, cluster=cluster.address, jobs=None)
    wait_for(lambda: made(out) >= 5 and sum(m.at_work() for m in three) == 2)
    lost = next(m for m in three if m.at_work())
    lost.cut_off()
    try:
        told = " ".join(finish(driver).split())
    finally:
        lost.come_back()
    assert "its machine does not answer any more" in told
    assert digests(out) == digests(tmp_path / "calm")


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_machine_with_another_version_is_refused(cluster, tmp_path: Path):
    """Alone it fails the grid; beside a good one it is asked once and then left alone."""
    fake = tmp_path / "site" / "mujoco-9.9.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: mujoco\nVersion: 9.9\n")
    Machine(cluster, tmp_path / "odd", (str(fake.parent),)).start()
    suite, out = write_suite(tmp_path), tmp_path / "out"
    refusal = f"has mujoco 9.9, and this run was begun with mujoco {version('mujoco')}"
    driver = launch(suite, out, cluster=cluster.address, jobs=None, retries=0)
    _, said = driver.communicate(timeout=200)
    assert driver.returncode != 0 and refusal in " ".join(said.decode().split())
    assert not list(out.glob("*/done.json"))
    machines(cluster, tmp_path, 1)
    told = " ".join(finish(launch(suite, out, cluster=cluster.address, jobs=None)).split())
    assert told.count("has mujoco 9.9") == 1 and len(results(out)) == len(CELLS)


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_checkpoints_go_to_the_storage(cluster, tmp_path: Path):
    """And the driver's folder shows how far a run is; a second driver finds all done."""
    suite, out = write_suite(tmp_path), tmp_path / "out"
    store = (tmp_path / "store").as_uri()
    finish(launch(suite, tmp_path / "calm"))
    machines(cluster, tmp_path, 2)
    finish(launch(suite, out, cluster=cluster.address, jobs=None, storage=store))
    assert results(tmp_path / "store") == results(tmp_path / "calm")
    assert not list(out.glob("*/checkpoint")) and rows(out, CELLS[0]) == EPOCHS
    again = tmp_path / "again"
    finish(launch(suite, again, cluster=cluster.address, jobs=None, storage=store))
    assert rows(again, CELLS[0]) == EPOCHS


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_evaluations_while_training_are_those_of_a_local_grid(cluster, tmp_path: Path):
    """Rows and best policies reach the driver; training has the bits of a run without them."""
    plain, suite = write_suite(tmp_path), tmp_path / "judged.toml"
    judged = "evaluate_every = 30\nevaluate_episodes = 10\ncost_limit = 30.0\n"
    suite.write_text(plain.read_text() + judged)
    finish(launch(suite, tmp_path / "calm"))
    machines(cluster, tmp_path, 2)
    finish(launch(suite, tmp_path / "ray", cluster=cluster.address, jobs=None))
    assert digests(tmp_path / "ray") == digests(tmp_path / "calm")
    for name in CELLS:
        here, there = (tmp_path / place / name for place in ("calm", "ray"))
        assert [row["epoch"] for row in read_rows(there / "evaluations.csv")] == [30, 60, 90]
        best = sorted(file.relative_to(here) for file in here.glob("best/*/*"))
        assert best
        for file in [Path("evaluations.csv"), *best]:
            assert (there / file).read_bytes() == (here / file).read_bytes(), file


@pytest.mark.extras
def test_from_nothing_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The commands of docs/scale.md, with this machine as both of two."""
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = ["--node-ip-address=127.0.0.1", "--num-cpus=1", "--block"]
    begin = lambda *words: subprocess.Popen([command("ray"), "start", *words, *here])
    suite, out, address = write_suite(tmp_path), tmp_path / "runs", f"127.0.0.1:{port}"
    nodes = [begin("--head", f"--port={port}", "--include-dashboard=false")]
    try:
        wait_for(lambda: listens(port))
        nodes.append(begin(f"--address={address}"))
        for words in (
            ["bench", str(suite), "--cluster", address, "--out", str(out)],
            ["report", str(out), "-o", str(tmp_path / "report"), "--no-figures"],
        ):
            subprocess.run([command("holdfast"), *words], check=True, timeout=300)
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
    assert len(results(out)) == len(CELLS) and (tmp_path / "report" / "report.html").exists()


def command(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("name", ["holdfast", "jax", "jaxlib", "mujoco", "numpy"])
def test_versions_are_compared_by_name(name):
    here = versions()
    refuse_versions(here)
    refuse_versions(here | {"python": ".".join(here["python"].split(".")[:2]) + ".99"})
    both = rf"has {name} {re.escape(here[name])}, .* begun with {name} 0\.0\.1: .* same versions"
    with pytest.raises(ValueError, match=both):
        refuse_versions(here | {name: "0.0.1"})
    told = Hosted().answer({"versions": here | {name: "0.0.1"}}, {})[0]
    assert re.search(both, told["error"])
