# SPDX-License-Identifier: Apache-2.0
"""C-TRPO in one file: constrained trust region policy optimisation (arXiv:2411.02957).

    maximise  E[ratio · A_r]   subject to   D_C(new, old) ≤ δ
    D_C = mean KL(old, new) + β · D_φ(slack − spent ‖ slack),   φ(x) = x log x
    slack = limit − J_c,   spent = E[(ratio − 1) · A_c] / (1 − γ)

The barrier D_φ is infinite where the predicted cost reaches the limit, so every policy inside the
region is predicted to be safe. Where the measured cost J_c is at its limit or above, no such region
exists: the update then only reduces the cost, until J_c is below h · limit.

    python examples/ctrpo_in_one_file.py --env Pendulum-v1 --speed 4 --limit 10

The environment is any of Gymnasium with a Box of actions. It reports its cost as info["cost"];
where it does not, a step costs 1 if the last number of the observation (Pendulum's speed) is larger
than `--speed`. Nothing is imported from Holdfast; tests/examples compares the updates with the
library's on the same data.
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg


@dataclass(frozen=True)
class Args:
    env: str = "Pendulum-v1"  # a Gymnasium id
    speed: float = 4.0  # speed above which a step costs 1, where the environment reports no cost
    limit: float = 10.0  # the largest acceptable mean cost of an episode
    steps: int = 400_000  # environment steps in all
    epoch_steps: int = 8_000  # environment steps between two updates
    num_envs: int = 10  # environments that step one after the other
    seed: int = 0  # of the networks, the actions and the environments
    hidden: int = 64  # width of both hidden layers
    gamma: float = 0.99  # discount of reward and cost
    lam: float = 0.95  # λ of generalised advantage estimation
    radius: float = 0.01  # δ, the largest divergence of one update
    beta: float = 1.0  # β, weight of the barrier against the KL
    hysteresis: float = 0.8  # h: recovery ends once the cost is below h · limit
    damping: float = 0.1  # added to the diagonal of the divergence's Hessian
    cg_steps: int = 15  # iterations of conjugate gradients
    backtracks: int = 15  # candidates of the line search, each 0.8 times as long as the one before
    critic_lr: float = 1e-3  # learning rate of the critics (Adam)
    critic_passes: int = 10  # passes over an epoch's data
    minibatch: int = 128  # samples in a step of the critics
    critic_l2: float = 1e-3  # weight of the sum of squares of the critics' parameters
    critic_max_norm: float = 40.0  # the joint gradient of both critics is clipped to this norm


# ---- networks and the Gaussian policy


class Policy(NamedTuple):
    layers: list
    log_std: jax.Array


def init_layers(key, sizes):
    """Weights and biases, uniform in ±1/√fan_in."""
    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        key, this = jax.random.split(key)
        both = jax.random.uniform(this, (fan_in + 1, fan_out), minval=-1) / fan_in**0.5
        layers.append((both[:-1], both[-1]))
    return layers


def mlp(layers, x):
    for weight, bias in layers[:-1]:
        x = jnp.tanh(x @ weight + bias)
    return x @ layers[-1][0] + layers[-1][1]


def log_prob(policy, obs, action):
    z = (action - mlp(policy.layers, obs)) / jnp.exp(policy.log_std)
    return (-0.5 * z**2 - policy.log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def kl(old, new, obs):
    """Mean KL(old, new), averaged over the dimensions of the action as in the published code."""
    shift = mlp(old.layers, obs) - mlp(new.layers, obs)
    variance = jnp.exp(2 * (old.log_std - new.log_std))
    spread = variance + (shift / jnp.exp(new.log_std)) ** 2 - 1
    return (0.5 * spread - (old.log_std - new.log_std)).mean()


# ---- advantages and targets


class Data(NamedTuple):
    """An epoch: T steps of N environments; observations are normalised."""

    obs: jax.Array  # [T, N, O]
    next_obs: jax.Array  # [T, N, O] the true successors, also where an episode ends
    action: jax.Array  # [T, N, A]
    signal: jax.Array  # [T, N, 2] reward and cost
    terminated: jax.Array  # [T, N]
    truncated: jax.Array  # [T, N]
    cost_return: jax.Array  # [] mean cost of the episodes that ended


def advantages(args, critics, data):
    """(advantages of reward [B] and cost [B], the critics' targets [B, 2])."""
    value = jnp.stack([mlp(critic, data.obs)[..., 0] for critic in critics], -1)
    following = jnp.stack([mlp(critic, data.next_obs)[..., 0] for critic in critics], -1)
    following = jnp.where(data.terminated[..., None], 0.0, following)
    error = data.signal + args.gamma * following - value
    done = (data.terminated | data.truncated)[..., None]

    def back(tail, x):
        tail = x[0] + args.gamma * args.lam * jnp.where(x[1], 0.0, tail)
        return tail, tail

    _, gae = jax.lax.scan(back, jnp.zeros_like(error[0]), (error, done), reverse=True)
    reward, cost = gae.reshape(-1, 2).T
    reward = (reward - reward.mean()) / (reward.std(ddof=1) + 1e-8)
    return reward, cost - cost.mean(), (gae + value).reshape(-1, 2)


# ---- the updates


def update_policy(args, old, recovering, data, adv_r, adv_c):
    """One step of C-TRPO: (new policy, whether it recovers, numbers to show)."""
    obs, action = (x.reshape(-1, x.shape[-1]) for x in (data.obs, data.action))
    cost, limit = data.cost_return, args.limit
    recovering = (cost >= limit) | (recovering & (cost >= args.hysteresis * limit))
    advantage = jnp.where(recovering, -adv_c, adv_r)
    slack = jnp.where(recovering, 1.0, limit - cost)
    before = log_prob(old, obs, action)
    theta, unravel = ravel_pytree(old)

    def gain(theta, advantage):
        """E[(ratio − 1) · advantage]"""
        return (jnp.expm1(log_prob(unravel(theta), obs, action) - before) * advantage).mean()

    def divergence(theta):
        """D_C of the policy at theta from the old one."""
        share = gain(theta, adv_c) / (1 - args.gamma) / slack  # of the slack that is spent
        left = jnp.where(share < 1, 1 - share, 1.0)
        barrier = jnp.where(share < 1, slack * (left * jnp.log(left) + share), jnp.inf)
        return kl(old, unravel(theta), obs) + jnp.where(recovering, 0.0, args.beta * barrier)

    def curvature(v):
        """(Hessian of D_C at the old policy + damping) · v: the Fisher matrix and the barrier."""
        return jax.jvp(jax.grad(divergence), (theta,), (v,))[1] + args.damping * v

    gradient = jax.grad(gain)(theta, advantage)
    direction, _ = cg(curvature, gradient, tol=1e-10, maxiter=args.cg_steps)
    quadratic = direction @ curvature(direction) + 1e-8 * (advantage**2).mean()
    step = jnp.sqrt(2 * args.radius / quadratic) * direction

    def acceptable(scale):
        new = theta + scale * step
        return (gain(new, advantage) >= 0) & (divergence(new) <= args.radius)

    scales = 0.8 ** jnp.arange(args.backtracks)
    good = jax.lax.map(acceptable, scales)
    scale = jnp.where(good.any(), scales[good.argmax()], 0.0)  # the longest that is acceptable
    new = theta + scale * step
    predicted = cost + gain(new, adv_c) / (1 - args.gamma)
    shown = {"divergence": divergence(new), "predicted cost": predicted, "step": scale}
    return unravel(new), recovering, shown


def update_critics(args, critics, moments, obs, targets, order):
    """Regression on the targets, through the minibatches whose rows are `order` (−1: none)."""
    optimiser = optax.adam(args.critic_lr)

    def loss(critics, rows):
        value = jnp.stack([mlp(critic, obs[rows])[:, 0] for critic in critics], -1)
        error = jnp.where(rows[:, None] >= 0, value - targets[rows], 0.0)
        fit = (error**2).sum() / (rows >= 0).sum()
        return fit + args.critic_l2 * sum((p**2).sum() for p in jax.tree.leaves(critics))

    def step(carry, rows):
        critics, moments = carry
        gradient = jax.grad(loss)(critics, rows)
        norm = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(gradient)))
        clip = jnp.minimum(1.0, args.critic_max_norm / (norm + 1e-6))
        change, moments = optimiser.update(jax.tree.map(lambda g: g * clip, gradient), moments)
        return (optax.apply_updates(critics, change), moments), None

    return jax.lax.scan(step, (critics, moments), order)[0]


