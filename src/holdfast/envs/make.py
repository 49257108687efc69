# SPDX-License-Identifier: Apache-2.0
"""Make a VecEnv from any name or object of an environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gymnasium.envs.registration import EnvSpec

from holdfast.envs import native
from holdfast.envs.base import VecEnv, Vectorise
from holdfast.envs.budget import Budgets, with_budgets
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.env import open_foreign
from holdfast.envs.foreign.references import load
from holdfast.envs.foreign.source import (
    EnvSource,
    Factory,
    is_instance,
    label_of,
    open_single,
    resolve,
)
from holdfast.envs.foreign.vector import ForeignVectorEnv, bare, is_vector_env
from holdfast.envs.functional.functional_source import (
    Functional,
    described,
    is_functional,
    is_suite_id,
    open_suite,
)
from holdfast.envs.probe import PROBES, ProbeEnv
from holdfast.envs.worker import Start
from holdfast.process import cores


def make_env(
    env: EnvSource | VecEnv | Functional,
    num_envs: int,
    *,
    env_args: Mapping[str, object] | None = None,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | str | None = None,
    vectorise: Vectorise = "auto",
    workers: int = 0,
    lockstep: bool = True,
    clip_actions: bool = True,
    timeout: float = 0.0,
    cluster: str | None = None,
    budgets: Budgets | None = None,
) -> VecEnv:
    """A VecEnv from a native or probe id, a batch (VecEnv, VectorEnv), or a source of environments.

    `env` may also be the name of a class or function (see `foreign.references`), and so may `cost`;
    `env_args` are the arguments to make one. A factory with the parameter `num_envs` makes a whole
    batch. `workers` processes step the batch. With 0 a native task that acts by itself for whole
    epochs (`lockstep=False`) gets one for each core; in lockstep workers are rarely faster.
    `clip_actions` and `timeout` concern foreign environments: whether actions are clipped to the
    bounds of the Box, and the time limit of a step in seconds (0: none). Functional environments
    (JAX) are divided among the devices; one instance is enough for a batch. With a `cluster`, the
    address of Ray, the workers are actors there. The remaining share of the `budgets` is appended
    to each observation.
    """
    start = _starts(cluster, env, num_envs, workers, lockstep)
    costs: CostFunction | None = load(cost) if isinstance(cost, str) else cost
    found = classify(env, num_envs, env_args)
    match found.kind:
        case "probe":
            _refuse_for_task(found.source, costs, env_args)
            batch = ProbeEnv(PROBES[found.source], num_envs, constraints)
            return with_budgets(batch, budgets)
        case "native":
            _refuse_for_task(found.source, costs, env_args)
            count = _native_workers(num_envs, workers, lockstep, start)
            names = None if constraints is None else tuple(constraints)
            return native.make(
                found.source, num_envs, constraints=names, workers=count, start=start,
                budgets=budgets,
            )  # fmt: skip
        case "batch":
            _refuse_another_number(found.source, num_envs)
            if isinstance(found.source, VecEnv):
                _refuse_for_vec_env(found.source, constraints, costs)
                return with_budgets(found.source, budgets)
            made = found.first is not None
            batch = ForeignVectorEnv(found.source, constraints, costs, clip_actions, made, timeout)
            return with_budgets(batch, budgets)
        case "functional":
            _refuse_for_functional(found.source, vectorise, workers)
            return _make_functional(
                found.source, num_envs, constraints, costs, clip_actions, budgets
            )
        case "single":
            if vectorise == "auto" and lockstep and not workers:
                vectorise = "sync"
            return open_foreign(
                found.source, num_envs, constraints=constraints, cost=costs, vectorise=vectorise,
                workers=workers, clip_actions=clip_actions, timeout=timeout, first=found.first,
                start=start, budgets=budgets,
            )  # fmt: skip


Kind = Literal["native", "probe", "batch", "functional", "single"]


@dataclass(frozen=True)
class Classified:
    """Which kind of environment a source is, and what opens it."""

    kind: Kind
    source: Any
    """Its id (native, probe), the batch, a `Functional`, or what makes single environments."""
    first: Any = None
    """What a function made to show its kind: the batch, or the first environment."""


def classify(
    env: EnvSource | VecEnv | Functional, num_envs: int, args: Mapping[str, object] | None = None
) -> Classified:
    """The kind of an environment; what a function makes is known only once it has made one."""
    if isinstance(env, str) and is_task(env):
        return Classified("probe" if env in PROBES else "native", env)
    if is_vectorised(env):
        return Classified("batch", env)
    _refuse_part_of_vec_env(env)
    source = find_source(env, args)
    if isinstance(source, Functional):
        return Classified("functional", source)
    if not isinstance(source, Factory | EnvSpec):
        return Classified("single", source)
    whole = isinstance(source, Factory) and source.takes_num_envs
    first = source(num_envs=num_envs) if isinstance(source, Factory) and whole else None
    if first is None:
        first = open_single(source)
    if is_vectorised(first):
        return Classified("batch", first, first)
    if is_functional(first):
        return Classified("functional", described(first, label_of(source)))
    return Classified("single", source, first)


def find_source(
    env: EnvSource | VecEnv | Functional, args: Mapping[str, object] | None = None
) -> EnvSource | Functional:
    """Resolve a name or object to a functional environment, or as `resolve`."""
    if isinstance(env, Functional):
        return env
    if is_suite_id(env):
        return open_suite(env, args)
    source = resolve(env, known_ids, args)
    if isinstance(source, Factory) and is_functional(source.make):
        return described(source(), label_of(source))
    return described(source) if is_instance(source) and is_functional(source) else source


def is_vectorised(env: object) -> bool:
    """Whether it is a batch: a VecEnv, or Gymnasium's VectorEnv."""
    return not isinstance(env, type) and (isinstance(env, VecEnv) or is_vector_env(env))


