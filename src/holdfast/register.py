# SPDX-License-Identifier: Apache-2.0
"""The deviation register as data, and what our own defaults add.

`REGISTER` lists every known deviation of the published code from the mathematics with the setting
that switches it: the preset `published` takes one value, `corrected` the other. `text` is
`corrected`, except where the paper's text differs from both the mathematics and its code.
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
    """The types of algorithm it applies to; of these, those that have the setting.

        A row on an algorithm's own field names its type: another may have a field of that name."""
    unless: tuple[type, ...] = ()
    """Types that it does not apply to."""
    task: str = ""
    """Only environments whose id contains this."""

    def applies_to(self, algorithm: Algorithm, env: str) -> bool:
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
"""Some codes have no row. D12 makes no difference for centred advantages. D14 is the algorithm
`c-trpo-no-hysteresis`. D31 is the study with noise, where both sides are correct:
`cost_value_noise` adds noise to the cost values, as published, `cost_estimate_noise` to the
estimate of J_c. D32 (the toy's Gramian) and D33 (both regrets are logged) have no setting.

D5 does not apply to methods that compare predicted with measured cost: they need advantages in cost
units. Only the published runs on these tasks used D16. D17 also corrects D10: with the reversed
barrier both divergences are those of old from new, the order of the ideal update. The published
ones have opposite orders. In units of an episode P3O's and C3PO's slack is small beside the noise
of a minibatch's mean cost advantage, so D18 subtracts that mean."""

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
"""Algorithm type → settings that our defaults add to the paper, with the values that switch them
off in all presets."""


TEXT: dict[type, Mapping[str, object]] = {
    CTRPO: {
        "algorithm.region.kl_order": "new-old",
        "algorithm.region.kl_average": False,
        "algorithm.barrier": "entropy",
        "algorithm.cost_scale": "discount",
        "cost_criterion": "discounted",
    },
}
"""Algorithm type → settings of the paper's text that differ from `corrected`. KL(π‖π_k) is summed
over action dimensions, φ = x log x in the order new from old, limits are on the discounted V_c."""


def preset_values(preset: PresetName, algorithm: Algorithm, env: str) -> dict[str, object]:
    """setting → value, for an algorithm on an environment, whether it has the setting or not."""
    register = {
        row.setting: row.published if preset == "published" else row.corrected
        for row in REGISTER
        if row.applies_to(algorithm, env)
    }
    for kind, values in OURS.items():
        if isinstance(algorithm, kind):
            register |= values
    for kind, values in TEXT.items():
        if preset == "text" and isinstance(algorithm, kind):
            register |= values
    return register
