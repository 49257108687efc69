# SPDX-License-Identifier: Apache-2.0
"""Same seed, same bits, on any number of cores that XLA finds, with a control."""

import json
import os
import subprocess
import sys

import pytest

CHILD = """
import hashlib, json

import jax
import jax.numpy as jnp
import numpy as np

from holdfast import make_env, make_run
from holdfast.core.policies import init_gaussian
from holdfast.train import train

def short(tree):
    parts = (np.asarray(x).tobytes() for x in jax.tree.leaves(tree))
    return hashlib.sha256(b"".join(parts)).hexdigest()

run = make_run("c-trpo", env="probe/Speed-v0", steps=16_000, epoch_steps=8_000, num_envs=4,
               cg_steps=4, critic_passes=1)
learned = [short(epoch.state.learner) for epoch in train(run, make_env(run.env, 4))]

obs = jnp.asarray(np.random.default_rng(0).standard_normal((20_000, 27)), jnp.float32)

def plain(layers):
    x = obs
    for weight, bias in layers:
        x = jnp.tanh(x @ weight + bias)
    return x.sum()

layers = init_gaussian(jax.random.key(0), 27, 8, (64, 64)).layers
print(json.dumps({"learned": learned, "plain": short(jax.jit(jax.grad(plain))(layers))}))
"""


@pytest.fixture(scope="module")
def digests():
    """Of a short default run and of plain gradients, by how many cores XLA takes there to be."""

    def child(cores):
        env = os.environ | {"NPROC": str(cores), "HOLDFAST_CORES": "1"}
        env.pop("XLA_FLAGS", None)
        env.pop("JAX_COMPILATION_CACHE_DIR", None)
        return subprocess.Popen([sys.executable, "-c", CHILD], env=env, stdout=subprocess.PIPE)

    children = {cores: child(cores) for cores in (1, 2)}
    return {cores: json.loads(made.communicate()[0]) for cores, made in children.items()}


def test_a_run_has_the_same_bits_on_any_number_of_cores(digests):
    assert len(digests[1]["learned"]) == 2
    assert digests[1]["learned"] == digests[2]["learned"]
    assert len(set(digests[1]["learned"])) == 2  # it did learn


def test_plain_gradients_have_not(digests):
    """The control: sums over all rows are rounded by the number of cores."""
    assert digests[1]["plain"] != digests[2]["plain"]
