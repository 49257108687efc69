# SPDX-License-Identifier: Apache-2.0
"""What a run knows about its cost, and how well it holds the limit.

    python evidence/holding.py policy RUN [--epochs 12]      one fixed policy, fresh epochs
    python evidence/holding.py run RUN [RUN ...] [--figure holding.png]

`policy` takes the newest checkpoint of a run folder, gathers epochs with that policy and tells

    signal share   the part of a squared gradient (in the metric) that two epochs have in common
    explained      variance of held-out discounted cost sums that the cost critic explains
    honest ΔJ      change of the cost that a full step brings, by the gradients of *other* epochs
    promised ΔJ    the same, by the epoch that made the step

`run` reads progress.csv: regret, excursions above the limit, predicted against realised changes.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from holdfast.core.critic import values
from holdfast.core.estimate import gae
from holdfast.core.linearise import Product, conjugate_gradients, linearise
from holdfast.core.policies import Policy
from holdfast.core.types import sampled_batch
from holdfast.envs.rollout import Rollout
from holdfast.records.excursions import calibration, mean_excursion
from holdfast.records.rows import read_rows
from holdfast.runs.folder import load_state, open_folder
from holdfast.train.environment import open_env
from holdfast.train.epoch import collect_epoch
from holdfast.train.state import reset_state

MENU = ((0.99, 0.95), (0.99, 0.8), (0.99, 0.5), (0.999, 0.98))
"""(γ, λ) of the cost advantages that are compared; the last, nearest to J itself, judges."""

# --- one policy: gradients of several epochs ------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """What other epochs say of the steps that each epoch would take."""

    share: float
    """Part of an epoch's squared gradient that is signal."""
    promised: float
    """Mean change by the epoch's own gradient, in units of the judge."""
    honest: float
    """Mean change by the other epochs' gradients."""
    error: float
    """Standard error of `honest` over the epochs."""


def judged(
    made: Array, judge: Array, solve: Product, fisher: Product, radius: float, pool: int = 1
) -> Judgement:
    """Steps of size `radius` down `made` [E, P], `pool` epochs together, judged by `judge` [E, P].

    An epoch never judges a step that it made.
    """
    epochs = made.shape[0]
    own, honest = [], []
    for first in range(epochs - pool + 1):
        inside = np.arange(first, first + pool)
        outside = np.setdiff1d(np.arange(epochs), inside)
        x = solve(-made[inside].mean(0))
        step = jnp.sqrt(2 * radius / jnp.maximum(x @ fisher(x), 1e-30)) * x
        own.append(float(judge[inside].mean(0) @ step))
        honest.append(float(judge[outside].mean(0) @ step))
    error = np.std(honest, ddof=1) / np.sqrt(len(honest)) if len(honest) > 1 else np.nan
    return Judgement(shared(made, solve), float(np.mean(own)), float(np.mean(honest)), float(error))


def shared(rows: Array, solve: Product) -> float:
    """Part of the squared gradient that is common to two epochs: |E row|² / E|row|²."""
    solved = np.stack([np.asarray(solve(row)) for row in rows])
    products = np.asarray(np.asarray(rows) @ solved.T, np.float64)
    n = len(products)
    return float((products.sum() - products.trace()) / (n - 1) / products.trace())


def explained(value: np.ndarray, target: np.ndarray) -> float:
    """1 − Var(target − value) / Var(target)."""
    return float(1 - np.var(target - value) / max(np.var(target), 1e-12))


def cost_advantages(layers: Any, rollout: Rollout, gamma: float, lam: float) -> tuple[Any, Any]:
    """([T, N] advantages of the first cost, [T, N] its values)."""
    return advantages_of(layers, rollout, rollout.cost[..., 0], 1, gamma, lam)


