# SPDX-License-Identifier: Apache-2.0
"""`Run`: each default is in its field, each help text under it.

The command line, the docs and `run.json` are generated from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from holdfast.algorithms import CTRPO, Algorithm
from holdfast.core.episodes import CostEstimate
from holdfast.core.limits import Limit, parse_limit, plain_limits
from holdfast.core.networks import ACTIVATIONS
from holdfast.core.noise_time import NoiseSetting
from holdfast.envs.base import Vectorise
from holdfast.register import PresetName
from holdfast.run.checks import check_run

Statistics = Literal["running", "epoch", "none"]


@dataclass(frozen=True)
class Run:
    """Settings of a training run that every algorithm shares."""

    env: str = ""
    """The environment's name: a built-in task, a Gymnasium id, module:Class or file.py:Class."""
    env_args: dict[str, object] = field(default_factory=dict[str, object])
    """Arguments of the environment's constructor."""
    cost: str = ""
    """A cost function by name, module:function or file.py:function; none: the environment's own."""
    algorithm: Algorithm = CTRPO()
    name: str = "c-trpo"
    """The algorithm's registered name."""
    origin: str = ""
    """RUN@EPOCH that supplied the first policy, critics and statistics; none: new ones."""
    preset: PresetName | None = None
    """Settings as in the published code, as the mathematics requires, or as in the paper's text;
    none: Holdfast's defaults."""
    steps: int = 1_000_000
    """Environment steps in all, rounded up to whole epochs."""
    schedule_steps: int = 0
    """Steps over which learning rates decay and penalties grow, and at whose end C-TRPO has its
    final cost-repair phase; 0: the steps of the run.

    A run with a tenth of these steps equals the first tenth of the long run."""
    seed: int = 0
    """Seed of all random numbers."""
    cost_limit: float | None = None
    """b, the largest acceptable mean episode cost, for every constraint without its own limit;
    none: the limit that the task declares (25 for native tasks). Other environments need a
    limit."""
    limits: dict[str, float | str] = field(default_factory=dict[str, float | str])
    """Limits by constraint name, each a number or a text such as "25 worst 5%" (see
    docs/limits.md). Each named cost becomes a separate constraint."""
    num_envs: int = 10
    """Environments that step together."""
    epoch_steps: int = 20_000
    """Environment steps between two updates, all environments together. Without it, epochs of your
    own environment have at least 20 episodes and are at most a tenth of the run."""
    encoder: Literal["mlp", "cnn", "gru"] = "mlp"
    """Network before the dense layers: none (mlp), convolutions for images (cnn), a memory
    (gru)."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers of policy and critics."""
    activation: Annotated[str, ACTIVATIONS] = "tanh"
    """Function between the layers of policy and critics."""
    channels: tuple[int, ...] = (16, 32)
    """With encoder cnn: features of each convolution of 3 x 3 pixels; each halves the image."""
    memory: int = 64
    """With encoder gru: size of the memory."""
    gamma: float = 0.99
    """Discount of the reward."""
    lam: float = 0.95
    """GAE's λ of the reward."""
    cost_gamma: float = 0.99
    """Discount of the costs."""
    cost_lam: float = 0.95
    """GAE's λ of the costs."""
    cost_estimate: CostEstimate = "epoch"
    """Estimate of J_c: from this epoch's steps (epoch), or from the last 50 finished episodes
    (window, as in the published code; it lags behind the policy)."""
    cost_criterion: Literal["undiscounted", "discounted"] = "undiscounted"
    """Whether the limit bounds the plain or the discounted (cost_gamma) sum of an episode's
    costs."""
    zero_first_estimate: bool = False
    """Use J_c = 0 in the first update, as in the published code."""
    standardise_cost: bool = False
    """Divide cost advantages by their standard deviation. Methods that compare predicted with
    measured cost, such as c-trpo, refuse it: they need advantages in units of the cost."""
    normalise: Statistics = "epoch"
    """Statistics that normalise observations: updated at every step (running, as in the published
    code), constant during an epoch (epoch), or none."""
    raw_final_obs: bool = False
    """At time limits, bootstrap from the raw last observation, as in the published code."""
    clip_actions: Literal["auto", "always", "never"] = "auto"
    """Clip actions to the bounds of the action space; auto: only for foreign environments, which
    may refuse other actions. The published code never clips."""
    noise_time: NoiseSetting = "auto"
    """How many steps the noise of actions lasts; 0: independent noise in every step; auto: up to 10
    steps while the cost estimate is uncertain.

    Slow noise makes the effect of actions on an uncertain cost measurable."""
    cost_value_noise: float = 0.0
    """σ of the noise on cost values, for the paper's ablation."""
    cost_estimate_noise: float = 0.0
    """σ of the noise on the J_c that updates use, in units of the limit; logs are without noise."""
    worst_case: bool = False
    """Log an upper bound on the cost change of each update (`epsilon_c`, `worst_case`)."""
    signal_share: bool = False
    """Log the signal share of an epoch's gradients (`share_reward`, `share_cost`)."""
    epoch_reset: Literal["auto", "always", "never"] = "auto"
    """Reset with a seed at the start of each epoch; auto: only if exact resuming needs it."""
    vectorise: Vectorise = "auto"
    """Where foreign environments run: in this process (sync) or in workers (process); auto: the
    faster of the two."""
    workers: int = 0
    """Worker processes that step environments; auto (0): one for each core if that is faster; 1:
    this process only. Results do not depend on it."""
    step_timeout: float = 600.0
    """Seconds until a foreign environment that does not respond is an error; 0: no limit."""
    save_every: int = 1
    """Epochs between two checkpoints."""
    keep: int = 2
    """How many of the newest checkpoints to keep; `--which EPOCH` loads any of them."""
    evaluate_every: int = 0
    """Epochs between two evaluations with fresh episodes, which keep the best safe policy; 0: no
    evaluations."""
    evaluate_episodes: int = 20
    """Fresh episodes of each evaluation while training."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", plain_limits(self.limits))
        check_run(self)

    @property
    def epochs(self) -> int:
        return -(-self.steps // self.epoch_steps)

    @property
    def schedule_epochs(self) -> int:
        return -(-(self.schedule_steps or self.steps) // self.epoch_steps)

    @property
    def statistics(self) -> Statistics:
        """`normalise`, or none if observations are images: pixels are scaled by their bounds."""
        return "none" if self.encoder == "cnn" else self.normalise

    @property
    def cost_discount(self) -> float:
        """Discount of the sum that the limits bound; 1: the plain sum."""
        return self.cost_gamma if self.cost_criterion == "discounted" else 1.0

    @property
    def kinds(self) -> dict[str, Limit]:
        """The limits by constraint name, parsed."""
        return {name: parse_limit(limit, name) for name, limit in self.limits.items()}

    @property
    def constraints(self) -> tuple[str, ...] | None:
        """Names of the costs that the environment must report separately; None: its single cost."""
        return tuple(self.limits) or None
