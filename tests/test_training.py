# SPDX-License-Identifier: Apache-2.0
"""Training: same seed, same bits; killed and resumed, the same bits; bad input, one sentence."""

import csv
import itertools
import json
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import holdfast.train as loop
from holdfast import Agent, make_env, make_run
from holdfast.core.policies import Categorical, Gaussian
from holdfast.envs.base import Step
from holdfast.runs import checkpoint
from holdfast.runs.checkpoint import CheckpointError
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.progress import ProgressFile, read_rows
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.environment import Spaces, describe_acting, open_env
from holdfast.train.epoch import TrainingError, cost_seen_by_update
from holdfast.train.state import COST_NOISE, first_state
from small_runs import SMALL, rows_without_clock, same, small


def finish(folder, env):
    state, complaints = load_state(folder)
    assert complaints == []
    for _ in train_in_folder(folder, env, state=state):
        pass


@pytest.mark.parametrize("normalise", ["running", "epoch", "none"])
@pytest.mark.parametrize("env", ["probe/Speed-v0", "probe/Machines-v0"])
def test_same_seed_same_bits_and_another_seed_another_run(env, normalise):
    results = []
    for seed in (0, 0, 1):
        run = small(env, epochs=2, seed=seed, normalise=normalise)
        *_, last = train(run, make_env(env, run.num_envs))
        results.append(state_arrays(last.state))
    same(results[0], results[1])
    name = "learner.policy.layers[0][0]"
    assert not np.array_equal(results[0][name], results[2][name])


@pytest.mark.parametrize("env", ["probe/Shortcut-v0", "SafetyHopperVelocity-v1"])
def test_resumed_run_ends_with_the_same_bytes(env, tmp_path):
    """Stopped after any epoch and loaded from disk: identical state and rows."""
    run = small(env, epochs=4, cost_estimate="window")  # 50 steps are no episode of Hopper's
    whole = create(tmp_path / "whole", run, make_env(env, run.num_envs))
    for epoch in train_in_folder(whole, make_env(env, run.num_envs)):
        final = state_arrays(epoch.state)
    stopped = create(tmp_path / "stopped", run, make_env(env, run.num_envs))
    for stop in (1, 2, 3):
        state, _ = load_state(open_folder(tmp_path / "stopped"))
        for epoch in train_in_folder(stopped, make_env(env, run.num_envs), state=state):
            if epoch.index == stop:
                break
    finish(open_folder(tmp_path / "stopped"), make_env(env, run.num_envs))
    again, _ = load_state(stopped)
    same(state_arrays(again), final)
    rows = rows_without_clock(tmp_path / "whole" / "progress.csv")
    assert rows == rows_without_clock(tmp_path / "stopped" / "progress.csv")
    assert len(rows) == 4 and stopped.finished


KILLED = """
import jax, sys
jax.config.update("jax_disable_most_optimizations", True)  # as in the tests: the same bits
from pathlib import Path
from holdfast.train.environment import open_env
from holdfast.runs.training import train_in_folder
from holdfast.runs.folder import load_state, open_folder
folder = open_folder(Path(sys.argv[1]))
state, _ = load_state(folder)
for _ in train_in_folder(folder, open_env(folder.run, folder.run.env), state=state):
    pass
"""


