# SPDX-License-Identifier: Apache-2.0
"""Evaluation while training: no bit changes, the best safe policy is kept, kills lose nothing."""

import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import holdfast.runs.evaluator as evaluations
from full import repeats
from holdfast import Agent, make_env
from holdfast.cli import main
from holdfast.core.limits import parse_limit
from holdfast.files import CheckpointError
from holdfast.judge.evaluate import Evaluation
from holdfast.judge.verdict import verdict
from holdfast.records.find import load
from holdfast.records.rows import read_evaluations, read_rows
from holdfast.report.html import payload
from holdfast.report.summary import summarise
from holdfast.runs.checkpoint import saved_epochs
from holdfast.runs.evaluator import Evaluator, row_of
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.plot import plot_run
from holdfast.runs.training import train_in_folder
from holdfast.train import train
from holdfast.train.environment import Spaces, open_env
from small_runs import finish, rows_without_clock, same, small

JUDGED = {"evaluate_every": 2, "evaluate_episodes": 10}


def trained(path, epochs=4, **settings):
    run = small(epochs=epochs, **(JUDGED | settings))
    folder = create(path, run, make_env(run.env, run.num_envs))
    for _ in train_in_folder(folder, make_env(run.env, run.num_envs)):
        pass
    return folder


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("judged") / "run", 5, keep=3)


def test_the_bits_of_a_run_do_not_depend_on_its_evaluations(judged, tmp_path):
    plain = trained(tmp_path / "plain", 5, evaluate_every=0)
    assert rows_without_clock(plain.path / "progress.csv") == rows_without_clock(
        judged.path / "progress.csv"
    )
    same(*(state_arrays(load_state(folder)[0]) for folder in (plain, judged)))
    assert not (plain.path / "evaluations.csv").exists()


def test_every_second_epoch_and_the_last_are_judged(judged):
    rows = read_rows(judged.path / "evaluations.csv")
    assert [row["epoch"] for row in rows] == [2, 4, 5]
    assert [row["env_steps"] for row in rows] == [400, 800, 1000]
    assert all(row["episodes"] == 10 for row in rows)
    assert len({row["return"] for row in rows}) == 3  # each has episodes of its own


def test_episodes_are_fresh_and_have_an_address(judged):
    """The row is that of `Agent.evaluate` with the seed of (run, epoch, purpose)."""
    row = read_rows(judged.path / "evaluations.csv")[-1]
    address = np.random.SeedSequence([judged.run.seed, 5, evaluations.EVALUATION])
    agent = Agent.load(judged.path)
    again = agent.evaluate(episodes=10, seed=int(address.generate_state(1)[0] >> 1))
    assert again.returns.mean() == row["return"] and again.costs.mean() == row["cost"]
    assert agent.evaluate(episodes=10, seed=3).returns.mean() != row["return"]
    assert agent.evaluations == read_rows(judged.path / "evaluations.csv")


def test_the_best_is_the_safe_one_with_the_largest_return(monkeypatch):
    """Not the largest return, not the newest, and only by fresh episodes."""
    run = small(epochs=5, evaluate_every=1, evaluate_episodes=10, cost_limit=6.0)
    returns = {1: 1.0, 2: 5.0, 3: 9.0, 4: 4.0, 5: 4.5}
    costs = {1: 1.0, 2: 2.0, 3: 30.0, 4: 1.0, 5: 0.0}
    states = list(train(run, make_env(run.env, run.num_envs)))
    judge = Evaluator(run, {"cost": 6.0}, make_env(run.env, run.num_envs))
    for epoch in states:
        spread = np.linspace(0.9, 1.1, 10)
        result = Evaluation(
            returns[epoch.index] * spread,
            costs[epoch.index] * spread[:, None],
            np.full(10, 25),
            {"cost": 6.0},
            False,
        )
        monkeypatch.setattr(evaluations, "evaluate", lambda *_, result=result, **__: result)
        assert judge(epoch) is result
    assert judge.best is states[1].state
    assert [row["safe"] for row in judge.rows] == [1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("costs", "safe"),
    [([5.0] * 10, 1), ([7.0] * 10, 0), ([0.0] * 5 + [11.0] * 5, 0), ([5.0, 5.5] * 5, 1)],
)
def test_safe_needs_more_than_a_mean_below_the_limit(costs, safe):
    table = np.array(costs)[:, None]
    result = Evaluation(np.zeros(10), table, np.full(10, 25), {"cost": 6.0}, False)
    assert row_of(result, 1, 200)["safe"] == safe


def test_a_folder_keeps_the_best_and_any_epoch_loads_by_its_number(judged):
    rows = read_rows(judged.path / "evaluations.csv")
    best = max((row for row in rows if row["safe"]), key=lambda row: row["return"])
    assert saved_epochs(judged.path, "best") == [best["epoch"]]
    assert Agent.load(judged.path, which="best").state.epoch == best["epoch"]
    assert saved_epochs(judged.path) == [3, 4, 5]
    for epoch in (3, 4, 5):
        agent = Agent.load(judged.path, which=epoch)
        assert agent.state.epoch == epoch and len(agent.metrics) == epoch
    assert Agent.load(judged.path).state.epoch == 5
    with pytest.raises(CheckpointError, match=r"no checkpoint of epoch 2, only of 3, 4, 5.*--keep"):
        Agent.load(judged.path, which=2)


