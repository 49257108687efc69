# SPDX-License-Identifier: Apache-2.0
"""Training on a Brax task end to end, beside Brax's own PPO on the same machine, in one run.

    pip install -e '.[brax]'
    python benchmarks/brax_speed.py [--task ant] [--backend spring] [--num-envs 64] [--epochs 6]

An epoch has the same size everywhere: `--steps` steps of each environment, in episodes that are as
long. Brax's PPO and ours make four passes over it with ten minibatches each. All networks have two
layers of 64 units. C-TRPO is the default: one step of the policy, three passes of the critics. All
but Brax's measure a cost. Rates are medians of the epochs after the second: ours compiles in the
first, Brax's in both. Their seconds are a column of their own. Brax begins a new episode from a
stored state; ours resets the environment.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp

from holdfast import make_run
from holdfast.process import cores, use_compilation_cache
from holdfast.train import train
from holdfast.train.environment import open_env

MINIBATCHES, PASSES, UNROLL = 10, 4, 20


def effort(obs: Any, action: Any, next_obs: Any) -> Any:
    """A cost for environments that have none."""
    return jnp.square(action).sum()


def ours(args: argparse.Namespace, algorithm: str, **settings: Any) -> list[float]:
    """Seconds of each epoch of a run without files."""
    count = args.num_envs * args.steps
    run = make_run(
        algorithm, env=f"brax/{args.task}", num_envs=args.num_envs, epoch_steps=count,
        steps=args.epochs * count, cost_limit=1000.0, seed=args.seed,
        env_args={"episode_length": args.steps, "backend": args.backend}, **settings,
    )  # fmt: skip
    env = open_env(run, cost=effort, trusted=True)
    seconds, begin = [], time.perf_counter()
    for _ in train(run, env):
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
    env.close()
    return seconds


def brax_ppo(args: argparse.Namespace) -> list[float]:
    """Seconds of each epoch of Brax's PPO, without evaluations."""
    from brax import envs
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo.train import train as train_ppo

    # Brax 0.14.2 calls what newer versions of JAX have removed; here there is one device.
    jax.device_put_replicated = lambda x, _: jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], x)
    count = args.num_envs * args.steps
    seconds: list[float] = []
    train_ppo(
        environment=envs.get_environment(args.task, backend=args.backend),
        num_timesteps=args.epochs * count,
        num_evals=args.epochs + 1,
        run_evals=False,
        episode_length=args.steps,
        num_envs=args.num_envs,
        max_devices_per_host=1,
        unroll_length=UNROLL,
        batch_size=count // (MINIBATCHES * UNROLL),
        num_minibatches=MINIBATCHES,
        num_updates_per_batch=PASSES,
        normalize_observations=True,
        seed=args.seed,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=(64, 64),
            value_hidden_layer_sizes=(64, 64),
        ),
        progress_fn=lambda _, metrics: seconds.append(count / metrics["training/sps"]),
    )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="ant")
    parser.add_argument("--backend", default="spring")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200, help="of each environment and epoch")
    parser.add_argument("--epochs", type=int, default=6, help="at least 3")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.num_envs * args.steps % (MINIBATCHES * UNROLL * args.num_envs):
        parser.error(f"--steps {args.steps} must be a multiple of {MINIBATCHES * UNROLL}.")
    warnings.simplefilter("ignore")  # of Brax's own dependencies
    use_compilation_cache()
    count = args.num_envs * args.steps
    print(f"{platform.machine()}, {cores()} cores, load {os.getloadavg()[0]:.1f} before, ", end="")
    print(
        f"jax {jax.__version__}; brax/{args.task} ({args.backend}), {args.num_envs} environments, "
    )
    print(f"{count:,} steps an epoch\n")
    print("| training | steps/s | of Brax's PPO | first two epochs, s |\n|---|---|---|---|")
    same = {"passes": PASSES, "minibatch": count // MINIBATCHES}
    rows = {
        "Brax's PPO": functools.partial(brax_ppo, args),
        "`ppo`, same passes": functools.partial(ours, args, "ppo", **same),
        "`c-trpo`, default": functools.partial(ours, args, "c-trpo"),
    }
    base = None
    for name, measure in rows.items():
        first, second, *rest = measure()
        rate = count / statistics.median(rest)
        base = base or rate
        print(f"| {name} | {rate:,.0f} | {rate / base:.2f} | {first + second:.1f} |", flush=True)


if __name__ == "__main__":
    main()