def test_sigkill_at_random_instants(tmp_path):
    """The short version of benchmarks/kill_resume.py: a few kills, then byte-identical."""
    run = small(epochs=30, critic_passes=1)
    env = make_env(run.env, run.num_envs)
    whole = create(tmp_path / "whole", run, env)
    for epoch in train_in_folder(whole, env):
        final = state_arrays(epoch.state)
    create(tmp_path / "killed", run, env)
    rng = np.random.default_rng(0)
    kills = starts = 0
    while not (tmp_path / "killed" / "done.json").exists():
        starts += 1
        assert starts < 20
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "killed")])
        before = len(progress(tmp_path))
        while process.poll() is None and len(progress(tmp_path)) < before + 5:
            time.sleep(0.005)
        if kills < 3 and process.poll() is None:
            time.sleep(rng.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 3
    same(state_arrays(load_state(open_folder(tmp_path / "killed"))[0]), final)
    rows = rows_without_clock(tmp_path / "whole" / "progress.csv")
    assert rows == rows_without_clock(tmp_path / "killed" / "progress.csv")


def progress(tmp_path):
    path = tmp_path / "killed" / "progress.csv"
    return path.read_bytes().splitlines() if path.exists() else []


def test_results_do_not_depend_on_the_number_of_workers():
    ends = []
    for workers in (1, 2, 3):
        run = small("SafetyHopperVelocity-v1", epochs=2, cost_estimate="window")
        env = make_env(run.env, run.num_envs, workers=workers)
        try:
            *_, last = train(run, env)
        finally:
            env.close()
        ends.append(state_arrays(last.state))
    same(ends[0], ends[1])
    same(ends[0], ends[2])


def test_one_compilation_for_a_run(monkeypatch):
    run = small(epochs=3)
    parts = loop.split(run.algorithm)
    monkeypatch.setattr(loop, "split", lambda _: parts)
    estimate = loop.compiled_estimate(run)
    monkeypatch.setattr(loop, "compiled_estimate", lambda _: estimate)
    counts = []
    for _ in train(run, make_env(run.env, run.num_envs)):
        counts.append([part._cache_size() for part in (estimate, parts.improve, parts.fit)])
    assert counts == [[1, 1, 1]] * 3


def test_policies_follow_the_action_space():
    def kind(env):
        run = small()
        return first_state(run, Spaces.of(run, env)).learner.policy

    assert isinstance(kind(make_env("probe/Speed-v0", 4)), Gaussian)
    assert isinstance(kind(make_env("probe/Shortcut-v0", 4)), Categorical)
    multi = kind(make_env("probe/Machines-v0", 4))
    assert isinstance(multi, Categorical) and multi.sizes == (2, 2)


def test_progress_has_the_promised_columns(tmp_path):
    promised = (
        "epoch env_steps ep_return ep_cost ep_length cost_regret kl divergence recovering "
        "steps_per_second time_rollout time_update cost_regret_raw"
    ).split()
    env = make_env("probe/Machines-v0", 4)
    run = small("probe/Machines-v0", epochs=2, limits={"heat": 9.0, "noise": 9.75})
    folder = create(tmp_path / "run", run, env)
    epochs = list(train_in_folder(folder, env))
    with (tmp_path / "run" / "progress.csv").open() as file:
        row = next(csv.DictReader(file))
    for name in [
        *promised,
        "ep_cost/heat",
        "cost_regret/heat",
        "ep_cost/noise",
        "cost_regret/noise",
    ]:
        assert name in row
    last = epochs[-1].metrics
    np.testing.assert_allclose(last["ep_cost"], last["ep_cost/heat"] + last["ep_cost/noise"])
    saved = json.loads((tmp_path / "run" / "run.json").read_text())
    assert saved["limits"] == {"heat": 9.0, "noise": 9.75}
    assert saved["versions"]["jax"] == jax.__version__ and saved["run"]["preset"] is None
    assert float(row["ep_return"]) == epochs[0].metrics["ep_return"]  # to the last bit


@pytest.mark.parametrize("estimate", ["window", "epoch"])
def test_predicted_changes_are_compared_with_the_next_epoch(estimate):
    """`realised` is the change of the estimate in use; `spent_ratio` its slope on `spent`."""
    env = make_env("probe/Machines-v0", 4)
    limits = {"heat": 9.0, "noise": 9.75}
    run = small("probe/Machines-v0", epochs=4, limits=limits, cost_estimate=estimate)
    rows = [epoch.metrics for epoch in train(run, env)]
    cost = "ep_cost" if estimate == "window" else "ep_cost_raw"
    for end in ("", "/heat", "/noise"):
        top = bottom = 0.0
        assert np.isnan(rows[0][f"realised{end}"]) and np.isnan(rows[0][f"spent_ratio{end}"])
        for before, now in itertools.pairwise(rows):
            predicted, realised = before[f"spent{end}"], now[f"realised{end}"]
            assert realised == pytest.approx(now[cost + end] - before[cost + end], abs=1e-12)
            top = 0.95 * top + predicted * realised
            bottom = 0.95 * bottom + predicted**2
            assert now[f"spent_ratio{end}"] == pytest.approx(top / bottom)
    assert rows[0]["spent"] == pytest.approx(rows[0]["spent/heat"] + rows[0]["spent/noise"])
    (plain,) = train(small("probe/Machines-v0", "trpo", epochs=1), make_env("probe/Machines-v0", 4))
    assert "spent" not in plain.metrics and "realised" not in plain.metrics


@pytest.mark.parametrize("algorithm", ["p3o", "c3po", "c-trpo"])
def test_a_run_is_the_beginning_of_a_longer_one_by_its_schedule(algorithm):
    """To the last bit: what decays, grows or lands does so by `schedule_steps`."""
    ends = {}
    sizes = {"num_envs": 4, "epoch_steps": 200, "hidden": (8,), "cost_limit": 0.5}
    for name, epochs, schedule in (("long", 8, 0), ("part", 2, 8 * 200), ("short", 2, 0)):
        given = sizes | {"env": "probe/Speed-v0", "schedule_steps": schedule}
        run = make_run(algorithm, steps=epochs * 200, **given)
        epoch = next(itertools.islice(train(run, make_env("probe/Speed-v0", 4)), 1, None))
        ends[name] = state_arrays(epoch.state)
    same(ends["part"], ends["long"])
    if algorithm != "c-trpo":  # which knows its end only where it lands
        assert any((ends["short"][k] != v).any() for k, v in ends["long"].items())


def test_a_schedule_is_no_shorter_than_its_run():
    with pytest.raises(ValueError, match=r"schedule_steps=300 must be 0 or at least steps=400"):
        make_run("p3o", env="probe/Speed-v0", steps=400, schedule_steps=300)


def test_the_worst_case_is_told_and_changes_nothing():
    """It is above the prediction by what the KL adds, and the learned bits are the same."""
    ends = {}
    for told in (True, False):
        run = small("probe/Speed-v0", epochs=2, worst_case=told, cost_scale="discount")
        rows = list(train(run, make_env("probe/Speed-v0", run.num_envs)))
        ends[told] = state_arrays(rows[-1].state)
        last = rows[-1].metrics
        assert ("worst_case" in last) == told
        if told:
            factor = 100 * 0.99 / 0.01 * last["epsilon_c"]  # κ γ/(1 − γ) ε_c; one action, so no d_a
            added = (2 * last["kl"]) ** 0.5 * factor
            assert last["worst_case"] == pytest.approx(last["spent"] + added, rel=1e-4)
            assert added > 0 and 0 <= last["delta_beta"] <= 0.01 * (1 + 1e-6)
    same(ends[True], ends[False])


def test_the_signal_share_is_told_and_changes_nothing():
    ends = {}
    for told in (True, False):
        run = small("probe/Speed-v0", epochs=2, signal_share=told)
        rows = list(train(run, make_env("probe/Speed-v0", run.num_envs)))
        ends[told] = state_arrays(rows[-1].state)
        names = {"share_reward", "share_cost"} & set(rows[-1].metrics)
        assert len(names) == 2 * told
        assert all(rows[-1].metrics[name] <= 1 for name in names)
    same(ends[True], ends[False])


@pytest.mark.parametrize("first", [True, False])
def test_the_worst_case_is_of_the_advantages_that_made_the_step(first):
    """Without a future (γ_c = 0) nothing is added to the prediction."""
    run = small("probe/Speed-v0", epochs=1, worst_case=True, cost_gamma=0.0, critic_first=first)
    (epoch,) = train(run, make_env("probe/Speed-v0", run.num_envs))
    assert epoch.metrics["spent"] != 0
    assert epoch.metrics["worst_case"] == pytest.approx(epoch.metrics["spent"], rel=1e-4)


@pytest.mark.parametrize("first", [True, False])
def test_the_signal_share_is_of_the_advantages_and_metric_of_the_step(first, monkeypatch):
    from holdfast.train import epoch as one_epoch

    asked = []
    monkeypatch.setattr(
        one_epoch, "_signal_share", lambda *given: asked.append(given) or {"share_cost": 0.5}
    )
    settings = {"signal_share": True, "critic_first": first, "damping": 0.3}
    run = small("probe/Speed-v0", epochs=1, **settings)
    (epoch,) = train(run, make_env("probe/Speed-v0", run.num_envs))
    ((old, batch, region),) = asked
    assert region == run.algorithm.region and region.damping == 0.3
    new = epoch.state.learner.policy
    logs = [policy.log_prob(policy.outputs(batch.obs), batch.action) for policy in (old, new)]
    spent = epoch.metrics["ep_length"] * (batch.weight * np.expm1(logs[1] - logs[0])) @ batch.adv_c
    assert float(spent[0]) == pytest.approx(epoch.metrics["spent"], rel=1e-3)


def test_regret_is_the_sum_of_positive_excesses():
    """C23 on a run: V_c = (30, 20, 27), b = 25 gives 7."""
    from holdfast.core.stats import cost_regret

    np.testing.assert_allclose(cost_regret(np.array([30.0, 20.0, 27.0]), 25.0), [5.0, 5.0, 7.0])
    run = small("probe/Shortcut-v0", epochs=4, cost_limit=0.4)
    total = smooth = 0.0
    for epoch in train(run, make_env(run.env, run.num_envs)):
        m = epoch.metrics
        total += max(0.0, m["ep_cost_raw"] - 0.4)
        smooth += max(0.0, m["ep_cost"] - 0.4)
        assert m["cost_regret_raw"] == pytest.approx(total)
        assert m["cost_regret"] == pytest.approx(smooth)
    assert total > 0


def test_the_first_estimate_of_the_published_preset_is_zero():
    """D3 and D15: the published update starts in recovery, believes J_c = 0, and so improves."""
    run = small("probe/Shortcut-v0", epochs=1, cost_limit=0.01)
    modes = {}
    for preset in ("published", "corrected"):
        chosen = make_run("c-trpo", preset, env=run.env, steps=200, **SMALL | {"cost_limit": 0.01})
        (epoch,) = train(chosen, make_env(run.env, run.num_envs))
        modes[preset] = epoch.metrics["recovering"]
        assert epoch.metrics["ep_cost"] > 0.01
    assert modes == {"published": 0, "corrected": 1}


def test_noisy_cost_values_disturb_only_the_costs():
    """σ perturbs cost advantages and targets, never the estimate of J_c (D31)."""
    ends = {}
    for noise in (0.0, 0.5):
        run = small("probe/Shortcut-v0", "c-trpo-noise", epochs=1, cost_value_noise=noise)
        (ends[noise],) = train(run, make_env(run.env, run.num_envs))
    assert ends[0.0].metrics["ep_cost"] == ends[0.5].metrics["ep_cost"]
    clean, noisy = (ends[n].state.learner.critics.layers for n in (0.0, 0.5))
    for (weight, bias), (other_weight, other_bias) in zip(clean, noisy, strict=True):
        for critic in (weight - other_weight, bias - other_bias):  # [1 + K, ...]: reward, then cost
            assert not critic[0].any() and critic[1].any()


def test_noise_on_the_cost_estimate_reaches_the_update_alone():
    """D31: J_c + σ ξ(seed, epoch) is what an update sees, bit for bit; logs hold the clean J_c."""
    seen, ends = {}, {}
    for noise in (0.0, 0.5, 1.0):
        run = small("probe/Shortcut-v0", epochs=1, cost_estimate_noise=noise, cost_limit=100.0)
        (ends[noise],) = train(run, make_env(run.env, run.num_envs))
        seen[noise] = 100.0 - ends[noise].metrics["slack"]
    shift = seen[0.5] - seen[0.0]
    draw = np.random.default_rng(np.random.SeedSequence([run.seed, 1, COST_NOISE]))
    assert shift == pytest.approx(0.5 * draw.standard_normal(1)[0], abs=1e-4) and abs(shift) > 0.01
    assert seen[1.0] - seen[0.0] == pytest.approx(2 * shift, abs=1e-4)
    for name in ("ep_cost", "ep_cost_raw", "cost_regret", "ep_return"):
        assert ends[0.0].metrics[name] == ends[1.0].metrics[name], name
    critics = [jax.tree.leaves(ends[noise].state.learner.critics.layers) for noise in (0.0, 1.0)]
    assert all((one == other).all() for one, other in zip(*critics, strict=True))


def test_noise_on_the_cost_estimate_is_fresh_for_each_update_and_constraint():
    run, seen = small("probe/Shortcut-v0", cost_estimate_noise=2.0), cost_seen_by_update
    draws = {index: seen(run, np.array([3.0, 3.0]), index) for index in (1, 2)}
    values = np.concatenate([*draws.values()])
    assert len(set(values)) == 4 and (draws[1] == seen(run, np.array([3.0, 3.0]), 1)).all()
    many = np.array([seen(run, np.array([3.0]), index)[0] for index in range(1, 4001)])
    assert many.mean() == pytest.approx(3.0, abs=0.15) and many.std() == pytest.approx(2.0, rel=0.1)
    first = make_run("c-trpo", "published", cost_estimate_noise=2.0)
    assert seen(first, np.array([3.0]), 1) == 0.0 != seen(first, np.array([3.0]), 2)
    assert seen(make_run("c-trpo"), np.array([3.0]), 1) == 3.0  # off by default


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["cost_value_noise", "cost_estimate_noise"])
def test_noise_must_be_a_finite_size(name, value):
    must = "not be negative" if value < 0 else "be finite"
    with pytest.raises(ValueError, match=f"{name}={value} must {must}; 0 is off"):
        make_run("c-trpo", **{name: value})


