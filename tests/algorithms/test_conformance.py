# SPDX-License-Identifier: Apache-2.0
"""What holds for every algorithm, whoever wrote it: one suite over the register."""

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holdfast.algorithms import ALGORITHMS, ComparesCosts
from holdfast.core.critic import init_critics
from holdfast.core.first_order import JointCritic
from holdfast.core.policies import Policy, init_categorical, init_gaussian
from holdfast.core.types import Batch, Learner, sampled_batch
from holdfast.register import PRESETS
from holdfast.run import from_json, make_run, to_json
from holdfast.runs import checkpoint
from holdfast.runs.folder import flatten, unflatten
from holdfast.train.update import make_update

DOCS = Path(__file__).resolve().parents[2] / "docs" / "algorithms"
PAGE = {"c-trpo-no-hysteresis": "c-trpo", "c-trpo-noise": "c-trpo", "cpo-hysteresis": "cpo"}
"""Names that share a page with the algorithm they are a setting of."""
SIZE = 48
KINDS = {"gaussian": (), "discrete": (4,), "multidiscrete": (3, 2)}
DISTINCT = ("c-trpo", "cpo", "pcpo", "sb-trpo", "cppo-pid", "focops", "cup", "ipo", "cspo")
"""What every test run compiles for choices and several constraints, the others for one constraint;
`make test-full` compiles these for one constraint too, and the others for several nightly."""


def cases() -> Iterator[Any]:
    """Each (name, policy, constraints) costs a compilation, so not all of them run every time."""
    nightly = pytest.mark.learning
    for name in ALGORITHMS:
        rare = [nightly] * (name in PAGE) + [pytest.mark.full] * (name in DISTINCT)
        yield pytest.param(name, "gaussian", 1, marks=rare)
        if name not in PAGE:
            yield pytest.param(name, "multidiscrete", 3, marks=[nightly] * (name not in DISTINCT))


@functools.cache
def make_policy(kind: str) -> Policy:
    key = jax.random.key(3)
    if kind == "gaussian":
        return init_gaussian(key, 3, 2, (6,))
    return init_categorical(key, 3, KINDS[kind], (6,))


@functools.cache
def make_batch(kind: str, constraints: int, seed: int) -> Batch:
    keys = jax.random.split(jax.random.key(seed), 6)
    choose = lambda n: jax.random.randint(keys[1], (SIZE, 1), 0, n)
    action = jax.random.normal(keys[1], (SIZE, 2))
    if kind != "gaussian":
        action = jnp.concatenate([choose(n) for n in KINDS[kind]], 1)
    adv_c = jax.random.normal(keys[3], (SIZE, constraints))
    batch = sampled_batch(
        jax.random.normal(keys[0], (SIZE, 3)),
        action,
        jax.random.normal(keys[2], (SIZE,)),
        adv_c - adv_c.mean(0),
        cost_return=jax.random.uniform(keys[4], (constraints,), minval=10.0, maxval=40.0),
        cost_limit=jnp.full(constraints, 25.0),
        target=jax.random.normal(keys[5], (SIZE, 1 + constraints)),
    )
    length, done = jnp.asarray(1000.0), jnp.asarray(seed / 10, jnp.float32)
    return replace(batch, horizon=jnp.asarray(100.0), length=length, progress=done)


@functools.cache
def make_critics(constraints: int) -> Any:
    return init_critics(jax.random.key(4), 3, constraints, (6,))


def make_learner(algorithm: Any, kind: str, constraints: int) -> Learner:
    policy = make_policy(kind)
    return Learner(policy, make_critics(constraints), algorithm.init(constraints, policy))


@functools.cache
def trained(name: str, kind: str, constraints: int) -> tuple[Any, list[Any]]:
    """(update, [(learner before, batch, key, learner after, metrics, spent)])."""
    algorithm = ALGORITHMS[name].make()
    update = make_update.__wrapped__(algorithm)  # its own: others share theirs
    learner = make_learner(algorithm, kind, constraints)
    steps = []
    for seed in range(1, 4):
        batch, key = make_batch(kind, constraints, seed), jax.random.key(seed)
        after, metrics, spent = update(learner, batch, key)
        steps.append((learner, batch, key, after, metrics, spent))
        learner = after
    return update, steps


