# SPDX-License-Identifier: Apache-2.0
"""Resources of a process and its end: packages, cores, compiled functions, signals."""

import importlib
import importlib.metadata
import os
import platform
import re
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

DISTRIBUTION = "holdfast-rl"
"""The distribution's name: the package index has another project called holdfast."""
OTHERS = ("jax", "jaxlib", "optax", "numpy", "mujoco", "gymnasium")
PACKAGES = {"holdfast": DISTRIBUTION} | dict(zip(OTHERS, OTHERS, strict=True))
"""Packages that results depend on, and their distributions."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables with the number of threads of numerical libraries."""
WORTH_KEEPING = 0.1
"""Shortest compilation, in seconds, that the cache on disk keeps."""
KEPT = 8
"""How many compiled versions of one function a process keeps."""
CHECKOUT = Path(__file__).parents[2]
"""The root of the package's repository, if it runs from one (the package is in src/)."""


def versions() -> dict[str, str]:
    """Versions of Python, the platform, and the packages that results depend on.

    `commit` is that of Holdfast, if it runs from a git checkout.
    """
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name, distribution in PACKAGES.items():
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    head = commit(CHECKOUT)
    return found | ({"commit": head} if head else {})


def commit(root: Path) -> str | None:
    """The commit that is checked out at `root`; None if it cannot be read.

    It is read from git's files: a run must not wait for a process, nor need git. Uncommitted
    changes are ignored.
    """
    try:
        folder = root / ".git"
        if folder.is_file():  # of a worktree or submodule: "gitdir: PATH"
            folder = root / folder.read_text().removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text().strip()
        if head.startswith("ref:"):
            head = _reference(folder, head.removeprefix("ref:").strip())
    except (OSError, ValueError):
        return None
    return head if re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", head) else None


def _reference(folder: Path, name: str) -> str:
    """The commit of a branch: in a file of its name, or a line of packed-refs."""
    shared = folder / "commondir"  # a worktree has its branches where the repository has them
    common = folder / shared.read_text().strip() if shared.exists() else folder
    if (common / name).is_file():
        return (common / name).read_text().strip()
    lines = (common / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def pip_install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def optional(module: str, extra: str, what: str) -> Any:
    """Import a module that `what` needs; the error names the command that installs it."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"{what} needs {package}, which is not installed: `{pip_install(extra)}`."
        ) from error


def compilation_cache() -> str:
    """The folder of compiled functions, unless JAX's own variable sets another."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return os.environ.get("JAX_COMPILATION_CACHE_DIR", f"{home}/holdfast/jax")


def use_compilation_cache() -> None:
    """Keep compiled functions on disk between runs, so that later starts are faster."""
    import jax

    jax.config.update("jax_compilation_cache_dir", compilation_cache())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)


Values = ParamSpec("Values")
Made = TypeVar("Made")


def shared(make: Callable[Values, Made]) -> Callable[Values, Made]:
    """Cache the functions that `make` compiles for given values, for further runs in this process.

    JAX identifies a function by the object, so a new object is compiled again. Values that cannot
    be hashed, such as an algorithm with a list, are not cached.
    """
    kept = lru_cache(KEPT)(make)

    @wraps(make)
    def found(*values: Values.args, **named: Values.kwargs) -> Made:
        try:
            hash((values, tuple(named.values())))
        except TypeError:
            return make(*values, **named)
        return kept(*values, **named)  # pyright: ignore[reportArgumentType]

    return found


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables that limit a process to `threads` cores; set them before importing jax.

    Parallel cells then do not compete for cores. The order of sums, and so every bit of the result,
    does not depend on the machine's number of cores.
    """
    limits = dict.fromkeys((*THREADS, "NPROC", "HOLDFAST_CORES"), str(threads))
    eigen = "" if threads > 1 else "--xla_cpu_multi_thread_eigen=false"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {eigen}".strip()
    return limits | {
        "XLA_FLAGS": flags,
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
        "JAX_COMPILATION_CACHE_DIR": compilation_cache(),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(WORTH_KEEPING),
    }


def cores() -> int:
    """The number of cores that this process may use."""
    given = os.environ.get("HOLDFAST_CORES", "")
    if given.isdigit() and int(given):
        return int(given)
    affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Terminated(KeyboardInterrupt):
    """SIGTERM as an exception, like Ctrl-C: files stay whole and the terminal is restored."""


def describe(stop: KeyboardInterrupt) -> tuple[str, int]:
    """(the reason, exit code by the shell's convention)."""
    if isinstance(stop, Terminated):
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", 128 + signal.SIGINT


class Stuck(RuntimeError):
    """A call that exceeds its time limit."""


@contextmanager
def deadline(seconds: float) -> Generator[None]:
    """Raise `Stuck` in the block after so many seconds, also in a blocking call; 0: never.

    It interrupts Python code and system calls of the main thread, on systems with POSIX signals.
    Compiled code that never returns cannot be interrupted.
    """
    main = threading.current_thread() is threading.main_thread()
    if not seconds or not main or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: Any) -> None:
        raise Stuck(f"no answer for {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def terminable() -> Generator[None]:
    """In the block the first SIGTERM raises `Terminated`; further ones are ignored during the
    clean-up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
