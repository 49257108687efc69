# SPDX-License-Identifier: Apache-2.0
"""Compare two algorithms over seeds, and plot them with pandas.

pip install pandas
python examples/compare_and_plot.py
"""

import argparse

import pandas as pd
from matplotlib.figure import Figure

from holdfast import Agent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=60_000, help="steps of each run")
parser.add_argument("--seeds", type=int, default=3, help="runs of each algorithm")
parser.add_argument("--out", default="compare.png", help="file for the picture")
args = parser.parse_args()

tables = []
for name in ("c-trpo", "trpo-lag"):
    for seed in range(args.seeds):
        agent = Agent(name, seed=seed)
        agent.learn("probe/Speed-v0", args.steps, epoch_steps=4_000, cost_limit=6.0)
        tables.append(pd.DataFrame(agent.metrics).assign(algorithm=name, seed=seed))
runs = pd.concat(tables)

last = runs[runs.env_steps == runs.env_steps.max()]
print(last.groupby("algorithm")[["ep_return", "ep_cost", "cost_regret_raw"]].mean().round(2))

figure = Figure(figsize=(9, 3), layout="constrained")
columns = {"ep_return": "return", "ep_cost_raw": "cost", "cost_regret_raw": "regret"}
for axis, (column, title) in zip(figure.subplots(1, 3), columns.items(), strict=True):
    mean = runs.pivot_table(column, "env_steps", "algorithm")  # the mean over the seeds
    mean.plot(ax=axis, title=title, xlabel="environment steps", legend=column == "ep_return")
    if column == "ep_cost_raw":
        axis.axhline(6.0, color="black", linestyle="--")
figure.savefig(args.out)
print(f"wrote {args.out}")