def test_commands_take_the_best_policy_and_any_epoch(judged, tmp_path, capsys):
    path = str(judged.path)
    main(["export", path, "-o", str(tmp_path / "p.npz"), "--which", "best"])
    assert "--which best --greedy" in capsys.readouterr().out.replace("\n", " ")
    said = {}
    for which in ("best", "3", "newest"):
        main(["evaluate", path, "--which", which, "--episodes", "5", "--json"])
        said[which] = capsys.readouterr().out
    assert len(set(said.values())) == len({read_best(judged), 3, 5})
    main(["watch", path, "--which", "4", "-o", str(tmp_path / "film.png")])
    assert (tmp_path / "film.png").exists()
    with pytest.raises(SystemExit):
        main(["evaluate", path, "--which", "worst"])
    with pytest.raises(SystemExit):
        main(["evaluate", path, "--which", "best", "--save"])
    assert "leave --env, --limit, --perturb and --which out" in " ".join(
        capsys.readouterr().err.split()
    )


def read_best(folder):
    return saved_epochs(folder.path, "best")[0]


def test_best_where_nothing_was_safe_or_judged(tmp_path):
    unsafe = trained(tmp_path / "unsafe", 2, cost_limit=0.1, beta=0.01)
    with pytest.raises(CheckpointError, match="none of its 1 evaluations was safe"):
        Agent.load(unsafe.path, which="best")
    assert Agent.load(unsafe.path).state.epoch == 2  # nothing is lost
    plain = trained(tmp_path / "plain", 1, evaluate_every=0)
    with pytest.raises(CheckpointError, match=r"was not evaluated while it trained.*every 5"):
        Agent.load(plain.path, which="best")


@pytest.mark.parametrize("lost", ["nothing", "the row", "the checkpoint"])
def test_a_stop_at_any_point_is_made_good(judged, tmp_path, lost):
    """Stopped after epoch 4; then its row is gone, or its checkpoint: the same files again."""
    run = judged.run
    folder = create(tmp_path / "run", run, make_env(run.env, run.num_envs))
    for epoch in train_in_folder(folder, make_env(run.env, run.num_envs)):
        if epoch.index == 4:
            break
    table = folder.path / "evaluations.csv"
    if lost == "the row":
        table.write_text("".join(table.read_text().splitlines(keepends=True)[:-1]))
    if lost == "the checkpoint":
        (folder.path / "checkpoint" / "epoch-000004" / "state.json").unlink()
    finish(folder, make_env(run.env, run.num_envs))
    assert table.read_bytes() == (judged.path / "evaluations.csv").read_bytes()
    assert read_best(folder) == read_best(judged)
    ours, theirs = (load_state(open_folder(f.path), "best")[0] for f in (folder, judged))
    same(state_arrays(ours), state_arrays(theirs))


KILLED = """
import jax, sys
jax.config.update("jax_disable_most_optimizations", True)
from holdfast.cli import main
main(["resume", sys.argv[1], "--quiet"])
"""


@pytest.mark.repeats
def test_sigkill_and_resume_end_in_the_same_files(tmp_path):
    whole = trained(tmp_path / "whole", 12, evaluate_every=1, critic_passes=1)
    create(tmp_path / "killed", whole.run, make_env(whole.run.env, 4))
    table = tmp_path / "killed" / "evaluations.csv"
    for enough in (3, 7)[: repeats(1, 2)]:
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "killed")])
        count = lambda: len(table.read_bytes().splitlines()) if table.exists() else 0
        while process.poll() is None and count() < enough:
            time.sleep(0.002)
        assert process.poll() is None, "the kill comes while it is at work"
        process.send_signal(signal.SIGKILL)
        process.wait()
    main(["resume", str(tmp_path / "killed"), "--quiet"])
    assert (tmp_path / "killed" / "done.json").exists()
    assert table.read_bytes() == (whole.path / "evaluations.csv").read_bytes()
    ours, theirs = (
        load_state(open_folder(tmp_path / name), "best")[0] for name in ("killed", "whole")
    )
    same(state_arrays(ours), state_arrays(theirs))


def test_an_agent_judges_as_it_learns(tmp_path):
    from holdfast.envs.probe import PROBES, ProbeEnv

    sizes = {"num_envs": 4, "epoch_steps": 200, "hidden": (8,), "critic_passes": 1, **JUDGED}
    learn = {"total_steps": 400, "progress": False, "cost_limit": 6.0}
    here = Agent("c-trpo", **sizes).learn("probe/Speed-v0", **learn)
    there = Agent("c-trpo", **sizes).learn("probe/Speed-v0", out=tmp_path / "run", **learn)
    assert here.evaluations == there.evaluations and len(here.evaluations) == 1
    here.save(tmp_path / "saved")
    assert Agent.load(tmp_path / "saved").evaluations == here.evaluations
    with pytest.raises(ValueError, match=r"evaluate_every=2 needs a second set of environments"):
        made = ProbeEnv(PROBES["probe/Speed-v0"], 4)
        Agent("c-trpo", **sizes).learn(made, out=tmp_path / "none", **learn)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ValueError, match=r"evaluate_episodes=3 must be at least 10"):
        Agent("c-trpo", evaluate_episodes=3)
    with pytest.raises(ValueError, match=r"evaluate_every=-1"):
        Agent("c-trpo", evaluate_every=-1)