def minibatches(args, rng, size):
    """[passes · M, minibatch] row numbers in random order; −1 fills up the last of each pass."""
    none = np.full(-size % args.minibatch, -1)
    orders = [np.append(rng.permutation(size), none) for _ in range(args.critic_passes)]
    return np.concatenate(orders).reshape(-1, args.minibatch)


# ---- training


class Sampler:
    """The environments, and the statistics that observations are normalised by."""

    def __init__(self, args):
        self.args, self.rng = args, np.random.default_rng(args.seed)
        self.envs = [gym.make(args.env) for _ in range(args.num_envs)]
        self.obs = np.stack([env.reset(seed=args.seed + i)[0] for i, env in enumerate(self.envs)])
        self.space, self.act = self.envs[0].action_space, jax.jit(mlp)
        self.sums = np.zeros((args.num_envs, 2))  # return and cost of the running episodes
        size = self.obs.shape[1]
        self.mean, self.var, self.count = np.zeros(size), np.ones(size), 1e-4

    def see(self, obs):
        return ((obs - self.mean) / np.sqrt(self.var + 1e-8)).astype(np.float32)

    def collect(self, policy):
        """(an epoch of data, mean return of the episodes that ended in it)."""
        low, high, std = self.space.low, self.space.high, np.exp(policy.log_std)
        rows, raw, ended = [], [], []
        for _ in range(self.args.epoch_steps // len(self.envs)):
            seen = self.see(self.obs)
            noise = self.rng.standard_normal((len(self.envs), len(std)), np.float32)
            action = np.asarray(self.act(policy.layers, seen)) + std * noise
            taken = np.clip((low + high) / 2 + (high - low) / 2 * action, low, high)
            following, signal = self.obs.copy(), np.zeros((len(self.envs), 2), np.float32)
            ends = np.zeros((2, len(self.envs)), bool)  # terminated, truncated
            for i, env in enumerate(self.envs):
                following[i], reward, *ends[:, i], info = env.step(taken[i])
                signal[i] = reward, info.get("cost", abs(following[i, -1]) > self.args.speed)
                self.sums[i] += signal[i]
                self.obs[i] = following[i]
                if ends[:, i].any():
                    ended.append(self.sums[i].copy())
                    self.sums[i], self.obs[i] = 0.0, env.reset()[0]
            rows.append((seen, self.see(following), action, signal, *ends))
            raw.append(self.obs.copy())
        if not ended:
            raise SystemExit("no episode ended in an epoch: raise --epoch-steps")
        self.merge(np.concatenate(raw))
        mean_return, mean_cost = np.mean(ended, 0)
        return Data(*map(np.stack, zip(*rows, strict=True)), np.float32(mean_cost)), mean_return

    def merge(self, obs):
        """The statistics of all observations so far, by the parallel-variance formula."""
        n, total, shift = len(obs), self.count + len(obs), obs.mean(0) - self.mean
        spread = self.var * self.count + obs.var(0) * n + shift**2 * (self.count * n / total)
        self.mean, self.var, self.count = self.mean + shift * (n / total), spread / total, total


def main(args):
    """Train; returns the policy and the rows that were printed."""
    sampler = Sampler(args)
    actions, size = sampler.space.shape[0], sampler.obs.shape[1]
    keys = jax.random.split(jax.random.key(args.seed), 3)
    widths = (size, args.hidden, args.hidden)
    policy = Policy(init_layers(keys[0], (*widths, actions)), jnp.zeros(actions))
    critics = [init_layers(key, (*widths, 1)) for key in keys[1:]]  # reward, cost
    moments, recovering, regret, table = optax.adam(args.critic_lr).init(critics), False, 0.0, []
    estimate = jax.jit(advantages, static_argnums=0)
    improve, fit = (jax.jit(f, static_argnums=0) for f in (update_policy, update_critics))
    for epoch in range(1, -(-args.steps // args.epoch_steps) + 1):
        data, mean_return = sampler.collect(policy)
        adv_r, adv_c, targets = estimate(args, critics, data)
        policy, recovering, shown = improve(args, policy, recovering, data, adv_r, adv_c)
        rows = data.obs.reshape(-1, size)
        order = minibatches(args, sampler.rng, len(rows))
        critics, moments = fit(args, critics, moments, rows, targets, order)
        regret += max(0.0, float(data.cost_return) - args.limit)
        table.append({"steps": epoch * args.epoch_steps, "return": mean_return})
        table[-1] |= {"cost": data.cost_return, "regret": regret, **shown}
        words = "  ".join(f"{name} {float(value):.4g}" for name, value in table[-1].items())
        print(words + ("  recovering" if recovering else ""), flush=True)
    return policy, table


if __name__ == "__main__":
    main(tyro.cli(Args))
