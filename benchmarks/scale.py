# SPDX-License-Identifier: Apache-2.0
"""What scaling costs, each part in one run, and what follows for more machines than are here.

    python benchmarks/scale.py workers   # a run's hand-overs: pipes, Ray, Ray between two raylets
    python benchmarks/scale.py grid      # a grid's times, bytes and digests
    python benchmarks/scale.py jax       # a rollout in JAX beside a bare `lax.scan`
    python benchmarks/scale.py model     # 10, 100 and 1000 machines, from the measured parts

workers: the bytes of an epoch go to workers that do nothing and come back from them, so the time is
    the hand-over's alone; beside it epochs of a training run with real ones, and the model's.
grid: cells as tasks on raylets of this machine, each with a folder of its own.
jax: environment steps per second of a training rollout (noise drawn, policy, costs, ends and new
    episodes, statistics, data brought to where the update wants them) beside the same environment
    stepped in a bare `lax.scan` with given actions and nothing else. Rounds of both alternate, so a
    machine that slows down slows both; the figure is the median of each.
"""

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from holdfast import make_run
from holdfast.bench.board import Board
from holdfast.bench.scheduler import Local, train_cells
from holdfast.bench.suite import Cell
from holdfast.cluster.cells import Ray
from holdfast.envs.make import find_source
from holdfast.envs.ray_workers import on_cluster
from holdfast.envs.worker import Process, Start, pickled, stop
from holdfast.envs.worker_env import shares
from holdfast.process import cores
from holdfast.records.rows import read_rows
from holdfast.run import Run
from holdfast.runs.folder import load_state, open_folder, state_arrays
from holdfast.train import train
from holdfast.train.environment import Spaces, open_env
from holdfast.train.epoch import TIME_COLUMNS, actor_of, collect_epoch
from holdfast.train.state import first_state, reset_state

TASK = "SafetyPointGoal1-v0"
LOOPBACK = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray replaces 127.0.0.1 by an outer address
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "PYTHONPATH": os.pathsep.join(sys.path),
}


