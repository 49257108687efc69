# SPDX-License-Identifier: Apache-2.0
"""Ending in order when asked to: Ctrl-C (SIGINT) and a cluster's or an init's SIGTERM alike."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C would raise: files are left whole, the terminal is restored."""


def describe(stop: KeyboardInterrupt) -> tuple[str, int]:
    """(what happened, exit code by the shell's convention)."""
    if isinstance(stop, Terminated):
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", 128 + signal.SIGINT


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
