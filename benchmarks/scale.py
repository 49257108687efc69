# SPDX-License-Identifier: Apache-2.0
"""What scaling costs, each part beside what it could be at best, in one run.

    python benchmarks/scale.py jax [--env brax/ant] [--num-envs 256] [--steps 100] [--rounds 3]

jax: environment steps per second of a training rollout (noise drawn, policy, costs, ends and new
     episodes, statistics, data brought to where the update wants them) beside the same
     environment stepped in a bare `lax.scan` with given actions and nothing else. Rounds of both
     alternate, so a machine that slows down slows both; the figure is the median of each.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from holdfast import make_run
from holdfast.envs.make import find_source
from holdfast.train.collecting import collect_epoch
from holdfast.train.environment import Spaces, open_env
from holdfast.train.state import first_state, reset_state


def effort(obs: Any, action: Any, next_obs: Any) -> Any:
    """A cost for environments that have none."""
    return jnp.square(action).sum()


def training_rollout(env_id: str, num_envs: int, steps: int) -> Callable[[], float]:
    """Makes one epoch's rollout and returns its seconds."""
    run = make_run(
        "c-trpo", env=env_id, num_envs=num_envs, epoch_steps=num_envs * steps, cost_limit=25.0,
        env_args={"episode_length": steps},
    )  # fmt: skip
    env = open_env(run, env_id, effort)
    state = reset_state(run, env, first_state(run, Spaces.of(run, env)), 1)

    def once() -> float:
        begin = time.perf_counter()
        rollout, _ = collect_epoch(run, env, state, 1, None)
        jax.block_until_ready(rollout.obs)
        return time.perf_counter() - begin

    return once


def bare_scan(env_id: str, num_envs: int, steps: int) -> Callable[[], float]:
    """Steps the environments in a scan and returns its seconds."""
    env = find_source(env_id).env
    keys = jax.random.split(jax.random.PRNGKey(0), num_envs)
    state = jax.jit(jax.vmap(env.reset))(keys)
    rng = np.random.default_rng(0)
    action = jnp.asarray(rng.uniform(-1, 1, (steps, num_envs, env.action_size)), jnp.float32)

    @jax.jit
    def scan(state: Any, action: Any) -> Any:
        one = lambda state, action: (jax.vmap(env.step)(state, action), None)
        return jax.lax.scan(one, state, action)[0]

    def once() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(scan(state, action))
        return time.perf_counter() - begin

    return once


def measure_jax(args: argparse.Namespace) -> None:
    size = (args.env, args.num_envs, args.steps)
    sides = {"training rollout": training_rollout(*size), "bare lax.scan": bare_scan(*size)}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for once in sides.values():
        once()  # compiles
    for _ in range(args.rounds):
        for name, once in sides.items():
            seconds[name].append(once())
    rate = {n: args.num_envs * args.steps / statistics.median(s) for n, s in seconds.items()}
    where = f"{len(jax.local_devices())} {jax.default_backend()} device(s), jax {jax.__version__}"
    print(f"{args.env}, {args.num_envs} environments, {args.steps} steps, {where}")
    for name, value in rate.items():
        print(f"  {name:18}{value:12,.0f} steps/s")
    print(f"  share {rate['training rollout'] / rate['bare lax.scan']:.2f} (aim: at least 0.8)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("jax", help="environments in JAX beside a bare lax.scan")
    part.add_argument("--env", default="brax/ant")
    part.add_argument("--num-envs", type=int, default=256)
    part.add_argument("--steps", type=int, default=100)
    part.add_argument("--rounds", type=int, default=3)
    part.set_defaults(measure=measure_jax)
    args = parser.parse_args()
    args.measure(args)


if __name__ == "__main__":
    main()
