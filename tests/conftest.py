# SPDX-License-Identifier: Apache-2.0
"""Settings of every test: CPU, fast compilation, and float64 where it is asked for."""

import ctypes
import functools
import gc
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Tests compile thousands of functions and run each a few times: compiling fast is what counts.
# XLA's newer fusion emitters take two thirds of the time to compile and half of the memory.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
# What one test, worker or subprocess compiled, the others find. Subprocesses inherit all of this.
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(__file__).parents[1] / ".jax_cache")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
# Batches stay in their process unless a test asks for workers: each is an interpreter to start.
os.environ["HOLDFAST_CORES"] = "1"
# Records of who trained what (holdfast.runs.consent) belong to the tests, not to the user.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="holdfast-state-")

import jax
import pytest
from jax._src.interpreters import mlir

# A plugin may have imported JAX before this file: then it has not seen the variables.
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
# JAX makes a fresh MLIR context for each function it lowers: a quarter of the time that a small one
# takes to compile. One context serves them all.
mlir.make_ir_context = functools.cache(mlir.make_ir_context)
# Traces make many objects that live long: a collection for each few hundred of them finds nothing.
gc.set_threshold(50_000, 20, 20)
# Jobs in the background ignore Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = Path("/proc/self/statm")
MOST = 0.9e9
"""Bytes of a process after a file, beyond which it forgets what it has compiled."""


@pytest.fixture(scope="module", autouse=True)
def bounded_memory():
    """Compiled functions of hundreds of files would fill gigabytes; few are used by two files."""
    yield
    if MEMORY.exists() and int(MEMORY.read_text().split()[1]) * resource.getpagesize() > MOST:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session")
def published() -> Path:
    """The published runs, which are not ours to ship: without them these tests skip."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "reference"
    if not (folder / "paper_runs.parquet").exists():
        pytest.skip(f"the published runs are not part of the repository: none in {folder}")
    return folder


@pytest.fixture
def optimised():
    """For tests that learn: there running counts, and takes a third of the time."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def float64():
    """Mathematics is checked in double precision, through the same code."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch):
    """A head that only keeps the books; all on the loopback address."""
    for name, value in {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    here = {"node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 0}
    made = Cluster(initialize_head=True, head_node_args=here)
    yield made
    made.shutdown()
