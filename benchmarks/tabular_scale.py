# SPDX-License-Identifier: Apache-2.0
"""How the exact side grows: time and memory of values, optima and C-NPG steps.

    python benchmarks/tabular_scale.py [--states 400 1000 10000 100000] [--limit SECONDS]
Each measurement runs in its own process, so that its peak memory is its own; times are processor
seconds of one thread, which other work on the machine hardly distorts. Methods:
    values      exact evaluation of a policy on the sparse kernel
    columns     constrained optimum by column generation, what `optimum` uses at this size
    highs       the same as one sparse linear programme
    dense       the same programme with dense rows
    naive       scipy's linprog called as its manual shows: dense rows, default options
    step        one C-NPG step without the Jacobian
    jacobian    the same step from the occupancy's Jacobian and a dense pseudo-inverse
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from holdfast.tabular.cmdp import FiniteCMDP, Floats, check_policy
from holdfast.tabular.flow import Geometry, direction
from holdfast.tabular.instances import gridworld, sparse_cmdp, uniform_policy
from holdfast.tabular.lp import flow_matrix, optimum
from holdfast.tabular.occupancy import evaluate, softmax_jacobian
from holdfast.tabular.potentials import POTENTIALS
from holdfast.tabular.resolvent import Resolvent

LARGEST = {"dense": 1_000, "naive": 1_000, "jacobian": 400, "highs": 10_000}
"""States beyond which a method is not tried: its memory, or its time, grows out of hand."""
METHODS = ("values", "columns", "highs", "dense", "naive", "step", "jacobian")


def instance(kind: str, states: int) -> FiniteCMDP:
    """A random graph with four successors for each action, or a square gridworld with hazards."""
    if kind == "random":
        return sparse_cmdp(np.random.default_rng(0), states)
    side = int(np.sqrt(states))
    cells = np.random.default_rng(0).choice(list(".H"), p=[0.85, 0.15], size=(side, side))
    cells[0, 0], cells[-1, -1] = "S", "G"
    return gridworld(tuple("".join(row) for row in cells), cost_limit=1e-3, gamma=0.99)


def by_dense_rows(cmdp: FiniteCMDP, **options: object) -> float:
    result = linprog(
        -cmdp.reward.reshape(-1),
        A_ub=cmdp.cost.reshape(cmdp.num_constraints, -1),
        b_ub=cmdp.cost_limit,
        A_eq=flow_matrix(cmdp).toarray(),
        b_eq=(1 - cmdp.gamma) * cmdp.initial,
        **options,
    )
    return -float(result.fun)


def occupancy_jacobian(cmdp: FiniteCMDP, policy: ArrayLike) -> Floats:
    """∂d/∂θ [S·A, S·A] for softmax logits: dρ = γ M (dP_π)ᵀ ρ, then dd = dρ·π + ρ·dπ."""
    pi = check_policy(cmdp, policy)
    states, actions = pi.shape
    resolvent = Resolvent.of(cmdp, pi)
    visits = resolvent.backward((1.0 - cmdp.gamma) * cmdp.initial)
    dense = cmdp.as_dense().transition
    towards = dense - np.einsum("sa,sat->st", pi, dense)[:, None, :]
    source = (visits[:, None, None] * pi[:, :, None] * towards).reshape(-1, states)
    d_visits = cmdp.gamma * resolvent.backward(source.T)
    jacobian = (pi[:, :, None] * d_visits[:, None, :]).reshape(states, actions, states, actions)
    here = np.arange(states)
    jacobian[here, :, here, :] += visits[:, None, None] * softmax_jacobian(pi)
    return jacobian.reshape(states * actions, states * actions)


def conditional_entropy_hessian(d: Floats) -> Floats:
    """Hess Φ_K at d [S·A, S·A]: block diagonal in s with entries 1[a=a']/d(s,a) − 1/d(s)."""
    states, actions = d.shape
    hessian = np.zeros((states, actions, states, actions))
    here = np.arange(states)
    blocks = np.eye(actions) / d[:, :, None] - 1.0 / d.sum(axis=1)[:, None, None]
    hessian[here, :, here, :] = blocks
    return hessian.reshape(states * actions, states * actions)


def by_jacobian(cmdp: FiniteCMDP) -> float:
    policy = uniform_policy(cmdp)
    found, jacobian = evaluate(cmdp, policy), occupancy_jacobian(cmdp, policy)
    metric = conditional_entropy_hessian(found.occupancy)
    normal = cmdp.cost.reshape(cmdp.num_constraints, -1)
    weight = np.diag(POTENTIALS["entropy"].curvature(found.slack))
    gramian = jacobian.T @ (metric + normal.T @ weight @ normal) @ jacobian
    x = np.linalg.lstsq(gramian, jacobian.T @ cmdp.reward.reshape(-1), rcond=1e-12)[0]
    return float(np.linalg.norm(x))


def by_advantages(cmdp: FiniteCMDP) -> float:
    found = evaluate(cmdp, uniform_policy(cmdp))
    return float(np.linalg.norm(direction(cmdp, found, Geometry())))


RUN: dict[str, Callable[[FiniteCMDP], float]] = {
    "values": lambda cmdp: evaluate(cmdp, uniform_policy(cmdp)).reward_return,
    "columns": lambda cmdp: optimum(cmdp, "columns").reward_return,
    "highs": lambda cmdp: optimum(cmdp, "highs").reward_return,
    "dense": lambda cmdp: by_dense_rows(cmdp, method="highs-ds"),
    "naive": by_dense_rows,
    "step": by_advantages,
    "jacobian": by_jacobian,
}


def measure(kind: str, states: int, method: str) -> None:
    """Time one method once in this process and print the result as JSON."""
    cmdp = instance(kind, states)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    answer = RUN[method](cmdp)
    seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"answer": answer, "seconds": seconds, "megabytes": (after - before) / 1024}))


def cell(kind: str, states: int, method: str, limit: float) -> str:
    command = [sys.executable, __file__, "--one", kind, str(states), method]
    single = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=True, env=single
        )
    except subprocess.TimeoutExpired:
        return f"> {limit:.0f} s"
    found = json.loads(done.stdout)
    return f"{found['seconds']:.3g} s, {found['megabytes']:.0f} MB, {found['answer']:.6f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Scale of the exact solvers.")
    parser.add_argument("--states", type=int, nargs="+", default=[400, 1_000, 10_000, 100_000])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds allowed for each cell")
    parser.add_argument("--kinds", nargs="+", default=["random", "grid"])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.one[0], int(args.one[1]), args.one[2])
        return
    print("| kernel | states | method | time, extra memory, answer |\n|---|---|---|---|")
    for kind in args.kinds:
        for states in args.states:
            for method in METHODS:
                if states <= LARGEST.get(method, states):
                    result = cell(kind, states, method, args.limit)
                    print(f"| {kind} | {states} | {method} | {result} |", flush=True)


if __name__ == "__main__":
    main()
