# SPDX-License-Identifier: Apache-2.0
"""Several limits: each cost has its own.

    python examples/several_limits.py

A tank is paid for its level. Spilling and running dry cost 1 a step each, and each of them has a
limit by its name.
"""

import argparse

from holdfast import Agent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=100_000, help="steps of training")
parser.add_argument("--tank", default="docs/examples/tank.py:Tank", help="FILE:CLASS of the tank")
args = parser.parse_args()

limits = {"spill": 2.0, "dry": 1.0}
agent = Agent("c-trpo").learn(args.tank, args.steps, epoch_steps=4_000, limits=limits)

last = agent.metrics[-1]  # one row for each epoch, as in progress.csv
for cost, limit in limits.items():
    seen, regret = last[f"ep_cost/{cost}"], last[f"cost_regret/{cost}"]
    print(f"{cost}: {seen:.2f} of {limit:g} in the last epoch, {regret:.1f} above it in all")

print(agent.evaluate(episodes=100).verdict)
