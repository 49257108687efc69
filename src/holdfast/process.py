# SPDX-License-Identifier: Apache-2.0
"""What a process of ours takes and how it ends: packages, cores, compiled functions, signals."""

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
"""What pip calls us: the package index has another project under our own name."""
OTHERS = ("jax", "jaxlib", "optax", "numpy", "mujoco", "gymnasium")
PACKAGES = {"holdfast": DISTRIBUTION} | dict(zip(OTHERS, OTHERS, strict=True))
"""What results depend on, and its distribution."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that say on how many threads numerical libraries run."""
WORTH_KEEPING = 0.1
"""Seconds that a function takes to compile, at least, where that is kept."""
KEPT = 8
"""Different values for which a process keeps what one function compiles."""
CHECKOUT = Path(__file__).parents[2]
"""Where the package's repository is, if it runs from one (it lies in src/ there)."""


def versions() -> dict[str, str]:
    """Of Python, the platform, and the packages that results depend on.

    And `commit`, that of our own code, where it runs from a git checkout.
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
    """The commit that is checked out at `root`; None where there is none that can be read.

    Read from git's files: a run must not wait for a process, nor need git. Changes that were not
    committed are not seen.
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
    """What a branch points to: a file of its name, or a line of packed-refs."""
    shared = folder / "commondir"  # a worktree has its branches where the repository has them
    common = folder / shared.read_text().strip() if shared.exists() else folder
    if (common / name).is_file():
        return (common / name).read_text().strip()
    lines = (common / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def pip_install(extra: str) -> str:
    """The command that brings an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def optional(module: str, extra: str, what: str) -> Any:
    """A module that `what` needs and an extra brings, or a sentence on how to get it."""
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"{what} needs {package}, which is not installed: `{pip_install(extra)}`."
        ) from error


def compilation_cache() -> str:
    """Where compiled functions are kept between runs, unless JAX's own variable says where."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return os.environ.get("JAX_COMPILATION_CACHE_DIR", f"{home}/holdfast/jax")


def use_compilation_cache() -> None:
    """Compiled functions are kept between runs: the second start is quick."""
    import jax

    jax.config.update("jax_compilation_cache_dir", compilation_cache())
    jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)


Values = ParamSpec("Values")
Made = TypeVar("Made")


def shared(make: Callable[Values, Made]) -> Callable[Values, Made]:
    """What `make` compiles for some values is kept, and serves further runs in this process.

    JAX knows a function by its identity, so one that is made anew is compiled anew. Values that
    cannot be hashed, such as an algorithm with a list, get a function of their own.
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
    """Environment variables that keep a process on `threads` cores; set before jax is imported.

    Parallel cells then do not fight, and the order of sums, hence every bit of the result, does not
    depend on how many cores the machine has.
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
    """Cores that this process may keep busy."""
    given = os.environ.get("HOLDFAST_CORES", "")
    if given.isdigit() and int(given):
        return int(given)
    affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would raise: files are left whole, the terminal is restored."""


def describe(stop: KeyboardInterrupt) -> tuple[str, int]:
    """(what happened, exit code by the shell's convention)."""
    if isinstance(stop, Terminated):
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", 128 + signal.SIGINT


class Stuck(RuntimeError):
    """Something that does not answer in time."""


@contextmanager
def deadline(seconds: float) -> Generator[None]:
    """Inside, `Stuck` is raised after so many seconds, also in a blocking call; 0: never.

    It reaches Python code and system calls of the main thread, where there are POSIX signals.
    Compiled code that never comes back cannot be woken.
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
    """Inside, the first SIGTERM raises `Terminated`; further ones do not disturb the ending."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def stop(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
