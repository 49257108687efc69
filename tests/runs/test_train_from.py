# SPDX-License-Identifier: Apache-2.0
"""`holdfast train --from RUN`: what was learned goes on under other settings, in a new folder."""

import numpy as np
import pytest

from holdfast import Agent, cli
from holdfast.runs.checkpoint import saved_epochs
from holdfast.runs.folder import load_state, open_folder

FLAGS = "--steps 400 --epoch-steps 200 --num-envs 4 --hidden 8 --quiet".split()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuning") / "first"
    cli.main(["train", "c-trpo", "probe/Speed-v0", *FLAGS, "--seed", "3", "--out", str(path)])
    return path


def weights(path):
    state, _ = load_state(open_folder(path))
    return [np.asarray(w) for w, _ in state.learner.policy.layers]


def tuned(first, out, *flags):
    cli.main(["train", "--from", str(first), "--quiet", "--out", str(out), *flags])
    return open_folder(out)


def test_it_begins_where_the_other_ended_and_leaves_that_alone(first, tmp_path, monkeypatch):
    before = {p: p.read_bytes() for p in first.rglob("*") if p.is_file()}
    # stopped before its first epoch: what lies there is what it began with
    monkeypatch.setattr("holdfast.cli.train.follow", lambda *a: a[1].close())
    begun = tuned(first, tmp_path / "new", "--cost-limit", "2")
    assert saved_epochs(begun.path) == [0]
    assert all(map(np.array_equal, weights(begun.path), weights(first)))
    old, new = load_state(open_folder(first))[0], load_state(begun)[0]
    assert np.array_equal(old.normaliser.mean, new.normaliser.mean)
    assert new.epoch == 0 and not new.regret.any() and begun.run.origin == f"{first}@2"
    assert begun.spaces.limits == {"cost": 2.0} and begun.run.seed == 3 and begun.run.steps == 400
    assert {p: p.read_bytes() for p in first.rglob("*") if p.is_file()} == before


def test_killed_and_resumed_it_is_the_same(first, tmp_path):
    whole = tuned(first, tmp_path / "whole", "--cost-limit", "2")
    assert whole.finished and len(Agent.load(whole.path).metrics) == 2
    again = tuned(first, tmp_path / "again", "--cost-limit", "2", "--steps", "200")
    cli.main(["resume", str(again.path), "--steps", "400", "--quiet"])
    assert all(map(np.array_equal, weights(again.path), weights(whole.path)))
    fresh = tmp_path / "fresh"  # the control: without the other's policy it is another run
    flags = [*FLAGS, "--seed", "3", "--cost-limit", "2", "--out", str(fresh)]
    cli.main(["train", "c-trpo", "probe/Speed-v0", *flags])
    assert not np.array_equal(weights(fresh)[0], weights(whole.path)[0])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["train", "c-trpo", "probe/Speed-v0", "--from", "RUN"], "leave ALGO and ENV out"),
        (["train", "--from", "RUN", "--hidden", "16"], "has other networks"),
        (["train", "--from", "RUN", "--out", "RUN"], "exists and is not empty"),
        (["train", "--from", "nowhere"], "is not a run folder"),
        (["train", "--from", "RUN", "--cost-limit", "1", "--limit", "cost=2"], "has no effect"),
    ],
)
def test_what_does_not_fit_is_refused(first, tmp_path, monkeypatch, capsys, flags, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main([*[str(first) if flag == "RUN" else flag for flag in flags], "--quiet"])
    assert stop.value.code == 2 and told in " ".join(capsys.readouterr().err.split())


def test_limits_by_name_are_changed_by_name(tmp_path, capsys):
    """One number for all would change nothing there, and must not seem to."""
    flags = ["--steps", "200", *FLAGS[2:], "--limit", "heat=9", "--limit", "noise=9"]
    cli.main(["train", "c-trpo", "probe/Machines-v0", *flags, "--out", str(tmp_path / "two")])
    with pytest.raises(SystemExit):
        tuned(tmp_path / "two", tmp_path / "none", "--cost-limit", "1")
    told = " ".join(capsys.readouterr().err.split())
    assert "--cost-limit 1.0 has no effect, as heat, noise have their own limits" in told
    assert "--limit heat=NUMBER --limit noise=NUMBER" in told and not (tmp_path / "none").exists()
    new = tuned(tmp_path / "two", tmp_path / "new", "--limit", "heat=5")
    assert new.spaces.limits == {"heat": 5.0, "noise": 9.0}
