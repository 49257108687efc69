# SPDX-License-Identifier: Apache-2.0
"""One file for each algorithm: frozen hyper-parameters, `init`, `improve`, declared `abilities`.

A variant that is only a setting is a constructor function. `ALGORITHMS` maps a name, as in the
published results, to the function that makes the algorithm and to its run settings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jax import Array

from holdfast.algorithms.abilities import (
    ChecksLimits,
    ComparesCosts,
    HasBarrier,
    InMinibatches,
    InTrustRegion,
    RewardOnly,
)
from holdfast.algorithms.c3po import C3PO
from holdfast.algorithms.cmdpo import CMDPO
from holdfast.algorithms.cpo import CPO, cpo_hysteresis
from holdfast.algorithms.cspo import CSPO
from holdfast.algorithms.ctrpo import CTRPO, c_npg, c_trpo_no_hysteresis
from holdfast.algorithms.cup import CUP
from holdfast.algorithms.focops import FOCOPS
from holdfast.algorithms.ipo import IPO
from holdfast.algorithms.p3o import P3O
from holdfast.algorithms.pcpo import PCPO
from holdfast.algorithms.ppo import PPO
from holdfast.algorithms.ppo_lag import PPOLag, cppo_pid
from holdfast.algorithms.sb_trpo import SBTRPO
from holdfast.algorithms.trpo import TRPO, npg
from holdfast.algorithms.trpo_lag import TRPOLag
from holdfast.core.critic import CriticFit
from holdfast.core.first_order import JointCritic
from holdfast.core.policies import Policy
from holdfast.core.types import Batch, Improvement, Learner
from holdfast.settings import nearest

__all__ = [
    "ALGORITHMS",
    "C3PO",
    "CMDPO",
    "CPO",
    "CSPO",
    "CTRPO",
    "CUP",
    "FOCOPS",
    "IPO",
    "P3O",
    "PCPO",
    "PPO",
    "SBTRPO",
    "TRPO",
    "Algorithm",
    "ChecksLimits",
    "ComparesCosts",
    "HasBarrier",
    "InMinibatches",
    "InTrustRegion",
    "PPOLag",
    "Recipe",
    "RewardOnly",
    "TRPOLag",
    "c_npg",
    "cpo_hysteresis",
    "cppo_pid",
    "find",
    "npg",
]


class Algorithm(Protocol):
    """A value with hyper-parameters; `improve` is pure and compiled once."""

    @property
    def critic(self) -> CriticFit | JointCritic:
        """How its critics learn: fitted by the training loop, or within `improve`."""
        ...

    def init(self, constraints: int, policy: Policy) -> Any:
        """The algorithm's own state (a pytree of arrays or None); ValueError if it has no way
        to handle that many constraints."""
        ...

    def improve(self, learner: Learner, batch: Batch, key: Array) -> Improvement:
        """One epoch's learning of the policy; with a `JointCritic` also of the critics."""
        ...


@dataclass(frozen=True)
class Recipe:
    """An entry of `ALGORITHMS`: how the algorithm of a name is made."""

    make: Callable[[], Algorithm]
    summary: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    """Run settings that differ from their defaults for this name."""


ALGORITHMS: dict[str, Recipe] = {
    "c-trpo": Recipe(CTRPO, "trust regions that contain only policies predicted safe"),
    "c-trpo-no-hysteresis": Recipe(c_trpo_no_hysteresis, "C-TRPO, recovery ends at the limit"),
    "c-trpo-noise": Recipe(
        c_trpo_no_hysteresis,
        "C-TRPO (no hysteresis) with noisy cost values, the paper's ablation",
        {"cost_value_noise": 0.1},
    ),
    "c-npg": Recipe(c_npg, "C-TRPO's natural step without a line search"),
    "c-mdpo": Recipe(CMDPO, "C-TRPO's geometry by minibatch steps of mirror descent"),
    "trpo": Recipe(TRPO, "reward only, KL trust region"),
    "npg": Recipe(npg, "reward only, natural gradient without a line search"),
    "cpo": Recipe(CPO, "trust region with linearised constraints, in closed form"),
    "cpo-hysteresis": Recipe(cpo_hysteresis, "CPO, recovery continues below the limit"),
    "pcpo": Recipe(PCPO, "TRPO's step projected onto linearised constraints"),
    "sb-trpo": Recipe(SBTRPO, "steps that reduce the cost and improve the reward together"),
    "trpo-lag": Recipe(TRPOLag, "TRPO on reward minus priced cost"),
    "ppo": Recipe(PPO, "reward only, clipped surrogate in minibatches"),
    "ppo-lag": Recipe(PPOLag, "PPO on reward minus priced cost"),
    "cppo-pid": Recipe(cppo_pid, "PPO on reward minus cost, priced by a PID controller"),
    "focops": Recipe(FOCOPS, "priced advantage, states beyond a KL bound are masked"),
    "cup": Recipe(CUP, "PPO on the reward, then a projection that reduces the cost"),
    "ipo": Recipe(IPO, "PPO inside a logarithmic barrier"),
    "p3o": Recipe(P3O, "PPO with an exact penalty for predicted violation"),
    "cspo": Recipe(CSPO, "PPO on priced cost, corrected by the distance to the limit"),
    "c3po": Recipe(C3PO, "PPO with a penalty beyond a share of the slack"),
}


def find(name: str) -> str:
    """The registered name, case, hyphens and underscores ignored."""
    plain = lambda text: text.lower().replace("-", "").replace("_", "")
    for known in ALGORITHMS:
        if plain(known) == plain(name):
            return known
    hint = nearest(name, ALGORITHMS, "`holdfast list` shows all.")
    raise ValueError(f"unknown algorithm '{name}'{hint}")
