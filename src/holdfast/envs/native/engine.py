# SPDX-License-Identifier: Apache-2.0
"""Shared helpers for the engine: versions, states, views, random streams.

Derived quantities are read through views of the simulators' own memory, collected once: a batch is
then gathered by a single `concatenate` instead of one attribute look-up per number.

Random generators are saved as arrays, so that a snapshot is plain data. Velocity tasks draw from
PCG64, navigation tasks from MT19937, so that a seed gives the original's random streams.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.envs.native.simulation import Array

mujoco: Any = importlib.import_module("mujoco")
"""A compiled module without type information, declared untyped once."""
Model: TypeAlias = Any
Data: TypeAlias = Any

VERSION = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
COMPLETE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
"""Positions, velocities, time, controls, mocap bodies and the solver's warm start."""


if mujoco.get_mju_user_warning() is None:  # else it also writes MUJOCO_LOG.TXT where the user is
    mujoco.set_mju_user_warning(lambda text: print(f"MuJoCo: {text}", file=sys.stderr))


def correct_margins(model: Model) -> None:
    """Keep contact distances as they were before MuJoCo 3.5, which adds the margins of a pair.

    Older versions took the larger of the two; these models give every geom the same margin.
    """
    if VERSION >= (3, 5):
        model.geom_margin[:] *= 0.5


def alter(models: Sequence[Model], mass: float, friction: float) -> None:
    """Multiply the mass of every body and the friction of every contact."""
    for model in {id(model): model for model in models}.values():
        model.body_mass[:] *= mass
        model.body_inertia[:] *= mass
        model.geom_friction[:] *= friction
        mujoco.mj_setConst(model, mujoco.MjData(model))


def get_states(models: Sequence[Model], datas: Sequence[Data]) -> Array:
    """[N, S] the integrator's full state."""
    size = mujoco.mj_stateSize(models[0], COMPLETE)
    states = np.empty((len(datas), size))
    for model, data, state in zip(models, datas, states, strict=True):
        mujoco.mj_getState(model, data, state, COMPLETE)
    return states


def set_states(models: Sequence[Model], datas: Sequence[Data], states: Array) -> None:
    """The inverse of `get_states`."""
    size = mujoco.mj_stateSize(models[0], COMPLETE)
    if states.shape != (len(datas), size):
        raise ValueError(
            f"the snapshot has simulator states of shape {states.shape} where this MuJoCo "
            f"({mujoco.__version__}) needs {(len(datas), size)}: "
            "restore it with the same version and number of environments."
        )
    for model, data, state in zip(models, datas, states, strict=True):
        mujoco.mj_setState(model, data, np.ascontiguousarray(state), COMPLETE)


LOW_64 = (1 << 64) - 1


def pcg64_state(generators: Sequence[np.random.Generator]) -> NDArray[np.uint64]:
    """[N, 6]: state and increment as high and low halves, then the buffered 32-bit half."""
    rows: list[list[int]] = []
    for generator in generators:
        saved: Any = generator.bit_generator.state
        state, increment = saved["state"]["state"], saved["state"]["inc"]
        halves = [state >> 64, state & LOW_64, increment >> 64, increment & LOW_64]
        rows.append([*halves, saved["has_uint32"], saved["uinteger"]])
    return np.array(rows, np.uint64)


def pcg64_from(rows: NDArray[np.uint64]) -> list[np.random.Generator]:
    """Generators with the states of `pcg64_state`."""
    generators: list[np.random.Generator] = []
    for row in rows:
        high, low, increment_high, increment_low, buffered, half = (int(value) for value in row)
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": high << 64 | low, "inc": increment_high << 64 | increment_low},
            "has_uint32": buffered,
            "uinteger": half,
        }
        generators.append(np.random.Generator(bits))
    return generators


def mt19937_state(
    generators: Sequence[np.random.RandomState],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Keys [N, 624] and positions [N]; the tasks draw no Gaussians, so nothing else is buffered."""
    states: list[Any] = [generator.get_state() for generator in generators]
    keys = np.array([state[1] for state in states], np.uint32)
    return keys, np.array([state[2] for state in states], np.int64)


def mt19937_from(
    keys: NDArray[np.uint32], positions: NDArray[np.int64]
) -> list[np.random.RandomState]:
    """Generators with the states of `mt19937_state`."""
    generators = [np.random.RandomState(0) for _ in positions]
    for generator, key, position in zip(generators, keys, positions, strict=True):
        generator.set_state(("MT19937", key, int(position), 0, 0.0))
    return generators
