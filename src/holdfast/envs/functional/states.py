# SPDX-License-Identifier: Apache-2.0
"""One functional environment with flat observations, costs and both end flags."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.envs.base import ActionSpace, Facts
from holdfast.envs.foreign.costs import CostFunction, CostSource, Transition, find_cost
from holdfast.envs.foreign.spaces import dtype_of, plain_action_space, still_action
from holdfast.envs.functional.functional_source import Functional


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnvState:
    """A state that `reset` and `step` of a user-defined environment may return."""

    inner: Any
    """The whole state of the simulation: any arrays."""
    obs: Any
    reward: Any = 0.0
    done: Any = False
    """Whether the episode ended in a terminal state."""
    info: dict[str, Any] = field(default_factory=dict[str, Any])
    """`cost`, or `cost_NAME` for each constraint; the same entries in every state."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepResult:
    """The outcome of one step of one environment."""

    obs: Array
    """[O] the true successor."""
    reward: Array
    cost: Array
    """[K]"""
    terminated: Array
    cut: Array
    """Whether the environment itself marks the end as a time limit."""


@dataclass(frozen=True)
class Dynamics:
    """The functions of one environment; a batch is a `vmap` of them."""

    env: Any
    label: str
    facts: Facts
    observation_space: gym.spaces.Box
    action_space: ActionSpace
    native_action_space: gym.Space[Any]
    cost: CostSource
    clip: bool

    def start(self, key: Array) -> Any:
        """The first state of an episode."""
        return jax.tree.map(_strong, self.env.reset(key))

    def observe(self, state: Any) -> Array:
        return observe(state.obs)

    def move(self, state: Any, action: Array) -> tuple[Any, StepResult]:
        """The next state and outcome of a plain action."""
        given = self._native(action)
        # Brax writes into the dictionaries of the state that it is given.
        reached = self._like(self.env.step(jax.tree.map(lambda x: x, state), given), state)
        done = jnp.asarray(reached.done, bool)
        cut = done & jnp.asarray(_info(reached).get("truncation", False), bool)
        cost = _read(self.cost, _transition(state, given, reached))
        obs, reward = self.observe(reached), jnp.asarray(reached.reward, jnp.float32)
        return reached, StepResult(obs, reward, cost, done & ~cut, cut)

    def _native(self, action: Array) -> Array:
        """`foreign.spaces.to_native` in JAX, for one action."""
        space = self.native_action_space
        shaped = action.reshape(space.shape or ())
        if isinstance(space, gym.spaces.Box):
            shaped = jnp.clip(shaped, space.low, space.high) if self.clip else shaped
        elif isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
            shaped = shaped + jnp.asarray(space.start)
        return shaped.astype(jax.dtypes.canonicalize_dtype(dtype_of(space)))

    def _like(self, new: Any, old: Any) -> Any:
        """A step's state with the types of the previous state, as a compiled loop requires."""
        shapes = lambda tree: [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]
        if jax.tree.structure(new) != jax.tree.structure(old) or shapes(new) != shapes(old):
            raise ValueError(
                f"step() of Env {self.label} returned a state of another structure or shape than "
                "its argument: let reset() and step() return the same entries."
            )
        kept = lambda n, o: _strong(n) if jnp.asarray(n).dtype == o.dtype else _cast(n, o)
        return jax.tree.map(kept, new, old)


def _strong(leaf: Any) -> Array:
    """An array whose type is no mere default: `advance` would be compiled again for another."""
    array = jnp.asarray(leaf)
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return array if is_key else jax.lax.convert_element_type(array, array.dtype)


def _cast(new: Any, old: Array) -> Array:
    return jnp.asarray(new).astype(old.dtype)


def observe(obs: Any) -> Array:
    """[O] the numbers of an observation.

    Playground has `state` for the policy and `privileged_state` for critics; `state` is used.
    """
    if isinstance(obs, Mapping) and "state" in obs:
        obs = obs["state"]
    return jnp.concatenate([jnp.ravel(x).astype(jnp.float32) for x in jax.tree.leaves(obs)])