def is_given(env: object) -> bool:
    """Whether it is an environment that the user made and must close."""
    return is_vectorised(env) or is_instance(env)


def is_task(name: str) -> bool:
    """Whether it is the id of a native task or a probe."""
    return name in PROBES or (":" not in name and name in known_ids())


def _starts(
    cluster: str | None, env: object, num_envs: int, workers: int, lockstep: bool
) -> Start | None:
    """The function that starts workers on a cluster, if one is named."""
    if cluster is None:
        return None
    if lockstep or not workers:
        remedy = "give --normalise epoch" if lockstep else "give their number with --workers N"
        raise ValueError(
            f"--cluster {cluster} needs workers that act by themselves for whole epochs: {remedy}."
        )
    if is_given(env) or is_suite_id(env) or env in PROBES:
        raise ValueError(
            f"--cluster {cluster} cannot be used, as this environment cannot be "
            "distributed: leave it out."
        )
    from holdfast.envs.ray_workers import on_cluster

    return on_cluster(cluster, min(workers, num_envs))


def _native_workers(num_envs: int, workers: int, lockstep: bool, start: Start | None) -> int:
    """How many processes share a native task; 0: this one alone."""
    count = workers or (1 if lockstep else cores())
    return 0 if (count == 1 or num_envs == 1) and start is None else count


def _make_functional(
    source: Functional,
    num_envs: int,
    constraints: Sequence[str] | None,
    cost: CostFunction | None,
    clip_actions: bool,
    budgets: Budgets | None,
) -> VecEnv:
    from holdfast.envs.functional.functional_budget import (
        BudgetedDynamics,  # only here is JAX needed to open
    )
    from holdfast.envs.functional.functional_env import FunctionalEnv
    from holdfast.envs.functional.states import read_dynamics

    dynamics = read_dynamics(source, constraints, cost, clip_actions)
    if budgets is not None:
        dynamics = BudgetedDynamics.of(dynamics, budgets)
    return FunctionalEnv(dynamics, num_envs)


def known_ids() -> tuple[str, ...]:
    """The ids of native tasks, then of probes."""
    return (*native.NATIVE_IDS, *PROBES)


def task_groups() -> dict[str, dict[str, str]]:
    """Title → environments of that kind → a line on each."""
    return {
        "Run, but not too fast (velocity tasks)": native.summaries("velocity"),
        "Find the way past hazards (navigation tasks)": native.summaries("navigation"),
        "Probes: tiny tasks with a known optimum": {n: p.summary for n, p in PROBES.items()},
    }


def describe(env_id: str) -> str:
    """A description of one environment."""
    return f"{env_id}: {PROBES[env_id]}" if env_id in PROBES else str(native.describe(env_id))


def _refuse_for_task(
    env_id: str, cost: CostFunction | None, env_args: Mapping[str, object] | None
) -> None:
    if cost is not None or env_args:
        what = "env_args= cannot change" if env_args else "cost= cannot replace the cost of"
        raise ValueError(
            f"{what} Env {env_id!r}, which is part of the task: leave it out, or pass a factory of "
            "your own environment."
        )


def _refuse_part_of_vec_env(env: object) -> None:
    missing = [name for name in VecEnv.__annotations__ if not hasattr(env, name)]
    if hasattr(env, "can_snapshot") and missing:
        raise ValueError(
            f"Env {type(env).__name__!r} is no VecEnv yet, as it has no {', '.join(missing)}: add "
            "it (facts = holdfast.envs.base.Facts() declares nothing)."
        )


def _refuse_for_functional(source: Functional, vectorise: Vectorise, workers: int) -> None:
    if workers > 1 or vectorise == "process":
        raise ValueError(
            f"workers={workers} and vectorise={vectorise!r} do not fit Env {source.label}, which "
            "runs on JAX's devices: leave both out."
        )


def num_envs_of(env: Any) -> int:
    """The number of environments in a user's batch."""
    return int(bare(env).num_envs)


def _refuse_another_number(env: Any, num_envs: int) -> None:
    if num_envs != num_envs_of(env):
        raise ValueError(
            f"num_envs={num_envs}, but this {type(bare(env)).__name__} has {num_envs_of(env)}: "
            "pass the same number, or let what makes it take num_envs."
        )


def _refuse_for_vec_env(
    env: VecEnv, constraints: Sequence[str] | None, cost: CostFunction | None
) -> None:
    if cost is not None or (constraints is not None and set(constraints) != set(env.cost_names)):
        raise ValueError(
            f"the given VecEnv defines its own costs ({', '.join(env.cost_names)}): "
            "leave constraints= and cost= out."
        )
