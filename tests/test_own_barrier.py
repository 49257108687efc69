# SPDX-License-Identifier: Apache-2.0
"""Barriers of one's own: what is refused, and that a known one written anew gives the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast import Agent, Generator, use_barrier
from holdfast.core.barrier import BARRIERS
from holdfast.run import make_run
from holdfast.settings import leaves
from holdfast.tabular.cmdp import toy, two_action_policy
from holdfast.tabular.flow import Geometry
from holdfast.tabular.mirror import mirror_path
from holdfast.tabular.potentials import POTENTIALS, psi, psi_reversed
from holdfast.tabular.trust import update

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "barriers.py"
KNOWN = {
    "entropy": Generator(
        "again", lambda x: x * jnp.log(x), lambda x: jnp.log(x) + 1.0, lambda x: 1.0 / x
    ),
    "log": Generator("again", lambda x: -jnp.log(x), lambda x: -1.0 / x, lambda x: x**-2.0),
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing registered here is left for other tests."""
    tables = (BARRIERS, POTENTIALS)
    before = [dict(table) for table in tables]
    yield
    for table, known in zip(tables, before, strict=True):
        for name in set(table) - set(known):
            del table[name]


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_barrier_written_anew_is_the_same(kind: str) -> None:
    name = use_barrier(KNOWN[kind])
    slack = np.array([0.00852, 0.2, 25.0])[:, None]
    spent = slack * np.array([-3.0, -0.5, -0.2, -1e-3, 0.0, 1e-3, 0.1, 0.299, 0.31, 0.9, 0.999])
    with jax.enable_x64(True):
        ours, theirs = (BARRIERS[k].divergence(slack, spent) for k in (name, kind))
        curved = [BARRIERS[k].curvature(slack) for k in (name, kind)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(*curved, rtol=1e-12)
    for price in (psi, psi_reversed):
        np.testing.assert_allclose(
            price(POTENTIALS[name], slack, spent), price(POTENTIALS[kind], slack, spent), rtol=1e-9
        )
    one, other = POTENTIALS[name], POTENTIALS[kind]
    np.testing.assert_allclose(one.at_limit(slack), other.at_limit(slack), rtol=1e-12)
    y0, kappa = np.array([0.1, 0.2, 0.3]), np.array([-1.0, 1e-9, 30.0])
    np.testing.assert_allclose(one.shifted(y0, kappa), other.shifted(y0, kappa), rtol=1e-12)
    np.testing.assert_allclose(one.conjugate(y0, kappa), other.conjugate(y0, kappa), rtol=1e-9)
    if kind == "log":  # φ' < 0: no slack answers a price below −1/y0
        assert not np.isfinite(one.conjugate(y0, np.full(3, -20.0))).any()


def test_in_float32_a_gradient_is_finite_and_the_limit_infinite() -> None:
    name = use_barrier(KNOWN["log"])
    price = lambda spent: BARRIERS[name].divergence(jnp.float32(2.0), spent)
    for spent in (-1.0, 0.0, 0.3, 1.0, 1.99):
        assert np.isfinite(jax.grad(price)(jnp.float32(spent)))
    assert np.isinf(price(jnp.float32(2.0))) and np.isinf(price(jnp.float32(3.0)))
    assert price(jnp.float32(0.0)) == 0.0


@pytest.mark.parametrize(
    ("generator", "words"),
    [
        (Generator("a", lambda x: x * 0.0, lambda x: x * 0.0, lambda x: x * 0.0), "not convex"),
        (Generator("a", jnp.log, lambda x: 1 / x, lambda x: -(x**-2.0)), "not convex"),
        (Generator("a", lambda x: x**2, lambda x: 2 * x, lambda x: 0 * x + 2.0), "tend to −∞"),
        (Generator("a", lambda x: -jnp.log(x), lambda x: 1 / x, lambda x: x**-2.0), "derivative"),
        (Generator("a", lambda x: -jnp.log(x), lambda x: -1 / x, lambda x: 1 / x), "derivative"),
        (
            Generator("a", lambda x: jnp.log(x - 1), lambda x: 1 / (x - 1), lambda x: x),
            "not finite",
        ),
        (Generator("a", lambda x: x.nothing, lambda x: x, lambda x: x), "cannot be evaluated"),
    ],
)
def test_what_is_no_barrier_is_refused(generator: Generator, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        use_barrier(generator)
    assert "<a>" not in BARRIERS


def test_in_the_exact_toolkit() -> None:
    """A copy of −log x flows and updates like it; 1/x holds the limit too."""
    name, start = use_barrier(KNOWN["log"]), two_action_policy(0.3, 0.1)
    for run in (
        lambda barrier: mirror_path(toy(), start, [5.0], Geometry(0.5, barrier)).policy,
        lambda barrier: update(toy(), start, 0.05, "ctrpo", Geometry(0.5, barrier)).policy,
    ):
        np.testing.assert_allclose(run(name), run("log"), atol=1e-8)
    own = use_barrier(f"{EXAMPLE}:reciprocal")
    step = update(toy(), start, 0.3, "ctrpo", Geometry(0.01, own))
    assert step.divergence == pytest.approx(0.3, rel=1e-6) and step.spent[0] < 0.13665584


def test_names_are_checked_and_recorded() -> None:
    with pytest.raises(ValueError, match="must be one of entropy"):
        make_run("c-trpo", barrier="no-such")
    with pytest.raises(ValueError, match="not a barrier"):
        use_barrier(f"{EXAMPLE}:Generator")
    run = make_run("c-trpo", barrier="phi.py:mine")  # is looked up where it is used
    assert run.algorithm.barrier == "phi.py:mine"


def test_an_agent_trains_with_it_and_resumes_with_consent(tmp_path: Path) -> None:
    named = f"{EXAMPLE}:reciprocal"
    small = {"total_steps": 2000, "epoch_steps": 1000, "hidden": (4,), "progress": False}
    agent = Agent("c-trpo", barrier=named).learn("probe/Speed-v0", out=tmp_path / "run", **small)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["run"]["algorithm"]["barrier"] == named
    assert np.isfinite(agent.metrics[-1]["ep_return"])
    del BARRIERS[named], POTENTIALS[named]  # another process
    loaded = Agent.load(tmp_path / "run")
    loaded.evaluate(episodes=2)  # needs no barrier
    with pytest.raises(ValueError, match="trust_env"):
        loaded.learn(total_steps=1000, progress=False)
    loaded.learn(total_steps=1000, progress=False, trust_env=True)
    assert len(loaded.metrics) == 3


def test_an_object_is_recorded_by_its_name(tmp_path: Path) -> None:
    small = {"total_steps": 1000, "epoch_steps": 1000, "hidden": (4,), "progress": False}
    agent = Agent("c-trpo", barrier=KNOWN["log"])
    agent.learn("probe/Speed-v0", out=tmp_path / "run", **small)
    assert agent.run.algorithm.barrier == "<again>"
    del BARRIERS["<again>"], POTENTIALS["<again>"]
    with pytest.raises(ValueError, match="passed as an object"):
        Agent.load(tmp_path / "run").learn(total_steps=1000, progress=False, trust_env=True)


@pytest.mark.parametrize("algorithm", ["c-trpo", "c-mdpo"])
def test_the_help_of_a_barrier_names_those_that_are_built_in(algorithm: str):
    """And that a file may be named, where any name is a text."""
    said = {s.name: s.help for s in leaves(make_run(algorithm).algorithm)}["barrier"]
    assert all(name in said for name in ("entropy", "log", "reversed-entropy", "file.py:name"))