def same_bits(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.parametrize(("name", "kind", "constraints"), list(cases()))
class TestCompiled:
    """One compilation for each case, shared by all of these."""

    def test_pure_and_deterministic(self, name: str, kind: str, constraints: int) -> None:
        update, steps = trained(name, kind, constraints)
        learner, batch, key, *after = steps[-1]
        kept = jax.tree.map(np.array, learner)
        again = update(learner, batch, key)
        same_bits(again, tuple(after))
        same_bits(kept, jax.tree.map(np.array, learner))

    def test_compiled_once(self, name: str, kind: str, constraints: int) -> None:
        update: Any = trained(name, kind, constraints)[0]
        assert update.improve._cache_size() == 1
        compiled = getattr(update.fit, "fit_one", update.fit)
        assert compiled is None or compiled._cache_size() == 1

    def test_state_keeps_its_shape(self, name: str, kind: str, constraints: int) -> None:
        for before, _, _, after, *_ in trained(name, kind, constraints)[1]:
            assert jax.tree.structure(before) == jax.tree.structure(after)
            for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
                assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, y.weak_type)
                assert np.isfinite(np.asarray(y)).all()

    def test_learns_something(self, name: str, kind: str, constraints: int) -> None:
        steps = trained(name, kind, constraints)[1]
        first, last = steps[0][0], steps[-1][3]
        moved = lambda a, b: any(
            np.any(np.asarray(x) != np.asarray(y))
            for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True)
        )
        assert moved(first.critics.layers, last.critics.layers)
        if name not in (
            "cpo",
            "cpo-hysteresis",
            "pcpo",
            "sb-trpo",
        ):  # whose search may refuse random batches
            assert moved(first.policy, last.policy)

    def test_documented_metrics_only(self, name: str, kind: str, constraints: int) -> None:
        page = (DOCS / f"{PAGE.get(name, name)}.md").read_text()
        documented = set(re.findall(r"^\| `(\w+)` \|", page.split("## Metrics")[1], re.MULTILINE))
        for *_, metrics, spent in trained(name, kind, constraints)[1]:
            assert {*metrics, *(["spent"] if spent is not None else [])} == documented
            assert all(value.shape == () for value in metrics.values())
            assert spent is None or spent.shape == (constraints,)
            assert (spent is not None) == isinstance(ALGORITHMS[name].make(), ComparesCosts)

    def test_zero_advantage_leaves_the_policy(self, name: str, kind: str, constraints: int) -> None:
        update, steps = trained(name, kind, constraints)
        learner, batch, key = steps[0][:3]  # a fresh learner: momentum would carry an old one on
        nothing = replace(
            batch, adv_r=jnp.zeros_like(batch.adv_r), adv_c=jnp.zeros_like(batch.adv_c)
        )
        after, *_ = update(learner, nothing, key)
        same_bits(after.policy, learner.policy)

    def test_saved_and_resumed(
        self, name: str, kind: str, constraints: int, tmp_path: Path
    ) -> None:
        """Through the files of a run folder, into a fresh learner, to the same bits."""
        update, steps = trained(name, kind, constraints)
        _, _, _, after, *_ = steps[0]
        checkpoint.save(tmp_path, 1, flatten(after, "learner"), 1)
        _, arrays, _ = checkpoint.load(tmp_path)
        fresh = make_learner(ALGORITHMS[name].make(), kind, constraints)
        back = unflatten(fresh, arrays, "learner")
        same_bits(back, after)
        same_bits(update(back, *steps[1][1:3]), steps[1][3:])


@pytest.mark.parametrize("name", ["c-trpo", "c3po"])
def test_both_at_once_is_one_after_the_other(name: str) -> None:
    """And where both draw minibatches, each draws its own."""
    algorithm = ALGORITHMS[name].make()
    learner, batch = make_learner(algorithm, "gaussian", 1), make_batch("gaussian", 1, 1)
    key = jax.random.key(1)
    policy_key, critic_key = jax.random.split(key) if name == "c3po" else (key, key)
    picked = algorithm.critic.minibatches(critic_key, len(batch.weight))
    critics, fitted = jax.jit(algorithm.critic.fit)(learner.critics, batch, picked)
    step = jax.jit(algorithm.improve)(learner, batch, policy_key)
    after, metrics, _ = make_update(algorithm)(learner, batch, key)
    same_bits(after, Learner(step.policy, critics, step.extra))
    same_bits(metrics, step.metrics | fitted)


def test_the_published_critics_wait_for_the_norm_of_the_policys_gradient() -> None:
    """D7; by default the same fit takes no notice of it."""
    made = make_run("cpo", "published", critic_max_norm=0.01).algorithm
    learner, batch = make_learner(made, "gaussian", 1), make_batch("gaussian", 1, 1)
    key = jax.random.key(1)
    fit, picked = jax.jit(made.critic.fit), made.critic.minibatches(key, len(batch.weight))
    norm = jax.jit(made.improve)(learner, batch, key).gradient_norm
    assert float(norm) > 0.01
    after, *_ = make_update(made)(learner, batch, key)
    same_bits(after.critics, fit(learner.critics, batch, picked, norm)[0])
    free = replace(made, critic=replace(made.critic, critic_stale_norm=False))
    other, *_ = make_update(free)(learner, batch, key)
    same_bits(other.critics, fit(learner.critics, batch, picked)[0])
    first = lambda learner: np.asarray(learner.critics.layers[0][0])
    assert not np.array_equal(first(after), first(other))


DAILY = {("gaussian", 2), ("discrete", 1), ("multidiscrete", 3)}
"""Each policy and each number of constraints once; `make test-full` traces all pairs."""


def pairs() -> Iterator[Any]:
    for pair in itertools.product(KINDS, (1, 2, 3)):
        yield pytest.param(*pair, marks=[pytest.mark.full] * (pair not in DAILY))


@pytest.mark.parametrize(("kind", "constraints"), list(pairs()))
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_policy_and_number_of_constraints(name: str, kind: str, constraints: int) -> None:
    """Traced only: shapes and types of what comes out are those of what goes in."""
    algorithm = ALGORITHMS[name].make()
    learner = make_learner(algorithm, kind, constraints)
    batch, key = make_batch(kind, constraints, 1), jax.random.key(0)
    step = jax.eval_shape(algorithm.improve, learner, batch, key)
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert shapes(learner.improved(step)) == shapes(learner)
    assert (step.critics is not None) == isinstance(algorithm.critic, JointCritic)
    assert all(value.shape in ((), (constraints,)) for value in step.metrics.values())


@pytest.mark.parametrize("preset", [None, *PRESETS])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_run_json_round_trip(name: str, preset: Any) -> None:
    run = make_run(name, preset, env="probe/Bandit-v0")
    assert from_json(to_json(run)) == run


def test_published_cpo_has_one_constraint() -> None:
    with pytest.raises(ValueError, match="dual='exact'"):
        make_run("cpo", "published").algorithm.init(2, make_policy("gaussian"))


def test_every_name_has_a_page() -> None:
    for name in ALGORITHMS:
        assert (DOCS / f"{PAGE.get(name, name)}.md").exists(), name
