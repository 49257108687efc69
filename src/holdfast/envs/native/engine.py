# SPDX-License-Identifier: Apache-2.0
"""The few things asked of MuJoCo by more than one family: versions, states, views.

Derived quantities are read through views of the simulators' own memory, collected once: a batch
is then gathered by a single `concatenate` instead of one attribute look-up per number.
"""

import importlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from holdfast.envs.native.simulation import Array

mujoco: Any = importlib.import_module("mujoco")
"""A compiled module without type information: untyped here, once, instead of at every use."""
Model: TypeAlias = Any
Data: TypeAlias = Any

VERSION = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
COMPLETE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
"""Positions, velocities, time, controls, mocap bodies and the solver's warm start."""


def correct_margins(model: Model) -> None:
    """Keep contact distances as they were before MuJoCo 3.5, which adds the margins of a pair.

    Older versions took the larger of the two; these models give every geom the same margin.
    """
    if VERSION >= (3, 5):
        model.geom_margin[:] *= 0.5


def get_states(models: Sequence[Model], datas: Sequence[Data]) -> Array:
    """[N, S] everything the integrator starts from."""
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
            f"the snapshot holds simulator states of shape {states.shape} where this MuJoCo "
            f"({mujoco.__version__}) needs {(len(datas), size)}: "
            "restore it with the version and the number of environments that saved it."
        )
    for model, data, state in zip(models, datas, states, strict=True):
        mujoco.mj_setState(model, data, np.ascontiguousarray(state), COMPLETE)