def advantages_of(
    layers: Any, rollout: Rollout, signal: np.ndarray, critic: int, gamma: float, lam: float
) -> tuple[Array, Array]:
    """([T, N] advantages of a signal, [T, N] its values) by the critic of that number."""
    steps, num_envs, size = rollout.obs.shape
    look = lambda obs: values(layers, jnp.asarray(obs).reshape(-1, size))[:, critic].reshape(
        steps, num_envs
    )
    value = look(rollout.obs)
    ahead = jnp.where(jnp.asarray(rollout.terminated), 0.0, look(rollout.next_obs))
    given, done = jnp.asarray(signal, value.dtype), jnp.asarray(rollout.done)
    return gae(given, value, ahead, done, gamma=gamma, lam=lam), value


def gradients_of(policy: Policy, rollout: Rollout, advantages: Array, average: bool) -> Array:
    """[m, P] gradients of E[ratio · advantage] for the columns of `advantages` [B, m]."""
    flat = lambda x: jnp.asarray(x).reshape(advantages.shape[0], -1)
    unknown = jnp.zeros(1)
    batch = sampled_batch(
        flat(rollout.obs),
        flat(rollout.action),
        advantages[:, 0],
        advantages[:, :1],
        cost_return=unknown,
        cost_limit=unknown,
    )
    return linearise(policy, batch, average).gradients(advantages)


def metric_of(policy: Policy, obs: Array, average: bool, damping: float) -> Product:
    """v → (F + damping) v on these observations."""
    size = obs.shape[0]
    unknown = jnp.zeros(1)
    action = jnp.zeros((size, policy.action_dims))
    batch = sampled_batch(
        obs, action, jnp.zeros(size), jnp.zeros((size, 1)), cost_return=unknown, cost_limit=unknown
    )
    fisher = linearise(policy, batch, average).fisher
    return lambda v: fisher(v) + damping * v


def policy_table(path: Path, epochs: int) -> list[dict[str, object]]:
    """A row for each (γ, λ, pool), and one for the reward step."""
    folder = open_folder(path)
    run = folder.run
    state, _ = load_state(folder)
    if state is None:
        raise ValueError(f"'{path}' has no checkpoint yet; train it for an epoch first.")
    env = open_env(run, run.env)
    policy, layers = state.learner.policy, state.learner.critics.layers
    region: Any = getattr(run.algorithm, "region", None)
    average, radius = getattr(region, "kl_average", True), getattr(region, "radius", 0.01)
    frozen, rollouts, costs = state.normaliser, [], []
    state = reset_state(run, env, state, 10**6)
    for epoch in range(epochs):
        state = replace(state, normaliser=frozen)
        rollout, state = collect_epoch(run, env, state, 10**6 + epoch, None)
        rollouts.append(rollout)
        costs.append(float(state.episodes.raw[2]))
    env.close()
    grads, reward, fit = [], [], []
    for rollout in rollouts:
        columns = [centred(cost_advantages(layers, rollout, *pair)[0]) for pair in MENU]
        signal, _ = advantages_of(layers, rollout, rollout.reward, 0, run.gamma, run.lam)
        found = gradients_of(policy, rollout, jnp.stack([*columns, centred(signal)], 1), average)
        grads.append(found[:-1])
        reward.append(found[-1])
        whole, value = cost_advantages(layers, rollout, MENU[0][0], 1.0)
        fit.append(explained(np.asarray(value), np.asarray(whole + value)))
    stacked, climb = jnp.stack(grads, 1), jnp.stack(reward)
    obs = jnp.asarray(rollouts[0].obs).reshape(rollouts[0].reward.size, -1)
    metric = metric_of(policy, obs, average, getattr(region, "damping", 0.1))
    solve: Product = jax.jit(lambda v: conjugate_gradients(metric, v, 15))
    fisher: Product = jax.jit(metric)
    length = float(state.episodes.raw[1])
    judge = length * stacked[-1]
    print(
        f"J = {np.mean(costs):.1f}, sd of an epoch's mean {np.std(costs, ddof=1):.1f}; "
        f"the critic explains {np.mean(fit):.3f} of held-out cost sums\n"
    )
    table: list[dict[str, object]] = []
    for (gamma, lam), rows in zip(MENU, stacked, strict=True):
        for pool in (1, 2, 4):
            if pool < epochs:
                verdict = judged(rows, judge, solve, fisher, radius, pool)
                table.append(line(f"descent γ {gamma} λ {lam}", pool, verdict))
    table.append(line("reward step", 1, judged(-climb, judge, solve, fisher, radius)))
    return table