class Faulty:
    """A probe whose environment 2 gives NaN in one place after a while."""

    def __init__(self, what, after=130):
        self.inner = make_env("probe/Speed-v0", 4)
        self.what, self.left = what, after

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, action):
        step = self.inner.step(action)
        self.left -= 1
        if self.left == 0:
            value = getattr(step, self.what).copy()
            value[2] = np.nan
            fields = {"next_obs": value} if self.what == "obs" else {}
            return Step(**(step.__dict__ | {self.what: value} | fields))
        return step


@pytest.mark.parametrize("what", ["reward", "cost", "obs"])
def test_nan_stops_with_epoch_env_and_last_good_checkpoint(what, tmp_path):
    env = Faulty(what)
    folder = create(tmp_path / "run", small(), env)
    with pytest.raises(TrainingError) as error:
        for _ in train_in_folder(folder, env):
            pass
    message = str(error.value)
    assert "epoch 3" in message and "environment 2" in message
    assert "epoch 2 is saved in" in message and "holdfast resume" in message
    finish(folder, make_env("probe/Speed-v0", 4))  # nothing was lost
    assert len(read_rows(tmp_path / "run" / "progress.csv")) == 4


def test_an_epoch_without_a_finished_episode_is_refused():
    run = small("SafetyHalfCheetahVelocity-v1", epochs=1, cost_estimate="window")
    with pytest.raises(TrainingError, match=r"no episode has ended.*raise epoch_steps"):
        list(train(run, make_env(run.env, run.num_envs)))


