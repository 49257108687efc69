# SPDX-License-Identifier: Apache-2.0
"""The deviation register as data, and what our own defaults add.

`REGISTER` says, for every known deviation of the published code from the mathematics, which setting
switches it: the preset `published` takes one side, `corrected` the other. `text` is `corrected` but
for what the paper writes otherwise than the mathematics or its code.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.algorithms import (
    C3PO,
    CPO,
    CSPO,
    CTRPO,
    CUP,
    FOCOPS,
    IPO,
    P3O,
    PCPO,
    SBTRPO,
    Algorithm,
    ComparesCosts,
    InTrustRegion,
)

PresetName = Literal["published", "corrected", "text"]
PRESETS: tuple[PresetName, ...] = typing.get_args(PresetName)


@dataclass(frozen=True)
class Deviation:
    """A line of the register: a setting and its value on either side."""

    code: str
    setting: str
    """A field of `Run`, or `algorithm.<field>[.<field>]`."""
    published: object
    corrected: object
    only: tuple[type, ...] = (object,)
    """The algorithms it concerns, by type; of these, those that have the setting.

    A row on an algorithm's own field names them: another may have a field of that name."""
    unless: tuple[type, ...] = ()
    """Types that it does not concern."""
    task: str = ""
    """Only environments whose id contains this."""

    def concerns(self, algorithm: Algorithm, env: str) -> bool:
        named = isinstance(algorithm, self.only) and not isinstance(algorithm, self.unless)
        return named and self.task in env


REGISTER: tuple[Deviation, ...] = (
    Deviation("D1", "algorithm.region.kl_average", True, False),
    Deviation("D2", "raw_final_obs", True, False),
    Deviation("D3", "zero_first_estimate", True, False),
    Deviation("D4", "cost_estimate", "window", "epoch"),
    Deviation("D5", "standardise_cost", False, True, unless=(ComparesCosts,)),
    Deviation("D6", "algorithm.critic.critic_l2_biases", True, True),
    Deviation("D7", "algorithm.critic.critic_stale_norm", True, False, only=(InTrustRegion,)),
    Deviation("D8", "normalise", "running", "epoch"),
    Deviation("D9", "clip_actions", "never", "always"),
    Deviation("D10", "algorithm.region.kl_order", "old-new", "old-new", only=(CTRPO,)),
    Deviation(
        "D11", "algorithm.cost_scale", "discount", "episode", only=(CTRPO, P3O, SBTRPO, CSPO)
    ),
    Deviation("D13", "algorithm.region.solver", "sum", "woodbury"),
    Deviation("D13", "algorithm.region.cg_eps", 1e-6, 0.0),
    Deviation("D15", "algorithm.start_recovering", True, False, only=(CTRPO,)),
    Deviation(
        "D16", "algorithm.critic.critic_minibatch", 256, 128, only=(CTRPO,), task="PointPush"
    ),
    Deviation("D17", "algorithm.barrier", "entropy", "reversed-entropy", only=(CTRPO,)),
    Deviation("D18", "algorithm.cost_scale", "none", "episode", only=(CPO, PCPO, IPO, C3PO)),
    Deviation("D18", "algorithm.centre", False, True, only=(P3O, C3PO)),
    Deviation("D19", "algorithm.dual", "flipped", "exact", only=(CPO,)),
    Deviation("D20", "algorithm.region.quit_not_finite", True, False, only=(CPO, PCPO)),
    Deviation("D21", "algorithm.sticky", "infeasible", "violated", only=(CPO,)),
    Deviation("D22", "algorithm.reward_direction", "gradient", "natural", only=(PCPO,)),
    Deviation("D23", "algorithm.region.backtracks", 200, 15, only=(PCPO,)),
    Deviation("D23", "algorithm.reward_test", False, True, only=(PCPO,)),
    Deviation("D24", "algorithm.flip_sign", True, False, only=(IPO,)),
    Deviation("D25", "algorithm.mask", "batch", "sample", only=(FOCOPS,)),
    Deviation("D26", "algorithm.rescale", True, False, only=(FOCOPS,)),
    Deviation("D27", "algorithm.multiplier.multiplier_max", 0.2, 2.0, only=(CUP,)),
    Deviation("D28", "algorithm.kappa", 10.0, 20.0, only=(P3O,)),
    Deviation("D29", "algorithm.multiplier.multiplier_rule", "adam", "sgd"),
    Deviation("D29", "algorithm.multiplier.multiplier_lr", 0.035, 0.01),
    Deviation("D30", "algorithm.multiplier.pid_smoothing", 0.95, 0.0),
    Deviation("D30", "algorithm.multiplier.pid_delay", 10, 1),
    Deviation("D30", "algorithm.multiplier.pid_init", 0.001, 0.0),
)
"""D12 is one number for centred advantages; D14 is a name of its own (c-trpo-no-hysteresis); D31 is
the study with noise, where neither side errs: `cost_value_noise` disturbs what the published one
does, `cost_estimate_noise` the estimate of J_c. D32 (the toy's Gramian) and D33 (both regrets are
logged) have no setting. D5 does not concern methods that compare predicted with measured cost: they
need advantages in cost units. D16 is what only the published runs on these tasks used.

D10 is mended by D17: with the reversed barrier both divergences are those of old from new, the
order of the ideal update, while the published ones are of opposite order. In units of an episode
P3O's and C3PO's slack is small beside the noise of a minibatch's mean cost advantage, so D18 takes
that mean off."""

OURS: dict[type, Mapping[str, object]] = {
    object: {"noise_time": 0.0},
    CTRPO: {
        "algorithm.margin_confidence": 0.0,
        "algorithm.landing": 0.0,
        "algorithm.critic.critic_lr": 1e-3,
        "algorithm.critic.critic_decay": False,
        "algorithm.critic.critic_passes": 10,
        "algorithm.critic.critic_first": False,
        "algorithm.critic.critic_apart": False,
    },
}
"""By algorithm type, what our defaults add to the paper, and how all presets switch it off."""


TEXT: dict[type, Mapping[str, object]] = {
    CTRPO: {
        "algorithm.region.kl_order": "new-old",
        "algorithm.region.kl_average": False,
        "algorithm.barrier": "entropy",
        "algorithm.cost_scale": "discount",
        "cost_criterion": "discounted",
    },
}
"""By algorithm type, what the paper writes where it is not `corrected`: KL(π‖π_k) summed over
action dimensions, φ = x log x in the order new from old, and limits on the discounted V_c."""


def preset_values(preset: PresetName, algorithm: Algorithm, env: str) -> dict[str, object]:
    """setting → value, for an algorithm on an environment, whether it has the setting or not."""
    register = {
        row.setting: row.published if preset == "published" else row.corrected
        for row in REGISTER
        if row.concerns(algorithm, env)
    }
    for kind, values in OURS.items():
        if isinstance(algorithm, kind):
            register |= values
    for kind, values in TEXT.items():
        if preset == "text" and isinstance(algorithm, kind):
            register |= values
    return register
