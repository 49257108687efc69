# SPDX-License-Identifier: Apache-2.0
"""A grid on several Ray nodes of one machine, one of which is killed in the middle."""

import os
import sys
import threading
from pathlib import Path

import pytest
from grid import finish, launch, results, rows, wait_for, write_suite

from holdfast.bench.board import Board
from holdfast.bench.ray_tasks import Ray
from holdfast.bench.scheduler import train_cells
from holdfast.bench.suite import cells, load_suite
from holdfast.cluster import connect

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
