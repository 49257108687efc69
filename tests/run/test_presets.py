# SPDX-License-Identifier: Apache-2.0
"""The deviation register as data: every row switches, both ways, and is recorded."""

import json
import re

import pytest

from holdfast.algorithms import ALGORITHMS, CTRPO, find
from holdfast.register import PRESETS, REGISTER
from holdfast.run import (
    from_json,
    make_run,
    preset_changes,
    registered_name,
    to_json,
)

C_TRPO = {
    # setting: (published, corrected, no preset)
    "algorithm.region.kl_average": (True, False, True),  # D1
    "raw_final_obs": (True, False, False),  # D2
    "zero_first_estimate": (True, False, False),  # D3
    "cost_estimate": ("window", "epoch", "epoch"),  # D4
    "algorithm.critic.critic_l2_biases": (True, True, True),  # D6
    "algorithm.critic.critic_stale_norm": (True, False, False),  # D7
    "normalise": ("running", "epoch", "epoch"),  # D8
    "clip_actions": ("never", "always", "auto"),  # D9
    "algorithm.region.kl_order": ("old-new", "old-new", "old-new"),  # D10
    "algorithm.cost_scale": ("discount", "episode", "episode"),  # D11
    "algorithm.region.solver": ("sum", "woodbury", "woodbury"),  # D13
    "algorithm.region.cg_eps": (1e-6, 0.0, 0.0),
    "algorithm.start_recovering": (True, False, False),  # D15
    "algorithm.barrier": ("entropy", "reversed-entropy", "log"),  # D17
    "algorithm.margin_confidence": (0.0, 0.0, 1.5),  # ours
    "algorithm.landing": (0.0, 0.0, 0.05),  # ours
    "algorithm.critic.critic_first": (False, False, True),  # ours
    "noise_time": (0.0, 0.0, "auto"),  # ours
    "algorithm.critic.critic_apart": (False, False, True),  # ours
    "algorithm.critic.critic_passes": (10, 10, 3),  # ours
    "algorithm.critic.critic_lr": (1e-3, 1e-3, 5e-3),  # ours
    "algorithm.critic.critic_decay": (False, False, True),  # ours
}
"""By hand, not from the register: D5 is not for C-TRPO, D12 is one number for centred advantages,
D14 a name and D16 only for some tasks, see below."""


@pytest.mark.parametrize(("side", "preset"), list(enumerate(["published", "corrected", None])))
def test_c_trpo_takes_the_side_of_its_preset(side, preset):
    data = to_json(make_run("c-trpo", preset))
    for setting, values in C_TRPO.items():
        found = data
        for part in setting.split("."):
            found = found[part]
        assert found == values[side], setting
    assert data["preset"] == preset and data["standardise_cost"] is False


@pytest.mark.parametrize(("side", "preset"), list(enumerate(["published", "corrected"])))
def test_a_preset_of_c_trpo_has_these_settings_and_no_other(side, preset):
    expected = {setting: values[side] for setting, values in C_TRPO.items()}
    assert preset_changes(make_run("c-trpo"), preset) == expected


def test_every_row_concerns_some_algorithm():
    """A row whose types lack its setting would be switched off without a word."""
    runs = [make_run(name, env="SafetyPointPush1-v0") for name in ALGORITHMS]
    for row in REGISTER:
        concerned = [run for run in runs if row.applies_to(run.algorithm, run.env)]
        assert any(row.setting in preset_changes(run, "published") for run in concerned), row


OWN = [row for row in REGISTER if re.fullmatch(r"algorithm\.\w+", row.setting)]


@pytest.mark.parametrize("row", OWN, ids=lambda row: f"{row.code}-{row.setting}")
def test_a_row_on_an_algorithms_own_field_names_its_types(row):
    """Else it would switch a field of that name in any algorithm that comes."""
    field = row.setting.removeprefix("algorithm.")
    assert all(field in getattr(kind, "__dataclass_fields__", ()) for kind in row.only)


def test_published_c_trpo_by_hand():
    run = make_run("c-trpo", "published")
    algorithm = run.algorithm
    assert (algorithm.beta, algorithm.barrier, algorithm.hysteresis) == (1.0, "entropy", 0.8)
    assert (algorithm.region.radius, algorithm.region.damping) == (0.01, 0.1)
    assert (algorithm.region.cg_steps, algorithm.region.backtracks) == (15, 15)
    assert (algorithm.region.shrink, algorithm.region.cg_eps) == (0.8, 1e-6)
    assert (algorithm.critic.critic_lr, algorithm.critic.critic_passes) == (1e-3, 10)
    assert (algorithm.critic.critic_minibatch, algorithm.critic.critic_l2) == (128, 1e-3)
    assert (run.num_envs, run.epoch_steps, run.gamma, run.lam) == (10, 20_000, 0.99, 0.95)
    assert run.hidden == (64, 64) and run.cost_limit is None  # native tasks declare 25