def test_existing_folder_is_never_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"exists and is not empty: choose another.*--out"):
        create(tmp_path, small(), make_env("probe/Speed-v0", 4))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    env, path = make_env("probe/Speed-v0", 4), tmp_path / "run"
    finish(create(path, small(), env), env)
    with pytest.raises(ValueError, match=r"exists and is not empty.*holdfast resume.*--out"):
        create(path, small(), env)


def test_a_run_that_ended_before_its_first_epoch_is_begun_anew(tmp_path):
    """A remedy may need other settings. Unless it is in that epoch right now."""
    env, path = make_env("probe/Speed-v0", 4), tmp_path / "run"
    create(path, small(seed=1), env)
    with checkpoint.locked(path / ".lock"), pytest.raises(ValueError, match="is not empty"):
        create(path, small(seed=2), env)
    assert open_folder(path).run.seed == 1
    finish(create(path, small(seed=2), env), env)
    assert open_folder(path).run.seed == 2 and (path / "done.json").exists()


def trained(tmp_path, epochs=3):
    env = make_env("probe/Speed-v0", 4)
    folder = create(tmp_path / "run", small(epochs=epochs), env)
    for _ in train_in_folder(folder, env):
        pass
    return folder


def test_a_truncated_checkpoint_falls_back_to_the_one_before(tmp_path):
    folder = trained(tmp_path)
    newest = folder.path / "checkpoint" / "epoch-000003" / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    state, complaints = load_state(folder)
    assert state.epoch == 2 and "truncated or altered" in complaints[0]
    older = folder.path / "checkpoint" / "epoch-000002" / "state.json"
    older.write_text("{")
    with pytest.raises(CheckpointError, match=r"no checkpoint .* is whole.*train anew"):
        load_state(folder)


