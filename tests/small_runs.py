# SPDX-License-Identifier: Apache-2.0
"""Runs that take a second, and what is compared of two of them."""

import numpy as np

from holdfast import make_run
from holdfast.records.rows import read_rows
from holdfast.runs.folder import load_state
from holdfast.runs.training import train_in_folder
from holdfast.train.epoch import CLOCK_COLUMNS

SMALL = dict(
    num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=2, critic_minibatch=64, cg_steps=5,
    cost_limit=25.0,
)  # fmt: skip


def small(env="probe/Speed-v0", algorithm="c-trpo", epochs=4, **settings):
    chosen = SMALL | settings
    return make_run(algorithm, env=env, steps=epochs * chosen["epoch_steps"], **chosen)


def rows_without_clock(path):
    clockless = lambda row: {k: str(v) for k, v in row.items() if k not in CLOCK_COLUMNS}
    return [clockless(row) for row in read_rows(path)]


def finish(folder, env):
    state, complaints = load_state(folder)
    assert complaints == []
    for _ in train_in_folder(folder, env, state=state):
        pass


def same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