def test_point_push_has_its_own_minibatch_only_when_published():
    """D16"""
    sizes = {
        (task, preset): make_run("c-trpo", preset, env=task).algorithm.critic.critic_minibatch
        for task in ("SafetyPointPush1-v0", "SafetyPointGoal1-v0")
        for preset in ("published", "corrected")
    }
    assert sizes.pop(("SafetyPointPush1-v0", "published")) == 256
    assert set(sizes.values()) == {128}


def test_ablations_are_names():
    """D14 and the noise study."""
    assert make_run("c-trpo-no-hysteresis").algorithm.hysteresis == 1.0
    noise = make_run("c-trpo-noise")
    assert noise.algorithm.hysteresis == 1.0 and noise.cost_value_noise == 0.1


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"c-trpo", "c-npg"}))
def test_what_is_ours_stays_with_c_trpo(name):
    """Rivals fit their critics afterwards, as in their papers, whatever the preset."""
    data = to_json(make_run(name))["algorithm"]
    if not name.startswith("c-trpo"):
        assert data["critic"].get("critic_first", False) is False
        assert data["critic"].get("critic_apart", False) is False
        assert name == "c-mdpo" or "margin_confidence" not in data  # our own method, too


def test_barrier_methods_never_standardise_costs():
    assert make_run("c-trpo", "corrected").standardise_cost is False
    assert "standardise_cost" not in preset_changes(make_run("c-trpo"), "corrected")
    with pytest.raises(ValueError, match="lost their units"):
        make_run("c-trpo", standardise_cost=True)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_runs_survive_json(name, preset):
    run = make_run(name, preset, env="x", limits={"a": 1.0}, seed=3)
    assert from_json(json.loads(json.dumps(to_json(run)))) == run


def test_values_know_their_names():
    assert registered_name(CTRPO()) == "c-trpo"
    assert registered_name(CTRPO(hysteresis=1.0)) == "c-trpo-no-hysteresis"
    assert registered_name(CTRPO(beta=3.0)) == "c-trpo"
    assert find("C_Trpo") == "c-trpo"


def test_unknown_names_suggest():
    with pytest.raises(ValueError, match=r"did you mean 'beta'"):
        make_run("c-trpo", bet=1)
    with pytest.raises(ValueError, match=r"unknown preset 'paper'"):
        make_run("c-trpo", "paper")
    with pytest.raises(ValueError, match=r"unknown key 'sead'"):
        from_json(to_json(make_run("trpo")) | {"sead": 1})
    with pytest.raises(ValueError, match=r"seed='zero' must be a whole number"):
        from_json(to_json(make_run("trpo")) | {"seed": "zero"})


def test_the_text_of_the_paper_is_a_preset():
    """KL(π‖π_k) summed, x log x, discounted V_c; a native task's limit is on the plain sum."""
    run = make_run("c-trpo", "text", env="SafetyAntVelocity-v1", cost_limit=2.5)
    region = run.algorithm.region
    assert (region.kl_order, region.kl_average) == ("new-old", False)
    assert run.algorithm.barrier == "entropy" and run.algorithm.cost_scale == "discount"
    assert run.cost_criterion == "discounted" and run.algorithm.margin_confidence == 0.0
    same = lambda preset: preset_changes(make_run("cpo"), preset)
    assert same("text") == same("corrected") != same("published")


@pytest.mark.parametrize("start", [(0.6, 0.4), (0.3, 0.1)])
def test_the_text_preset_is_the_exact_update(start):
    """Its divergence is D̄_C(π‖π_k); its small steps point where the exact update does."""
    import jax
    import numpy as np

    from holdfast.exact import _learner, enumerated, probabilities, without_damping
    from holdfast.paper.square import Square
    from holdfast.tabular import Geometry, evaluate, toy, two_action_policy, update
    from holdfast.train.update import make_update

    old = evaluate(toy(), two_action_policy(*start))

    def step(preset, radius):
        algorithm = without_damping(make_run("c-trpo", preset).algorithm, radius)
        with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
            learner = _learner(algorithm, toy(), old.policy, 0)
            made = make_update(algorithm).improve(
                learner, enumerated(toy(), old), jax.random.key(0)
            )
            return probabilities(made.policy, 2), float(made.metrics["divergence"])

    def written(policy):
        """D̄_C(π‖π_k) = Σ d_k KL(π‖π_k) + Ψ for x log x, by the exact toolkit."""
        there = Square(toy(), *(np.full((1, 1), p) for p in policy[:, 0]))
        return there.divergence(old, Geometry(1.0)).item()

    policy, divergence = step("text", 0.05)
    assert divergence == pytest.approx(written(policy), rel=1e-9)
    for other in ("corrected", None):  # other orders, other barriers
        policy, divergence = step(other, 0.05)
        assert divergence != pytest.approx(written(policy), rel=1e-4)
    exact = update(toy(), old.policy, 1e-8, "ctrpo", Geometry(1.0)).policy - old.policy
    cosine = lambda moved: np.sum(moved * exact) / np.linalg.norm(moved) / np.linalg.norm(exact)
    assert cosine(step("text", 1e-8)[0] - old.policy) > 1 - 1e-6
    assert cosine(step(None, 1e-8)[0] - old.policy) < 1 - 1e-5
