# SPDX-License-Identifier: Apache-2.0
"""Same seed, same bits, on any number of cores that XLA finds, with a control."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

CHILD = """
import hashlib, json, os, sys

pinned, names = int(sys.argv[1]), sys.argv[2:]
if pinned:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:pinned])

import jax
import jax.numpy as jnp
import numpy as np

from holdfast import make_env, make_run
from holdfast.core.policies import init_gaussian
from holdfast.train import train
from reading_envs import Recall, Tiles

def short(tree):
    parts = (np.asarray(x).tobytes() for x in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(parts)).hexdigest()

def learned(where, **settings):
    how = {"env": where} if isinstance(where, str) else {"vectorise": "sync"}
    run = make_run("c-trpo", num_envs=4, critic_passes=1, **how, **settings)
    batch = make_env(where, 4, vectorise=run.vectorise)
    return [short(epoch.state.learner) for epoch in train(run, batch)]

obs = jnp.asarray(np.random.default_rng(0).standard_normal((20_000, 27)), jnp.float32)

def plain():
    def total(layers):
        x = obs
        for weight, bias in layers:
            x = jnp.tanh(x @ weight + bias)
        return x.sum()

    layers = init_gaussian(jax.random.key(0), 27, 8, (64, 64)).layers
    return short(jax.jit(jax.grad(total))(layers))

small = dict(steps=4_800, epoch_steps=2_400, hidden=(8,), cg_steps=2, cost_limit=0.25)
made = {
    "mlp": lambda: learned("probe/Speed-v0", steps=16_000, epoch_steps=8_000, cg_steps=4),
    "gru": lambda: learned(Recall, encoder="gru", memory=3, **small),
    "cnn": lambda: learned(Tiles, encoder="cnn", channels=(2, 2), **small),
    "plain": plain,
}
print(json.dumps({name: made[name]() for name in names}))
"""


@cache
def digests(by, *names):
    """By the number of cores, which XLA is told or the system allows: of runs and of a gradient."""
    told = by == "told"
    if not told and len(getattr(os, "sched_getaffinity", lambda _: [0])(0)) < 2:
        pytest.skip("needs two cores and a system that can pin a process to them")

    def child(cores):
        env = os.environ | {"HOLDFAST_CORES": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
        for name in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR", "NPROC"):
            env.pop(name, None)
        env |= {"NPROC": str(cores)} if told else {}
        command = [sys.executable, "-c", CHILD, str(0 if told else cores), *names]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE)

    children = {cores: child(cores) for cores in (1, 2)}
    return {cores: json.loads(made.communicate()[0]) for cores, made in children.items()}


def check_learned(found, name):
    assert len(found[1][name]) == 2
    assert found[1][name] == found[2][name]
    assert len(set(found[1][name])) == 2  # it did learn


def test_a_run_has_the_same_bits_on_any_number_of_cores():
    check_learned(digests("told", "mlp", "plain"), "mlp")


def test_plain_gradients_have_not():
    """The control: sums over all rows are rounded by the number of cores."""
    found = digests("told", "mlp", "plain")
    assert found[1]["plain"] != found[2]["plain"]


@pytest.mark.full
@pytest.mark.parametrize("by", ["told", "allowed"])
@pytest.mark.parametrize("name", ["mlp", "gru", "cnn"])
def test_so_have_runs_with_memory_and_on_images(by, name):
    """Where XLA is told of one core or two, and where the system allows a process so many."""
    check_learned(digests(by, "mlp", "gru", "cnn"), name)