def read_dynamics(
    source: Functional,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | None = None,
    clip: bool = True,
) -> Dynamics:
    """Find sizes and costs from the shapes of a first state, without computing it."""
    label, env = source.label, source.env
    shapes = traced(label, jax.eval_shape, env.reset, jax.random.PRNGKey(0))
    missing = [name for name in ("obs", "reward", "done") if not hasattr(shapes, name)]
    if missing:
        raise ValueError(
            f"the state of Env {label} has no {missing[0]!r}: return one with obs, reward and "
            "done, such as holdfast.envs.functional.states.EnvState."
        )
    _refuse_wrapped(label, shapes)
    native = _native_actions(env, label)
    plain = plain_action_space(native, label)
    size: int = jax.eval_shape(observe, shapes.obs).shape[0]
    seen = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
    action = jnp.asarray(still_action(plain)).reshape(native.shape or ())
    costs = traced(label, _find_cost, label, shapes, action, constraints, cost)
    facts = replace(
        source.facts,
        native_action_space=native,
        cost_parts=costs.parts,
        free_costs=costs.free,
    )
    return Dynamics(env, label, facts, seen, plain, native, costs, clip)


def _refuse_wrapped(label: str, shapes: Any) -> None:
    if "first_obs" in _info(shapes):
        raise ValueError(
            f"Env {label} resets itself (Brax's AutoResetWrapper), which hides the last state of "
            "an episode: pass the environment without that wrapper."
        )


def _native_actions(env: Any, label: str) -> gym.Space[Any]:
    """A Gymnasium space, or [-1, 1] for each of `action_size`, as in Brax."""
    space = getattr(env, "action_space", None)
    if isinstance(space, gym.Space):
        return space
    size = getattr(env, "action_size", None)
    if size is None:
        raise ValueError(
            f"Env {label} declares no action space: set action_size, a number (actions in [-1, "
            "1]), "
            "or action_space, a Gymnasium space."
        )
    return gym.spaces.Box(-1.0, 1.0, (int(size),), np.float32)


def _find_cost(
    label: str,
    shapes: Any,
    action: Array,
    constraints: Sequence[str] | None,
    function: CostFunction | None,
) -> CostSource:
    """As for foreign environments; a function is traced, so it must be written in JAX."""
    if function is None:
        zeros = jax.tree.map(lambda x: np.zeros(x.shape), _info(shapes))
        empty = Transition(None, action, None, 0.0, None, False, False, zeros)
        return find_cost(label, empty, constraints)
    found: list[CostSource] = []

    @functools.wraps(function)
    def as_array(*given: Any) -> Array:
        return jnp.asarray(function(*given), jnp.float32).reshape(-1)

    def trial(state: Any) -> None:
        found.append(find_cost(label, _transition(state, action, state), constraints, as_array))

    jax.eval_shape(trial, shapes)
    return found[0]


def traced(label: str, work: Callable[..., Any], *given: Any) -> Any:
    """Its shapes; JAX's error for a function that cannot be compiled gets a remedy."""
    try:
        return work(*given)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise ValueError(
            f"Env {label} or its cost function cannot be compiled "
            f"({type(error).__name__}: {str(error).splitlines()[0]}): write them with jax.numpy, "
            "with jnp.where in place of a Python `if` on values."
        ) from error


def _info(state: Any) -> dict[str, Any]:
    """Metrics and info in one dictionary, and the whole state for cost functions that need it."""
    return {"state": state, **getattr(state, "metrics", {}), **getattr(state, "info", {})}


def _transition(state: Any, action: Array, reached: Any) -> Transition:
    return Transition(
        state.obs, action, reached.obs, reached.reward, None, reached.done, False, _info(reached)
    )


def _read(source: CostSource, step: Transition) -> Array:
    """[K] `foreign.costs.read_cost` in JAX."""
    if source.kind == "function":
        return source.called(step)
    values = [jnp.ravel(step.info[key]).astype(jnp.float32) for key in source.keys]
    if source.kind == "sum":
        return jnp.sum(jnp.stack([value[0] for value in values])).reshape(1)
    return jnp.concatenate(values)