def test_an_evaluator_is_a_callback_of_any_loop():
    run = small(epochs=2, **JUDGED)
    env = make_env(run.env, run.num_envs)
    judge = Evaluator(run, Spaces.of(run, env).limits, make_env(run.env, run.num_envs))
    answers = [judge(epoch) for epoch in train(run, env)]
    assert answers[0] is None and answers[1].returns.mean() == judge.rows[0]["return"]


def test_plot_and_report_draw_them(judged, tmp_path):
    from matplotlib import image

    plot_run(judged, tmp_path / "with.png")
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("run.json", "progress.csv"):
        (bare / name).write_bytes((judged.path / name).read_bytes())
    plot_run(open_folder(bare), tmp_path / "without.png")
    one, other = (image.imread(tmp_path / f"{name}.png") for name in ("with", "without"))
    assert not np.array_equal(one, other)
    runs, skipped = load([judged.path])
    assert not skipped
    made = payload(summarise(runs, resamples=10), "T")
    rows = read_rows(judged.path / "evaluations.csv")
    (points,) = made["evaluated"].values()
    assert [p[0] for p in points] == [400, 800, 1000]
    np.testing.assert_allclose([p[1] for p in points], [r["return"] for r in rows], rtol=1e-5)
    assert [p[3] for p in points] == [r["safe"] for r in rows]
    assert payload(summarise(load([bare])[0], resamples=10), "T")["evaluated"] == {}
    assert len(runs[0].until(800).evaluations["safe"]) == 2


def test_several_limits_have_a_column_each(tmp_path):
    limits = {"heat": 9.0, "noise": 9.75}
    run = small("probe/Machines-v0", epochs=1, limits=limits, cost_limit=None, **JUDGED)
    folder = create(tmp_path / "run", run, make_env(run.env, 4, constraints=tuple(limits)))
    for _ in train_in_folder(folder, make_env(run.env, 4, constraints=tuple(limits))):
        pass
    (row,) = read_rows(folder.path / "evaluations.csv")
    assert row["cost"] == pytest.approx(row["cost/heat"] + row["cost/noise"])
    assert row["cost_high/heat"] >= row["cost/heat"]
    plot_run(folder, tmp_path / "p.png")


def test_a_damaged_record_of_evaluations_is_named(judged, tmp_path):
    (tmp_path / "evaluations.csv").write_text("epoch,env_steps\n1,200\n")
    with pytest.raises(ValueError, match="no column 'return'"):
        read_evaluations(tmp_path)


@pytest.mark.parametrize(("limit", "kind"), [("6 worst 20%", "tail"), ("6 in 80%", "chance")])
def test_the_best_policy_is_safe_by_the_kind_of_its_limit(limit, kind):
    """Costs 0 in most episodes and 30 in a tenth: the mean is 3 of 6, the tail 15, the chance 10 %.

    So a limit on the mean and one on the chance hold, and one on the tail does not.
    """
    costs = np.tile([0.0] * 9 + [30.0], 20)[:, None]
    table = Evaluation(np.ones(200), costs, np.full(200, 20), {"cost": 6.0}, False, (40.0,))
    assert row_of(table, 1, 200)["safe"] == 1, "the control: by the mean"
    row = row_of(replace(table, kinds={"cost": parse_limit(limit)}), 1, 200)
    assert row["safe"] == (kind == "chance") and row["cost"] == 3.0
    run = small(
        epochs=1, **JUDGED | {"evaluate_episodes": 20}, limits={"cost": limit}, cost_limit=None
    )
    env = open_env(run, to_evaluate=True)
    judge = Evaluator(run, {"cost": 6.0}, env)
    (epoch,) = train(run, open_env(run))
    assert judge.judge(epoch.state).claims == {"cost": parse_limit(limit)}


def test_too_few_fresh_episodes_for_a_kind_are_refused(tmp_path):
    for limit, fewest in (("6 worst 10%", 20), ("6 in 80%", 14)):
        for episodes in (fewest, fewest - 1):
            settings = {"evaluate_every": 2, "evaluate_episodes": episodes, "cost_limit": None}
            run = small(limits={"cost": limit}, **settings)
            if episodes == fewest:
                create(tmp_path / f"{fewest}", run, open_env(run))
                continue
            with pytest.raises(ValueError, match=f"holds: raise it to {fewest} or more"):
                create(tmp_path / "none", run, open_env(run))
    assert not (tmp_path / "none").exists()
    clean = np.zeros(14)
    assert verdict(clean, "6 in 80%").indicated == "yes", "as many as are needed"
    assert verdict(clean[1:], "6 in 80%").indicated == "undecided"
