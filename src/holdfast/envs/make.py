# SPDX-License-Identifier: Apache-2.0
"""One entry for all environments: a name or an object goes in, a VecEnv comes out."""

from collections.abc import Sequence

from holdfast.envs import native
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.batch import Vectorise, open_foreign
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.source import EnvSource, resolve
from holdfast.envs.probe import PROBES
from holdfast.envs.probe_env import ProbeEnv
from holdfast.process import cores


def make_env(
    env: EnvSource | VecEnv,
    num_envs: int,
    *,
    constraints: Sequence[str] | None = None,
    cost: CostFunction | None = None,
    vectorise: Vectorise = "auto",
    workers: int = 0,
    lockstep: bool = True,
    clip_actions: bool = True,
) -> VecEnv:
    """Native task id, probe id, VecEnv (passed through), or anything Gymnasium.

    `workers` processes share the batch; 0: as many as there are cores for a native task that acts
    by itself for whole epochs (`lockstep=False`), since a hand-over at every step rarely pays.
    `clip_actions` concerns Gymnasium: whether actions are clipped to the bounds of the Box.
    """
    if isinstance(env, VecEnv):
        _refuse_for_vec_env(env, num_envs, constraints, cost)
        return env
    if isinstance(env, str) and env in PROBES:
        _refuse_cost(env, cost)
        return ProbeEnv(PROBES[env], num_envs, constraints)
    if isinstance(env, str) and env in native.NATIVE_IDS:
        _refuse_cost(env, cost)
        count = workers or (1 if lockstep else cores())
        count = 0 if count == 1 or num_envs == 1 else count
        names = None if constraints is None else tuple(constraints)
        return native.make(env, num_envs, constraints=names, workers=count)
    source = resolve(env, known_ids)
    if vectorise == "auto" and lockstep and not workers:
        vectorise = "sync"
    return open_foreign(
        source, num_envs, constraints=constraints, cost=cost, vectorise=vectorise,
        workers=workers, clip_actions=clip_actions,
    )  # fmt: skip


def known_ids() -> tuple[str, ...]:
    """The ids of our own environments: native tasks, then probes."""
    return (*native.NATIVE_IDS, *PROBES)


def _refuse_cost(env_id: str, cost: CostFunction | None) -> None:
    if cost is not None:
        raise ValueError(
            f"cost= cannot replace the cost of Env {env_id!r}, which is part of the task: "
            "leave it out, or pass a factory of your own environment."
        )


def _refuse_for_vec_env(
    env: VecEnv, num_envs: int, constraints: Sequence[str] | None, cost: CostFunction | None
) -> None:
    if num_envs != env.num_envs:
        raise ValueError(
            f"num_envs={num_envs}, but the given VecEnv has {env.num_envs}: pass the same number."
        )
    if cost is not None or (constraints is not None and set(constraints) != set(env.cost_names)):
        raise ValueError(
            f"the given VecEnv defines its own costs ({', '.join(env.cost_names)}): "
            "leave constraints= and cost= out."
        )