@pytest.mark.parametrize(
    ("save_every", "keep", "left"), [(1, 2, [4, 5]), (2, 2, [4, 5]), (2, 1, [5]), (3, 9, [3, 5])]
)
def test_checkpoints_come_and_go_as_asked(save_every, keep, left, tmp_path):
    """Every so many epochs and at the end; a run killed between two goes on from the older."""
    run = small(epochs=5, save_every=save_every, keep=keep, critic_passes=1)
    whole = create(tmp_path / "whole", run, make_env(run.env, run.num_envs))
    for epoch in train_in_folder(whole, make_env(run.env, run.num_envs)):
        if epoch.index == 4:  # what a kill would leave
            shutil.copytree(whole.path, tmp_path / "killed")
    killed = open_folder(tmp_path / "killed")
    state, _ = load_state(killed)
    assert state.epoch == 4 - 4 % save_every
    finish(killed, make_env(run.env, run.num_envs))
    assert checkpoint.saved_epochs(whole.path) == checkpoint.saved_epochs(killed.path) == left
    same(*(state_arrays(load_state(folder)[0]) for folder in (whole, killed)))
    rows = [rows_without_clock(folder.path / "progress.csv") for folder in (whole, killed)]
    assert rows[0] == rows[1] and len(rows[0]) == 5