@contextmanager
def raylets(head_cores: int) -> Iterator[Any]:
    """A Ray cluster on 127.0.0.1 whose head, with so many cores, is where the driver is."""
    os.environ.update(LOOPBACK)
    import ray
    from ray.cluster_utils import Cluster

    here = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": head_cores}
    cluster = Cluster(initialize_head=True, head_node_args=here)
    try:
        ray.init(address=cluster.address, _node_ip_address="127.0.0.1", log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add(cluster: Any, folder: Path, cpus: int = 1) -> Any:
    """A raylet whose tasks write into a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    there = LOOPBACK | {"TMPDIR": str(folder)}
    return cluster.add_node(num_cpus=cpus, node_ip_address="127.0.0.1", env_vars=there)


def row(*fields: object) -> None:
    """A line of a Markdown table."""
    print(f"| {' | '.join(map(str, fields))} |", flush=True)


def head(*fields: str) -> None:
    row(*fields)
    row(*["---"] * len(fields))


# ---- one run over workers ----------------------------------------------------------------------


class Idle:
    """A share of a batch that answers with as many bytes as an epoch has, and does nothing."""

    def __init__(self, size: int) -> None:
        self.epoch = np.random.default_rng(0).integers(0, 256, size, np.uint8)

    def restore(self, snapshot: Any) -> Any:
        return self.epoch

    def close(self) -> None:
        pass


def task_run(workers: int, epochs: int = 4) -> Run:
    """The measured run: 16 environments, an episode of each in an epoch."""
    return make_run(
        "c-trpo", env=TASK, num_envs=16, epoch_steps=16_000, steps=epochs * 16_000, workers=workers
    )


def epoch_bytes(run: Run) -> tuple[dict[str, Any], Any, int]:
    """(the policy, the noise, bytes of the data) of an epoch."""
    env = open_env(run)
    state = reset_state(run, env, first_state(run, Spaces.of(run, env)), 1)
    actor = actor_of(run, state)
    noise = actor.draw(np.random.default_rng(0), (run.epoch_steps // run.num_envs, run.num_envs))
    data = collect_epoch(run, env, state, 1, None)[0].to_arrays()
    return {"actor": pickled(actor)}, noise, sum(array.nbytes for array in data.values())


def hand_over(start: Start, run: Run, count: int, rounds: int) -> float:
    """Median seconds in which an epoch goes out to `count` workers and comes back."""
    policy, noise, size = epoch_bytes(run)
    peers = [start(partial(Idle, size // count)) for _ in range(count)]
    try:
        for peer in peers:
            peer.hear(None)
        seconds: list[float] = []
        for _ in range(rounds + 2):
            begin = time.perf_counter()
            for peer, share in zip(peers, shares(run.num_envs, count), strict=True):
                peer.tell({"do": "restore"}, policy | {"noise": noise[:, share]})
            np.concatenate([peer.hear(None).arrays["obs"] for peer in peers])
            seconds.append(time.perf_counter() - begin)
        return statistics.median(seconds[2:])
    finally:
        stop(peers)


def epoch_seconds(run: Run, address: str | None) -> tuple[float, float]:
    """Median seconds of (acting, the rest) in an epoch of training, without the first."""
    env = open_env(run, cluster=address)
    try:
        rows = [epoch.metrics for epoch in train(run, env)][1:]
    finally:
        env.close()
    rest = [row["time_estimate"] + row["time_update"] for row in rows]
    return statistics.median(row["time_rollout"] for row in rows), statistics.median(rest)


def measure_workers(args: argparse.Namespace) -> None:
    counts, run = args.workers, task_run(1)
    policy, noise, size = epoch_bytes(run)
    out = sum(array.nbytes for array in policy.values())
    print(
        f"{TASK}, {run.num_envs} environments, {run.epoch_steps} steps an epoch, {cores()} cores; "
        f"{out / 1e3:.0f} KB of policy to each worker, {noise.nbytes / 1e6:.2f} MB of noise to "
        f"all, {size / 1e6:.2f} MB of data back"
    )
    took: dict[str, dict[int, float]] = {}
    took["pipes"] = {w: hand_over(Process, run, w, args.rounds) for w in counts}
    with raylets(max(counts)) as cluster:
        start = on_cluster(cluster.address, max(counts))
        took["Ray, one raylet"] = {w: hand_over(start, run, w, args.rounds) for w in counts}
    with raylets(0) as cluster, tempfile.TemporaryDirectory() as there:
        add(cluster, Path(there), max(counts))
        start = on_cluster(cluster.address, max(counts))
        took["Ray, two raylets"] = {w: hand_over(start, run, w, args.rounds) for w in counts}
        head("hand-over of an epoch, ms", *(f"{w} workers" for w in counts))
        for name, each in took.items():
            row(name, *(f"{1e3 * each[w]:.0f}" for w in counts))
        acting, rest = epoch_seconds(task_run(1), None)
        head("actors", "acting s", "update s", "epoch s", "model s", "share", "with a core each")
        row("none", f"{acting:.2f}", f"{rest:.2f}", f"{acting + rest:.2f}", "", "", "")
        for w in counts:
            given = took["Ray, two raylets"][w]
            parts = epoch_seconds(task_run(w), cluster.address)
            model = run_seconds(acting, rest, w, given, cores())
            times = [f"{seconds:.2f}" for seconds in (*parts, sum(parts), model)]
            free = run_seconds(acting, rest, w, given, w)
            row(w, *times, f"{given / sum(parts):.1%}", f"{given / free:.1%}")


# ---- a grid ------------------------------------------------------------------------------------


def grid_cells(count: int, epochs: int) -> list[Cell]:
    """Cells of a grid that differ by their seed."""
    settings = {"num_envs": 5, "epoch_steps": 5000, "steps": 5000 * epochs}
    runs = [make_run("c-trpo", env=TASK, seed=seed, **settings) for seed in range(count)]
    return [Cell(f"c-trpo_seed{run.seed}", run) for run in runs]


def digest(out: Path) -> str:
    """Of the last states of all finished cells under `out`."""
    found = hashlib.sha256()
    for folder in sorted(path.parent for path in out.glob("*/done.json")):
        state = load_state(open_folder(folder))[0]
        assert state is not None
        for name, array in sorted(state_arrays(state).items()):
            found.update(f"{folder.name} {name}".encode() + np.asarray(array).tobytes())
    return found.hexdigest()


def trained(cells: list[Cell], out: Path, engine: Any) -> float:
    """Train a grid and return its seconds."""
    begin = time.perf_counter()
    with open(os.devnull, "w") as quiet:
        board = Board(cells, out, Console(file=quiet))
        failed = train_cells(cells, out, engine, board, retries=9)
        board.close()
    if failed:
        raise RuntimeError(f"cells failed: {failed}")
    return time.perf_counter() - begin


def on_raylets(cells: list[Cell], home: Path, count: int) -> tuple[float, Ray]:
    """A grid on so many raylets of one core, and the engine, which knows what was moved."""
    with raylets(0) as cluster:
        for number in range(count):
            add(cluster, home / f"raylet{number}")
        engine = Ray(home / "out", address=cluster.address)
        return trained(cells, home / "out", engine), engine


def measure_grid(args: argparse.Namespace) -> None:
    cells = grid_cells(args.cells, args.epochs)
    print(f"{len(cells)} runs of C-TRPO on {TASK}, {args.epochs} epochs of 5000, {cores()} cores")
    parts: tuple[float, float] | None = None
    moved: list[tuple[int, float]] = []
    head("where", "seconds", "model", "digest of all that was learned")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(home / "cache")
        trained(cells[:1], home / "first", Local(home / "first", 1))  # compiles
        seconds = trained(cells, home / "local", Local(home / "local", cores()))
        row(f"{cores()} processes", f"{seconds:.0f}", "", digest(home / "local"))
        for count in (1, 2, 3):
            where = home / str(count)
            seconds, engine = on_raylets(cells, where, count)
            parts = parts or cell_parts(where / "out", seconds, len(cells))
            model = grid_seconds(*parts, args.epochs, len(cells), min(count, cores()))
            row(f"{count} raylets", f"{seconds:.0f}", f"{model:.0f}", digest(where / "out"))
            moved += engine.moved
    assert parts is not None
    sizes, times = zip(*moved, strict=True)
    print(
        f"start of a run {parts[0]:.1f} s, epoch {parts[1]:.2f} s; a checkpoint moves "
        f"{statistics.median(sizes) / 1e3:.0f} KB and takes the driver "
        f"{1e3 * statistics.median(times):.1f} ms"
    )


def cell_parts(out: Path, seconds: float, count: int) -> tuple[float, float]:
    """(start, epoch): seconds of a cell, of cells that ran one after the other."""
    each = [
        sum(row[c] for c in TIME_COLUMNS)
        for f in out.glob("*/progress.csv")
        for row in read_rows(f)
    ]
    epochs = len(each) // count
    return seconds / count - epochs * statistics.mean(each), statistics.mean(each)


# ---- the model ---------------------------------------------------------------------------------


def grid_seconds(
    start: float, epoch: float, epochs: int, cells: int, slots: int, driver: float = 0.0
) -> float:
    """A grid of cells on so many cores: whole rounds of them, or what the driver can take in."""
    rounds = ceil(cells / slots) * (start + epochs * epoch)
    return max(rounds, cells * epochs * driver)


def run_seconds(acting: float, update: float, workers: int, given: float, cores: int) -> float:
    """An epoch of one run: acting shared by the workers that have a core, hand-over, update."""
    return acting / min(workers, cores) + given + update


MEASURED = (
    ("cells", 1000, "runs of the grid"),
    ("epochs", 500, "of each run"),
    ("cores", 8, "of each machine"),
    ("start", 2.9, "seconds until a run is at work"),
    ("epoch", 2.28, "seconds of an epoch on one core"),
    ("driver", 0.018, "seconds of the driver for a checkpoint"),
    ("size", 256e3, "bytes of a checkpoint"),
    ("acting", 1.79, "seconds of acting of an epoch on one core"),
    ("update", 0.49, "seconds of the update"),
    ("first", 0.012, "seconds of a hand-over, whatever the workers"),
    ("each", 0.0042, "seconds of a hand-over for each worker"),
)


def measure_model(args: argparse.Namespace) -> None:
    a = args
    print(f"A grid of {a.cells} runs of {a.epochs} epochs on machines of {a.cores} cores")
    head("machines", "hours", "hours at a checkpoint an epoch", "per s", "MB/s", "save_every")
    for machines in (1, 10, 100, 1000):
        slots = machines * a.cores
        free = grid_seconds(a.start, a.epoch, a.epochs, a.cells, slots)
        bound = grid_seconds(a.start, a.epoch, a.epochs, a.cells, slots, a.driver)
        rate = a.cells * a.epochs / free
        hours = [f"{seconds / 3600:.2f}" for seconds in (free, bound)]
        moved = f"{rate * a.size / 1e6:,.1f}"
        row(machines, *hours, f"{rate:,.1f}", moved, max(1, ceil(rate * a.driver)))
    print("An epoch of one run, in seconds")
    head("actors", "acting", "hand-over", "update", "epoch", "times as fast", "update's share")
    alone = a.acting + a.update
    for workers in (1, 10, 100, 1000):
        given = a.first + a.each * workers if workers > 1 else 0.0
        total = run_seconds(a.acting, a.update, workers, given, workers)
        parts = [f"{s:.2f}" for s in (a.acting / workers, given, a.update, total)]
        row(workers, *parts, f"{alone / total:.1f}", f"{a.update / total:.0%}")


# ---- environments in JAX -----------------------------------------------------------------------


def effort(obs: Any, action: Any, next_obs: Any) -> Any:
    """A cost for environments that have none."""
    return jnp.square(action).sum()


def training_rollout(env_id: str, num_envs: int, steps: int) -> Callable[[], float]:
    """Makes one epoch's rollout and returns its seconds."""
    run = make_run(
        "c-trpo", env=env_id, num_envs=num_envs, epoch_steps=num_envs * steps, cost_limit=25.0,
        env_args={"episode_length": steps},
    )  # fmt: skip
    env = open_env(run, env_id, effort)
    state = reset_state(run, env, first_state(run, Spaces.of(run, env)), 1)

    def once() -> float:
        begin = time.perf_counter()
        rollout, _ = collect_epoch(run, env, state, 1, None)
        jax.block_until_ready(rollout.obs)
        return time.perf_counter() - begin

    return once


def bare_scan(env_id: str, num_envs: int, steps: int) -> Callable[[], float]:
    """Steps the environments in a scan and returns its seconds."""
    env = find_source(env_id).env
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    state = jax.jit(jax.vmap(env.reset))(keys)
    rng = np.random.default_rng(0)
    action = jnp.asarray(rng.uniform(-1, 1, (steps, num_envs, env.action_size)), jnp.float32)

    @jax.jit
    def scan(state: Any, action: Any) -> Any:
        one = lambda state, action: (jax.vmap(env.step)(state, action), None)
        return jax.lax.scan(one, state, action)[0]

    def once() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(scan(state, action))
        return time.perf_counter() - begin

    return once


def measure_jax(args: argparse.Namespace) -> None:
    size = (args.env, args.num_envs, args.steps)
    sides = {"training rollout": training_rollout(*size), "bare lax.scan": bare_scan(*size)}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for once in sides.values():
        once()  # compiles
    for _ in range(args.rounds):
        for name, once in sides.items():
            seconds[name].append(once())
    rate = {n: args.num_envs * args.steps / statistics.median(s) for n, s in seconds.items()}
    where = f"{len(jax.local_devices())} {jax.default_backend()} device(s), jax {jax.__version__}"
    print(f"{args.env}, {args.num_envs} environments, {args.steps} steps, {where}")
    for name, value in rate.items():
        print(f"  {name:18}{value:12,.0f} steps/s")
    print(f"  share {rate['training rollout'] / rate['bare lax.scan']:.2f} (aim: at least 0.8)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("workers", help="hand-over of an epoch, and its share")
    part.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    part.add_argument("--rounds", type=int, default=20)
    part.set_defaults(measure=measure_workers)
    part = parts.add_parser("grid", help="times, bytes and digests of a grid")
    part.add_argument("--cells", type=int, default=4)
    part.add_argument("--epochs", type=int, default=6)
    part.set_defaults(measure=measure_grid)
    part = parts.add_parser("model", help="what more machines would do")
    for name, value, text in MEASURED:
        part.add_argument(f"--{name}", type=type(value), default=value, help=text)
    part.set_defaults(measure=measure_model)
    part = parts.add_parser("jax", help="environments in JAX beside a bare lax.scan")
    part.add_argument("--env", default="brax/ant")
    part.add_argument("--num-envs", type=int, default=256)
    part.add_argument("--steps", type=int, default=100)
    part.add_argument("--rounds", type=int, default=3)
    part.set_defaults(measure=measure_jax)
    args = parser.parse_args()
    args.measure(args)


if __name__ == "__main__":
    main()
