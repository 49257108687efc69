# SPDX-License-Identifier: Apache-2.0
"""The settings of a run and of all algorithms as typed keywords of `Agent` and `learn`.

Written by .ci/keywords.py from the settings themselves; a test compares.
"""

from collections.abc import Mapping
from typing import Literal, TypedDict


class SettingArguments(TypedDict, total=False):
    """`holdfast list ALGORITHM` explains each; an algorithm refuses settings it does not have."""

    limits: float | Mapping[str, float]
    """Limits by constraint name; one number: the limit of the one cost (or of each)."""
    env_args: dict[str, object]
    """Arguments of the environment's constructor."""
    beta: float | tuple[float, ...]
    """β, weight of the barrier against the KL; several values: one for each constraint."""
    barrier: str
    """Generator φ of the barrier: entropy (x log x, published), log (−log x), reversed-entropy
    (x log x in reversed order), or your own, file.py:name."""
    hysteresis: float
    """h: recovery of a constraint ends once its cost is below h·limit; 1: below the limit."""
    cost_scale: Literal["discount", "episode", "none"]
    """κ, factor from a mean cost advantage to the cost of an episode: 1/(1 − γ) (discount), the
    mean episode length (episode), or 1 (none)."""
    margin_confidence: float
    """z: the slack is limit − (J_c + z standard errors); 0 (published) is off."""
    spent_confidence: float
    """z: the accept test adds z standard errors to the predicted cost change; 0 is off."""
    start_recovering: bool
    """Begin in recovery, as the published code does, whatever the first cost estimate."""
    landing: float
    """Share of the run for the final cost-repair phase: near a limit its updates only reduce the
    cost, to h·limit; 0 (published) is off."""
    line_search: bool
    """Search along the step; without it the natural step is only halved until it is inside the
    linearised safe set (C-NPG)."""
    radius: float
    """δ, the largest divergence of one policy update."""
    kl_average: bool
    """Average the KL over action dimensions, as in the published code, instead of summing it."""
    kl_order: Literal["old-new", "new-old"]
    """KL(old ‖ new), as in the published code, or KL(new ‖ old), as in the paper's text; they
    are equal to second order."""
    solver: Literal["woodbury", "sum", "dense"]
    """Linear solver: CG with the barrier terms inverted exactly (woodbury), CG on the plain sum
    (as in the published code), or a dense matrix."""
    damping: float
    """Number added to the diagonal of the Fisher matrix."""
    damping_rule: Literal["absolute", "relative"]
    """Unit of damping: absolute, or relative to the Fisher matrix's mean diagonal."""
    cg_steps: int
    """Iterations of conjugate gradients."""
    cg_eps: float
    """Number added to CG's denominators; the published runs used 1e-6."""
    search: Literal["backtrack", "bracket"]
    """Line search: shorten the step until it is accepted, or bracket the longest acceptable
    step, which may be longer than the first."""
    backtracks: int
    """Number of candidates of the line search."""
    shrink: float
    """Factor between two candidates of the backtracking search."""
    quit_not_finite: bool
    """End the line search at a KL that is not finite, as the published CPO and PCPO do."""
    pessimism: float
    """Divergence of the unfavourable step before each gradient (SHAPO: 1e-5); 0 is off."""
    critic_lr: float
    """Learning rate of Adam."""
    critic_passes: int
    """Passes over the batch in each epoch."""
    critic_decay: bool
    """Let the learning rate fall linearly to 0 within each fit."""
    critic_minibatch: int
    """Samples in a minibatch; the last one of a pass is smaller."""
    critic_l2: float
    """Weight of the L2 term, the sum of squares of the critics' parameters."""
    critic_l2_biases: bool
    """Whether the L2 term of the critics includes biases."""
    critic_max_norm: float
    """Largest norm of the critics' gradient: of all critics jointly, or of each
    (`critic_apart`)."""
    critic_apart: bool
    """Clip each critic's gradient separately, and fit each critic in its own thread."""
    critic_stale_norm: bool
    """Include the policy's last gradient in the norm that clips the critics, as in the published
    code."""
    critic_reward_weight: float
    """Weight of the reward critic's loss; each cost critic has weight 1."""
    critic_first: bool
    """Fit the critics to an epoch before its advantages are computed, instead of after its
    update. Applies only if the epoch has at least as many samples as a critic has parameters;
    otherwise the critic could overfit the epoch."""
    schedule_steps: int
    """Steps over which learning rates decay and penalties grow, and at whose end C-TRPO has its
    final cost-repair phase; 0: the steps of the run. A run with a tenth of these steps equals
    the first tenth of the long run."""
    seed: int
    """Seed of all random numbers."""
    cost_limit: float | None
    """b, the largest acceptable mean episode cost, for every constraint without its own limit;
    none: the limit that the task declares (25 for native tasks). Other environments need a
    limit."""
    num_envs: int
    """Environments that step together."""
    epoch_steps: int
    """Environment steps between two updates, all environments together. Without it, epochs of
    your own environment have at least 20 episodes and are at most a tenth of the run."""
    encoder: Literal["mlp", "cnn", "gru"]
    """Network before the dense layers: none (mlp), convolutions for images (cnn), a memory
    (gru)."""
    hidden: tuple[int, ...]
    """Widths of the hidden layers of policy and critics."""
    activation: Literal["tanh", "relu", "elu", "silu"]
    """Function between the layers of policy and critics."""
    channels: tuple[int, ...]
    """With encoder cnn: features of each convolution of 3 x 3 pixels; each halves the image."""
    memory: int
    """With encoder gru: size of the memory."""
    gamma: float
    """Discount of the reward."""
    lam: float
    """GAE's λ of the reward."""
    cost_gamma: float
    """Discount of the costs."""
    cost_lam: float
    """GAE's λ of the costs."""
    cost_estimate: Literal["window", "epoch"]
    """Estimate of J_c: from this epoch's steps (epoch), or from the last 50 finished episodes
    (window, as in the published code; it lags behind the policy)."""
    cost_criterion: Literal["undiscounted", "discounted"]
    """Whether the limit bounds the plain or the discounted (cost_gamma) sum of an episode's
    costs."""
    zero_first_estimate: bool
    """Use J_c = 0 in the first update, as in the published code."""
    standardise_cost: bool
    """Divide cost advantages by their standard deviation. Methods that compare predicted with
    measured cost, such as c-trpo, refuse it: they need advantages in units of the cost."""
    normalise: Literal["running", "epoch", "none"]
    """Statistics that normalise observations: updated at every step (running, as in the
    published code), constant during an epoch (epoch), or none."""
    raw_final_obs: bool
    """At time limits, bootstrap from the raw last observation, as in the published code."""
    clip_actions: Literal["auto", "always", "never"]
    """Clip actions to the bounds of the action space; auto: only for foreign environments, which
    may refuse other actions. The published code never clips."""
    noise_time: float | Literal["auto"]
    """How many steps the noise of actions lasts; 0: independent noise in every step; auto: up to
    10 steps while the cost estimate is uncertain. Slow noise makes the effect of actions on
    an uncertain cost measurable."""
    cost_value_noise: float
    """σ of the noise on cost values, for the paper's ablation."""
    cost_estimate_noise: float
    """σ of the noise on the J_c that updates use, in units of the limit; logs are without noise."""
    worst_case: bool
    """Log an upper bound on the cost change of each update (`epsilon_c`, `worst_case`)."""
    signal_share: bool
    """Log the signal share of an epoch's gradients (`share_reward`, `share_cost`)."""
    epoch_reset: Literal["auto", "always", "never"]
    """Reset with a seed at the start of each epoch; auto: only if exact resuming needs it."""
    vectorise: Literal["auto", "sync", "process"]
    """Where foreign environments run: in this process (sync) or in workers (process); auto: the
    faster of the two."""
    workers: int
    """Worker processes that step environments; auto (0): one for each core if that is faster; 1:
    this process only. Results do not depend on it."""
    step_timeout: float
    """Seconds until a foreign environment that does not respond is an error; 0: no limit."""
    save_every: int
    """Epochs between two checkpoints."""
    keep: int
    """How many of the newest checkpoints to keep; `--which EPOCH` loads any of them."""
    evaluate_every: int
    """Epochs between two evaluations with fresh episodes, which keep the best safe policy; 0: no
    evaluations."""
    evaluate_episodes: int
    """Fresh episodes of each evaluation while training."""
    step: float
    """t, step size: weight of the gain against the divergence; a small t gives natural steps."""
    actor_lr: float
    """Learning rate of the policy's Adam at the start of training."""
    actor_decay: bool
    """Let the policy's learning rate fall linearly to 0 over the run."""
    passes: int
    """Largest number of passes over the batch in one epoch."""
    minibatch: int
    """Samples in a minibatch; the last one of a pass is smaller."""
    kl_stop: float
    """Stop after the pass in which the mean KL(old ‖ new) exceeds this."""
    max_norm: float
    """Largest norm of the joint gradient of policy and critics."""
    dual: Literal["exact", "flipped"]
    """Dual solution: exact, or with the sign error of the published code (flipped; one
    constraint only)."""
    sticky: Literal["infeasible", "violated"]
    """Cases that hysteresis prolongs: case 0 alone (infeasible, published), or 0 and 1
    (violated)."""
    projection: Literal["kl", "l2"]
    """Metric of the projection: that of the KL, or the Euclidean distance of parameters."""
    reward_direction: Literal["gradient", "natural"]
    """Direction of the reward step: g (gradient, published) or H⁻¹ g (natural, the paper)."""
    reward_test: bool
    """Reject steps that lose reward while the cost is within its limit; the published code does
    not."""
    safety_bias: float
    """β, the share of the best descent that a step above the limit keeps; 1 repairs only."""
    multiplier_init: float
    """λ before the first update."""
    multiplier_lr: float
    """Step size of λ: with adam about its change in an epoch, with sgd a factor on the
    violation."""
    multiplier_rule: Literal["adam", "sgd"]
    """Optimiser of λ: adam changes λ by about the step size whatever the violation, as in the
    published code; sgd in proportion to the violation."""
    multiplier_max: float | None
    """Largest λ; none: unbounded."""
    clip: float
    """ε: ratios beyond 1 ± ε are clipped."""
    pid_p: float
    """K_P, gain on the violation."""
    pid_i: float
    """K_I, gain on the summed violation."""
    pid_d: float
    """K_D, gain on the rise of the cost."""
    pid_delay: int
    """Epochs over which the rise of the cost is measured."""
    pid_smoothing: float
    """Weight of the past in the averages of P and D; 0: no averaging."""
    pid_init: float
    """I before the first update."""
    temperature: float
    """λ of the paper: small values follow the advantage, large ones the old policy."""
    state_kl: float
    """η, the largest KL(new ‖ old) of a state that still learns."""
    mask: Literal["batch", "sample"]
    """What η masks: the whole minibatch, in proportion to the states beyond η (batch,
    published), or each state (sample)."""
    rescale: bool
    """Divide the priced advantage by 1 + Σ ν, as in the published code; the paper does not."""
    sharpness: float
    """t: the barrier's weight is 1/t; with large values the policy comes closer to the limit."""
    flip_sign: bool
    """Reward cost inside the limit: the sign error of the published code."""
    kappa: float
    """κ, the penalty's weight: 10 in the published runs, 20 in the paper."""
    centre: bool
    """Subtract each minibatch's mean cost advantage, so that its noise is not penalised."""
    correction: float
    """α, weight of the correction; 0: no correction."""
    weight_max: float
    """Largest weight w of the correction."""
    weight_keep: float
    """Share of the past in the average of w over epochs; 0: no averaging."""
    slack_fraction: float
    """w, the share of the slack that one update may use; 1 is P3O's rule."""
    kappa_start: float
    """Penalty weight at the start of training."""
    kappa_end: float
    """Penalty weight at the end of training."""
    hinge: Literal["relu", "softplus"]
    """Positive part of the penalty: relu, or softplus, which is positive before the share is
    used (P2BPO)."""
