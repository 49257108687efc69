# SPDX-License-Identifier: Apache-2.0
"""Holdfast: safe reinforcement learning; cost limits count while it learns."""

from typing import TYPE_CHECKING, Any

from holdfast.envs.native import register_native

if TYPE_CHECKING:
    from holdfast.agent import Agent
    from holdfast.algorithms import ALGORITHMS, CTRPO, TRPO
    from holdfast.core.barrier import BARRIERS
    from holdfast.core.generator import Generator
    from holdfast.envs.base import Step, VecEnv
    from holdfast.envs.check import check_env, suggest_limit
    from holdfast.envs.make import make_env
    from holdfast.own_barrier import use_barrier
    from holdfast.run import Run, make_run
    from holdfast.train import Epoch

__version__ = "0.2.0"

__all__ = [
    "ALGORITHMS",
    "BARRIERS",
    "CTRPO",
    "TRPO",
    "Agent",
    "Epoch",
    "Generator",
    "Run",
    "Step",
    "VecEnv",
    "check_env",
    "make_env",
    "make_run",
    "suggest_limit",
    "use_barrier",
]

_HOMES = {
    "ALGORITHMS": "holdfast.algorithms",
    "BARRIERS": "holdfast.core.barrier",
    "CTRPO": "holdfast.algorithms",
    "TRPO": "holdfast.algorithms",
    "Agent": "holdfast.agent",
    "Epoch": "holdfast.train",
    "Generator": "holdfast.core.generator",
    "Run": "holdfast.run",
    "Step": "holdfast.envs.base",
    "VecEnv": "holdfast.envs.base",
    "check_env": "holdfast.envs.check",
    "make_env": "holdfast.envs.make",
    "make_run": "holdfast.run",
    "suggest_limit": "holdfast.envs.check",
    "use_barrier": "holdfast.own_barrier",
}


register_native()


def __dir__() -> list[str]:
    """The public names, whether they are imported yet or not."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: a worker process never pays for JAX."""
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