def test_hostile_checkpoints_are_refused(tmp_path):
    """A valid digest does not make foreign content welcome: names, shapes, types are checked."""
    import hashlib

    from safetensors.numpy import save

    folder = trained(tmp_path, epochs=1)
    place = folder.path / "checkpoint" / "epoch-000001"
    honest = (place / "state.safetensors").read_bytes()
    arrays = state_arrays(load_state(folder)[0])

    def plant(content):
        (place / "state.safetensors").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        (place / "state.json").write_text(json.dumps({"format": 1, "epoch": 1, "sha256": digest}))

    huge = (2**40).to_bytes(8, "little") + b"{}"
    wrong_shape = arrays | {"regret": np.zeros((2, 7))}
    wrong_policy = arrays | {"learner.policy.layers[0][0]": np.zeros((3, 3), np.float32)}
    missing = {k: v for k, v in arrays.items() if k != "obs"}
    for content in (
        b"",
        b"not a checkpoint",
        huge,
        honest[:50],
        *map(save, (wrong_shape, wrong_policy, missing)),
    ):
        plant(content)
        with pytest.raises(CheckpointError):
            load_state(folder)
    plant(honest)
    assert load_state(folder)[0].epoch == 1
    (folder.path / "run.json").write_text('{"run": {"name": "c-trpo", "evil": 1}}')
    with pytest.raises(CheckpointError, match="not a valid run configuration"):
        open_folder(folder.path)


def test_a_full_disk_while_saving_loses_nothing(tmp_path):
    """The file-size limit of a process stands in for the disk: the write itself fails."""
    env = make_env("probe/Speed-v0", 4)
    folder = create(tmp_path / "run", small(epochs=3, hidden=(64, 64)), env)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = None
    with pytest.raises(CheckpointError, match=r"epoch 2 could not be saved.*epoch 1 is saved"):
        try:
            for epoch in train_in_folder(folder, env):
                place = folder.path / "checkpoint" / f"epoch-{epoch.index:06d}"
                size = (place / "state.safetensors").stat().st_size
                resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limits[1]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert size is not None
    assert [p.name for p in (folder.path / "checkpoint").iterdir()] == ["epoch-000001"]
    finish(folder, make_env("probe/Speed-v0", 4))
    assert folder.finished and len(read_rows(folder.path / "progress.csv")) == 3


