# SPDX-License-Identifier: Apache-2.0
"""The settings of a run and of all algorithms as typed keywords of `Agent` and `learn`.

Written by .ci/arguments.py from the settings themselves; a test compares.
"""

from collections.abc import Mapping
from typing import Literal, TypedDict


class SettingArguments(TypedDict, total=False):
    """`holdfast list ALGORITHM` explains each; an algorithm refuses the settings of others."""

    limits: float | Mapping[str, float]
    """Limits by constraint name; one number: the limit of the one cost (or of each)."""
    env_args: dict[str, object]
    """Arguments to make it with."""
    beta: float | tuple[float, ...]
    """β, weight of the barrier against the KL; several values: one for each constraint."""
    barrier: str
    """Generator φ of the barrier: entropy (x log x, published), log (−log x), reversed-entropy
    (x log x reversed), or one of your own, file.py:name."""
    hysteresis: float
    """h: recovery of a constraint ends once its cost is below h·limit; 1 switches it off."""
    cost_scale: Literal["discount", "episode", "none"]
    """κ: what a mean cost advantage counts in units of the episode cost."""
    margin_confidence: float
    """z: the slack is measured from J_c + z standard errors; 0 (published) is off."""
    spent_confidence: float
    """z: the accept test adds z standard errors to the predicted cost change; 0 is off."""
    start_recovering: bool
    """Begin in recovery, as the published code, instead of by the first cost estimate."""
    landing: float
    """Last share of a run, which near a limit only repairs, to h·limit; 0 (published) is off."""
    line_search: bool
    """False takes the natural step and only keeps it inside the linearised safe set: C-NPG."""
    radius: float
    """δ, the largest divergence of one policy update."""
    kl_average: bool
    """Average the KL over action dimensions (published) instead of summing it."""
    kl_order: Literal["old-new", "new-old"]
    """KL(old ‖ new) (published) or KL(new ‖ old) (the text); equal to second order."""
    solver: Literal["woodbury", "sum", "dense"]
    """Barriers inverted exactly within CG, CG on the plain sum (published), or all dense."""
    damping: float
    """Added to the diagonal of the Fisher matrix."""
    damping_rule: Literal["absolute", "relative"]
    """Whether damping counts as it is or in units of the Fisher matrix's mean diagonal."""
    cg_steps: int
    """Iterations of conjugate gradients."""
    cg_eps: float
    """Added to CG's denominators; the published runs used 1e-6."""
    search: Literal["backtrack", "bracket"]
    """Shorten the step until accepted, or bracket the longest acceptable one (also upward)."""
    backtracks: int
    """Candidates that the search tries."""
    shrink: float
    """Factor between two candidates of the backtracking search."""
    quit_not_finite: bool
    """End the backtracking at a KL that is not finite, as the published CPO and PCPO."""
    pessimism: float
    """Divergence at which gradients are seen from where they look worse (SHAPO: 1e-5); 0 is off."""
    critic_lr: float
    """Learning rate of Adam."""
    critic_passes: int
    """Passes over the batch in each epoch."""
    critic_decay: bool
    """Let the learning rate fall linearly to 0 within each fit."""
    critic_minibatch: int
    """Samples in a minibatch; the last one of a pass is smaller."""
    critic_l2: float
    """Weight of the sum of squares of all parameters, biases included."""
    critic_l2_biases: bool
    """Whether that sum includes the biases."""
    critic_max_norm: float
    """The joint gradient of all critics, or each one's own (`critic_apart`), is clipped to this."""
    critic_apart: bool
    """Clip each critic's gradient by itself, and fit each critic in a thread of its own."""
    critic_stale_norm: bool
    """Let the policy's last gradient count in that norm, as the published runs did."""
    critic_reward_weight: float
    """Weight of the reward critic's loss beside those of the costs."""
    critic_first: bool
    """Fit to an epoch before its advantages are computed, instead of for the next one. Only
    where it has at least as many samples as a critic has parameters, which could otherwise
    learn it by heart."""
    schedule_steps: int
    """Steps over which rates decay, penalties grow and C-TRPO lands; 0: those of the run. A run
    of a tenth of them is the first tenth of the long one."""
    seed: int
    """Everything random follows from it."""
    cost_limit: float | None
    """b, the largest acceptable mean episode cost, of every constraint without a limit of its
    own; none: what the task declares (25 for native tasks), required for any other
    environment."""
    num_envs: int
    """Environments that step together."""
    epoch_steps: int
    """Environment steps between two updates, all environments together; where it is not given,
    epochs of your own environment have at least 20 episodes and are at most a tenth of the
    run."""
    encoder: Literal["mlp", "cnn", "gru"]
    """What reads observations before the layers: nothing, convolutions (images), a memory (GRU)."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers of policy and critics."""
    activation: Literal["tanh", "relu", "elu", "silu"]
    """Function between the layers of policy and critics."""
    channels: tuple[int, ...]
    """Of a CNN: features of each convolution, 3 x 3 pixels wide; each halves the image."""
    memory: int
    """Of a GRU: how many numbers it carries from step to step."""
    gamma: float
    """Discount of the reward."""
    lam: float
    """GAE's λ of the reward."""
    cost_gamma: float
    """Discount of the costs."""
    cost_lam: float
    """GAE's λ of the costs."""
    cost_estimate: Literal["window", "epoch"]
    """J_c from this epoch's steps or from the last 50 finished episodes (published; lags)."""
    cost_criterion: Literal["undiscounted", "discounted"]
    """Whether the limit is on the plain or on the discounted (cost_gamma) sum of an episode."""
    zero_first_estimate: bool
    """The first update believes J_c = 0, as in the published code."""
    standardise_cost: bool
    """Divide cost advantages by their deviation; barrier methods need them in cost units."""
    normalise: Literal["running", "epoch", "none"]
    """Observation statistics: moving at every step (published), frozen for an epoch, none."""
    raw_final_obs: bool
    """Bootstrap time limits from observations that are not normalised, as published."""
    clip_actions: Literal["auto", "always", "never"]
    """Clip actions to their bounds; auto: for foreign environments, which may insist on it."""
    noise_time: float | Literal["auto"]
    """Steps that the noise of actions lasts; 0: every step draws its own; auto: by what it
    shows. Where an epoch's cost is mostly luck, slow noise shows what actions do to it."""
    cost_value_noise: float
    """σ of the noise on cost values, for the paper's ablation."""
    cost_estimate_noise: float
    """σ of the noise on J_c as updates see it, in units of the limit; logs stay clean."""
    worst_case: bool
    """Log how far each update can raise the cost at worst (`epsilon_c`, `worst_case`)."""
    signal_share: bool
    """Log which part of an epoch's gradients is no noise (`share_reward`, `share_cost`)."""
    epoch_reset: Literal["auto", "always", "never"]
    """Reset (seeded) at each epoch's start; auto: only if nothing else makes resuming exact."""
    vectorise: Literal["auto", "sync", "process"]
    """Where foreign environments run: in this process, in workers; auto: where it is faster."""
    workers: int
    """Processes that act; auto (0): one a core where that pays, 1: all in this one. Same bits."""
    step_timeout: float
    """Seconds after which a foreign environment that does not answer is an error; 0: never."""
    save_every: int
    """Epochs between two checkpoints."""
    keep: int
    """Checkpoints that are kept, the newest ones; `--which EPOCH` loads any of them."""
    evaluate_every: int
    """Epochs between two evaluations by fresh episodes; they keep the best safe policy; 0: none."""
    evaluate_episodes: int
    """Fresh episodes of each evaluation while training."""
    step: float
    """t: how far an update may go for its gain; small ones are natural steps."""
    actor_lr: float
    """Learning rate of the policy's Adam at the start of training."""
    actor_decay: bool
    """Let that rate fall linearly to 0 over the run."""
    passes: int
    """Most passes over the batch in one epoch."""
    minibatch: int
    """Samples in a minibatch; the last one of a pass is smaller."""
    kl_stop: float
    """Stop after the pass that takes the mean KL(old ‖ new) beyond this."""
    max_norm: float
    """The gradient of all that is trained together is clipped to this norm."""
    dual: Literal["exact", "flipped"]
    """The programme's solution, or with the published error of sign (D19, one constraint only)."""
    sticky: Literal["infeasible", "violated"]
    """Which cases hysteresis prolongs: 0 alone (published) or 0 and 1."""
    projection: Literal["kl", "l2"]
    """Metric of the projection: that of the KL, or the plain distance of parameters."""
    reward_direction: Literal["gradient", "natural"]
    """The reward step along g (published) or along H⁻¹ g, the algorithm."""
    reward_test: bool
    """Reject steps that lose reward while the cost is within its limit."""
    safety_bias: float
    """β, the share of the best descent that a step above the limit keeps; 1 repairs only."""
    multiplier_init: float
    """λ before the first update."""
    multiplier_lr: float
    """Step size: with adam about the change in an epoch, with sgd a factor on the violation."""
    multiplier_rule: Literal["adam", "sgd"]
    """adam moves by about the step size whatever the violation (published); sgd in proportion."""
    multiplier_max: float | None
    """Largest λ; none: unbounded."""
    clip: float
    """ε: a ratio beyond 1 ± ε brings no further gain."""
    pid_p: float
    """K_P, gain on the violation."""
    pid_i: float
    """K_I, gain on the summed violation."""
    pid_d: float
    """K_D, gain on the rise of the cost."""
    pid_delay: int
    """Epochs over which that rise is taken."""
    pid_smoothing: float
    """Weight of the past in the averages behind P and D; 0: no averaging."""
    pid_init: float
    """I before the first update."""
    temperature: float
    """λ of the paper: small values follow the advantage, large ones the old policy."""
    state_kl: float
    """η, the largest KL(new ‖ old) of a state that still learns."""
    mask: Literal["batch", "sample"]
    """Whether η switches off whole minibatches in proportion (published) or single states."""
    rescale: bool
    """Divide the priced advantage by 1 + Σ ν (published); the paper does not."""
    sharpness: float
    """t: the barrier's weight is 1/t; large values come closer to the limit."""
    flip_sign: bool
    """Reward cost inside the limit, the published code's error of sign."""
    kappa: float
    """κ, the penalty's weight: 10 in the published runs, 20 in the paper."""
    centre: bool
    """Subtract each minibatch's mean cost advantage, so that its noise is not charged as cost."""
    correction: float
    """α, weight of the correction; 0 leaves the price alone."""
    weight_max: float
    """Largest weight w of the correction."""
    weight_keep: float
    """Share of the past in the average of w over epochs; 0: no averaging."""
    slack_fraction: float
    """w, the part of the slack that one update may spend; 1 is P3O's rule."""
    kappa_start: float
    """Penalty weight at the start of training."""
    kappa_end: float
    """Penalty weight at its end."""
    hinge: Literal["relu", "softplus"]
    """Positive part of the penalty; softplus charges a little before the share is spent (P2BPO)."""
