# SPDX-License-Identifier: Apache-2.0
"""Exact finite constrained MDPs, in float64: optima, gradient flows and checks of theorems.

Nothing here needs JAX; deep algorithms on these problems are in `holdfast.exact`.
"""

from holdfast.tabular.best_response import lagrangian_bound
from holdfast.tabular.cmdp import FiniteCMDP, implicit_bias, toy, two_action_policy
from holdfast.tabular.cmdp_files import read_cmdp, write_cmdp
from holdfast.tabular.flow import Geometry, Trajectory, ascend, flow, natural_gradient
from holdfast.tabular.ideal import ideal_update
from holdfast.tabular.instances import (
    gridworld,
    random_cmdp,
    sparse_cmdp,
    tied_cmdp,
    uniform_policy,
)
from holdfast.tabular.lp import InfeasibleLimits, Optimum, interior_policy, optimum
from holdfast.tabular.mirror import bregman_projection, mirror_path
from holdfast.tabular.occupancy import ExactValues, evaluate, occupancy
from holdfast.tabular.parameters import SOFTMAX, Parametrisation, escort, log_linear
from holdfast.tabular.toy_text import CMDPEnv, from_gymnasium
from holdfast.tabular.trust import UpdateResult, update

__all__ = [
    "SOFTMAX",
    "CMDPEnv",
    "ExactValues",
    "FiniteCMDP",
    "Geometry",
    "InfeasibleLimits",
    "Optimum",
    "Parametrisation",
    "Trajectory",
    "UpdateResult",
    "ascend",
    "bregman_projection",
    "escort",
    "evaluate",
    "flow",
    "from_gymnasium",
    "gridworld",
    "ideal_update",
    "implicit_bias",
    "interior_policy",
    "lagrangian_bound",
    "log_linear",
    "mirror_path",
    "natural_gradient",
    "occupancy",
    "optimum",
    "random_cmdp",
    "read_cmdp",
    "sparse_cmdp",
    "tied_cmdp",
    "toy",
    "two_action_policy",
    "uniform_policy",
    "update",
    "write_cmdp",
]
