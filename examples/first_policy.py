# SPDX-License-Identifier: Apache-2.0
"""A first policy: train, judge, save.

    python examples/first_policy.py

A point mass is paid for its speed; every step above speed 1 costs 1. The mean cost of an episode
must not exceed 6. The best return at that limit is 25.75.
"""

import argparse

from holdfast import Agent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=100_000, help="steps of training")
parser.add_argument("--episodes", type=int, default=2_000, help="most episodes to judge by")
parser.add_argument("--out", default="runs/first-policy", help="folder for the run")
args = parser.parse_args()

agent = Agent("c-trpo", seed=0)
agent.learn("probe/Speed-v0", args.steps, epoch_steps=4_000, cost_limit=6.0, out=args.out)

result = agent.evaluate(episodes=100, until_decided=True, max_episodes=args.episodes)
print(f"return {result.summary()['return']['mean']:.1f}; safe: {result.verdict}")

action = Agent.load(args.out).predict([0.5])  # later, in another process
print("action at speed 0.5:", action)
