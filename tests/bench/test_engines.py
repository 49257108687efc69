# SPDX-License-Identifier: Apache-2.0
"""A grid on several Ray nodes of one machine, one of which is killed in the middle."""

import os
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest
from grid import EPOCHS, finish, launch, results, rows, wait_for, write_suite

from holdfast.bench.board import Board
from holdfast.bench.ray_tasks import Ray
from holdfast.bench.scheduler import train_cells
from holdfast.bench.suite import cells, load_suite
from holdfast.cluster import connect, refuse_versions
from holdfast.process import versions

CELLS = ("trpo_probe-Speed-v0_seed0", "trpo_probe-Speed-v0_seed1")


def test_without_ray_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'holdfast\[ray\]'"):
        connect("local")


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")  # Ray's own, of its processes and sockets
def test_a_lost_node_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Ray would replace 127.0.0.1 by this machine's own address; switched off, all stays local.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # a busy machine would starve them
    import ray
    from ray.cluster_utils import Cluster

    suite = write_suite(tmp_path)
    finish(launch(suite, tmp_path / "calm"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    here = {"node_ip_address": "127.0.0.1", "include_dashboard": False}
    # The head only keeps the books: each cell is on a node that can be lost.
    cluster = Cluster(initialize_head=True, head_node_args=here | {"num_cpus": 0})
    try:
        out = tmp_path / "ray"
        local = {"_node_ip_address": "127.0.0.1", "log_to_driver": False}
        ray.init(address=cluster.address, **local)  # while there is only the head to talk to
        nodes = [cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1") for _ in range(2)]
        lost = threading.Event()

        def lose_a_node() -> None:
            wait_for(lambda: any(rows(out, name) >= 5 for name in CELLS))
            cluster.remove_node(nodes[0], allow_graceful=False)
            lost.set()

        killer = threading.Thread(target=lose_a_node, daemon=True)
        killer.start()
        grid = cells(load_suite(suite))
        said: list[str] = []
        board = Board(grid, out)
        monkeypatch.setattr(board, "note", said.append)
        assert train_cells(grid, out, Ray(out), board, retries=3) == {}
        killer.join(60)
        assert lost.is_set() and any("trying again" in text for text in said), said
        assert results(out) == results(tmp_path / "calm")
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A head that only keeps the books; all on the loopback address."""
    for name, value in {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HOLDFAST_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    here = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 0}
    made = Cluster(initialize_head=True, head_node_args=here)
    yield made
    made.shutdown()


def add(cluster, count: int, **options):
    return [
        cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1", **options) for _ in range(count)
    ]


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_bad_days_end_in_the_bits_of_calm_ones(cluster, tmp_path: Path):
    """Nodes killed at work and idle, the driver killed, all nodes killed; three start again."""
    suite, out = write_suite(tmp_path), tmp_path / "ray"
    finish(launch(suite, tmp_path / "calm"))
    made = lambda: max(rows(out, name) for name in CELLS)
    nodes = add(cluster, 3)
    ask = lambda: launch(suite, out, cluster=cluster.address, jobs=None, retries=9)
    driver = ask()
    wait_for(lambda: made() >= 5)
    cluster.remove_node(nodes.pop(), allow_graceful=False)  # two cells on three: at work or idle
    wait_for(lambda: made() >= 15)
    driver.kill()
    driver.wait()
    begun = {name: rows(out, name) for name in CELLS}
    driver = ask()
    wait_for(lambda: made() >= 30)
    for node in nodes:
        cluster.remove_node(node, allow_graceful=False)
    add(cluster, 3)
    finish(driver)
    assert any(count >= 5 for count in begun.values())  # the driver had what was handed over
    assert results(out) == results(tmp_path / "calm")


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_machine_with_another_version_is_refused(cluster, tmp_path: Path):
    fake = tmp_path / "site" / "mujoco-9.9.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: mujoco\nVersion: 9.9\n")
    path = os.pathsep.join([str(fake.parent), *sys.path])
    add(cluster, 1, env_vars={"PYTHONPATH": path})
    driver = launch(
        write_suite(tmp_path), tmp_path / "out", cluster=cluster.address, jobs=None, retries=0
    )
    _, said = driver.communicate(timeout=200)
    told = " ".join(said.decode().split())
    assert f"has mujoco 9.9, and this run was begun with mujoco {version('mujoco')}" in told
    assert not list((tmp_path / "out").glob("*/done.json"))


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_checkpoints_go_to_the_storage(cluster, tmp_path: Path):
    """And the driver's folder shows how far a run is; a second driver finds all done."""
    suite, out = write_suite(tmp_path), tmp_path / "out"
    store = (tmp_path / "store").as_uri()
    finish(launch(suite, tmp_path / "calm"))
    add(cluster, 2)
    finish(launch(suite, out, cluster=cluster.address, jobs=None, storage=store))
    assert results(tmp_path / "store") == results(tmp_path / "calm")
    assert not list(out.glob("*/checkpoint")) and rows(out, CELLS[0]) == EPOCHS
    again = tmp_path / "again"
    finish(launch(suite, again, cluster=cluster.address, jobs=None, storage=store))
    assert rows(again, CELLS[0]) == EPOCHS


def test_versions_are_compared_by_name():
    here = versions()
    refuse_versions(here)
    refuse_versions(here | {"python": ".".join(here["python"].split(".")[:2]) + ".99"})
    with pytest.raises(ValueError, match=r"has jax .* begun with jax 0\.0\.1: .* same versions"):
        refuse_versions(here | {"jax": "0.0.1"})