def test_csv_drops_a_half_written_line_and_later_rows(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("epoch,value\n1,0.1\n2,0.2\n3,0.")
    sink = ProgressFile(path, epoch=1)
    sink.write(0, {"epoch": 2, "value": 1 / 3})
    assert path.read_text() == f"epoch,value\n1,0.1\n2,{1 / 3!r}\n"


def test_limits_are_matched_by_name():
    run = small("probe/Machines-v0", limits={"heat": 9.0, "noise": 9.75})
    with pytest.raises(ValueError, match=r"no constraint is called 'hazards'.*heat, noise"):
        list(train(replace(run, limits={"hazards": 1.0}), make_env("probe/Machines-v0", 4)))


def test_agent_in_ten_lines(tmp_path):
    agent = Agent("c-trpo", beta=0.5, **SMALL)
    agent.learn("probe/Speed-v0", total_steps=400, progress=False, cost_limit=6.0)
    assert len(agent.metrics) == 2 and agent.run.algorithm.beta == 0.5
    env = make_env("probe/Speed-v0", 4)
    obs = env.reset(0)
    action = agent.predict(obs)
    assert action.shape == (4, 1)
    np.testing.assert_allclose(agent.predict(obs[0]), action[0], rtol=1e-5)
    assert not np.array_equal(agent.predict(obs, deterministic=False, seed=1), action)
    agent.save(tmp_path / "kept")
    again = Agent.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.predict(obs), action)
    result = again.evaluate(episodes=20)
    assert result.summary()["episodes"] == 20 and result.verdict.safe in ("yes", "no", "undecided")
    with pytest.raises(ValueError, match="has not learned yet"):
        Agent("trpo").predict(obs)
    with pytest.raises(ValueError, match=r"unknown setting 'betta'; did you mean 'beta'"):
        Agent("c-trpo", betta=1)
    with pytest.raises(ValueError, match="is no observation of the environment"):
        agent.predict(np.zeros(99))


def test_learning_in_two_pieces_is_learning_in_one(tmp_path):
    """Also through a folder on disk: `learn` again means `learn` more."""
    once = Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 800, progress=False, cost_limit=6.0)
    first = Agent("c-trpo", **SMALL).learn("probe/Speed-v0", 400, progress=False, cost_limit=6.0)
    first.save(tmp_path / "half")
    twice = Agent.load(tmp_path / "half").learn("probe/Speed-v0", 400, progress=False)
    same(state_arrays(once.state), state_arrays(twice.state))
    assert [row["epoch"] for row in twice.metrics] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="other spaces"):
        twice.learn("probe/Shortcut-v0", 200, progress=False)


def test_evaluation_is_seeded_and_counts_every_environment_equally():
    agent = Agent("c-trpo", **SMALL).learn("probe/Shortcut-v0", 200, progress=False, cost_limit=1.5)
    first, second = (agent.evaluate(episodes=30, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.costs, second.costs)
    assert not np.array_equal(first.costs, agent.evaluate(episodes=30, seed=6).costs)
    assert len(first.returns) == 30


# All cores by default


@pytest.mark.parametrize(
    ("cores", "settings", "workers"),
    [
        ("3", {}, 3),
        ("1", {}, 1),
        ("3", {"workers": 1}, 1),
        ("3", {"workers": 2}, 2),
        ("9", {"num_envs": 4, "epoch_steps": 4000}, 4),
        ("3", {"preset": "published"}, 1),  # moving statistics need a hand-over at every step
        ("3", {"env": "probe/Speed-v0"}, 1),  # too cheap to split
    ],
)
def test_runs_use_all_cores_where_that_pays(monkeypatch, cores, settings, workers):
    monkeypatch.setenv("HOLDFAST_CORES", cores)
    chosen = {"env": "SafetyHopperVelocity-v1", "preset": None} | settings
    run = make_run("c-trpo", **chosen)
    env = open_env(run, run.env)
    try:
        assert getattr(env, "workers", 1) == workers
        where = f"{workers} worker processes" if workers > 1 else "this process"
        assert where in describe_acting(run, env)
    finally:
        env.close()
    judged = open_env(run, run.env, to_evaluate=True)  # by whole episodes, whatever the statistics
    try:
        assert getattr(judged, "workers", 1) == (3 if "preset" in settings else workers)
    finally:
        judged.close()


@pytest.mark.parametrize(
    ("workers", "said"), [(0, ""), (1, ""), (3, "; not in 3 workers: probe tasks need no workers")]
)
def test_the_first_line_says_how_a_run_acts(workers, said, capsys):
    small = dict(num_envs=4, epoch_steps=200, hidden=(8,), cg_steps=3, critic_passes=1)
    Agent("c-trpo", workers=workers, **small).learn("probe/Speed-v0", 200, cost_limit=6.0)
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == (
        "c-trpo on probe/Speed-v0: 200 steps, 4 environments in this process, observation "
        f"statistics frozen for each epoch{said}"
    )
    assert not any(line.startswith("c-trpo on") for line in rest)