def centred(x: Array) -> Array:
    return x.reshape(-1) - x.mean()


def line(name: str, pool: int, verdict: Judgement) -> dict[str, object]:
    return {
        "step": name,
        "pooled": pool,
        "share": round(verdict.share, 3),
        "promised ΔJ": round(verdict.promised, 2),
        "honest ΔJ": round(verdict.honest, 2),
        "±": round(verdict.error, 2),
    }


# --- whole runs: what progress.csv says -----------------------------------------------------------


def run_row(path: Path) -> dict[str, object]:
    folder = open_folder(path)
    rows = read_rows(path / "progress.csv")
    column = lambda name: [float(row[name]) for row in rows]
    limit = next(iter(folder.spaces.limits.values()))
    raw = column("ep_cost_raw")
    late = [max(c - limit, 0.0) for c, n in zip(raw, column("env_steps"), strict=True) if n > 3e5]
    out = mean_excursion(raw, limit)
    found: dict[str, object] = {
        "run": path.name,
        "return": round(column("ep_return")[-1], 1),
        "regret raw": round(float(rows[-1]["cost_regret_raw"]), 1),
        "smoothed": round(float(rows[-1]["cost_regret"]), 1),
        "after 0.3M": round(sum(late), 1),
        "recovery": round(float(np.mean(column("recovering"))), 2),
        "excursions": out.number,
        "length": round(out.length, 1),
        "area": round(out.area, 1),
    }
    if "spent" in rows[0]:
        promised, came = np.array(column("spent")[:-1]), np.array(column("realised")[1:])
        gap = float(np.mean(came - promised))
        slope = calibration(promised, came)
        found |= {"realised / predicted": round(slope, 2), "gap": round(gap, 2)}
    return found


def figure(paths: Sequence[Path], out: Path) -> None:
    """Cost against its limit, and predicted against realised changes, run by run."""
    import matplotlib.pyplot as plt

    drawn, axes = plt.subplots(len(paths), 2, figsize=(9, 2.6 * len(paths)), squeeze=False)
    for path, (left, right) in zip(paths, axes, strict=True):
        rows = read_rows(path / "progress.csv")
        steps, cost = ([float(r[k]) for r in rows] for k in ("env_steps", "ep_cost_raw"))
        limit = next(iter(open_folder(path).spaces.limits.values()))
        left.plot(steps, cost)
        left.axhline(limit, color="k", lw=0.8)
        left.fill_between(steps, limit, np.maximum(cost, limit), alpha=0.4)
        left.set(title=path.name, ylabel="cost", xlabel="steps")
        if "spent" in rows[0]:
            right.scatter([float(r["spent"]) for r in rows[:-1]], np.diff(cost), s=8)
            right.axline((0, 0), slope=1, color="k", lw=0.8)
            right.set(xlabel="predicted ΔJ", ylabel="realised ΔJ")
    drawn.tight_layout()
    drawn.savefig(out)


def show(table: Sequence[dict[str, object]]) -> None:
    """Markdown."""
    names = list(table[0])
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in table:
        print("| " + " | ".join(str(row.get(name, "")) for name in names) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("policy", "run"))
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    if args.what == "policy":
        table = [row for path in args.runs for row in policy_table(path, args.epochs)]
    else:
        table = [run_row(path) for path in args.runs]
    show(table)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    if args.figure:
        figure(args.runs, args.figure)


if __name__ == "__main__":
    main()
