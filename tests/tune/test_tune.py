# SPDX-License-Identifier: Apache-2.0
"""Tuning: ranges, the constrained search, stops by the curve, studies that are killed and go on."""

import json
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest

from full import repeats
from grid import digests, rows, wait_for
from holdfast import make_run
from holdfast.bench.suite import cells, parse_suite
from holdfast.cli import main
from holdfast.cli.tune import conclude
from holdfast.tune.search import search
from holdfast.tune.space import Dimension, parse_space, tuned
from holdfast.tune.study import Study, Trial, begin, propose, stopped_at, winner
from holdfast.tune.study_page import command_of, suite_of, write_page
from small_runs import rows_without_clock

RUN = make_run("c-trpo", env="probe/Speed-v0", steps=2_000, epoch_steps=200, num_envs=4)


def test_ranges_follow_from_the_settings_themselves():
    found = {d.name: d for d in parse_space(RUN, ["radius", "gamma", "line_search", "barrier"])}
    radius = RUN.algorithm.region.radius
    assert (found["radius"].low, found["radius"].high) == (radius / 10, radius * 10)
    assert found["radius"].log and not found["radius"].complement
    gamma = found["gamma"]  # 9.9 is no discount, so 1 − γ is searched
    assert gamma.complement and gamma.setting(gamma.low) == pytest.approx(0.999)
    assert gamma.setting(gamma.high) == pytest.approx(0.9)
    assert found["line_search"].options == (False, True)
    assert set(found["barrier"].options) > {"log", "entropy"} or len(found["barrier"].options) > 1
    given = parse_space(RUN, ["radius=0.001..0.1", "cg_steps=5..10", "barrier=log,entropy"])
    assert [d.log for d in given] == [True, False, False] and given[1].whole
    assert {d.name for d in parse_space(RUN, [])} >= {"radius", "beta"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["radios"], "did you mean 'radius'"),
        (["seed"], "no setting to search"),
        (["radius", "radius=0.1..1"], "'radius' twice"),
        (["radius=0.1"], "at least two values"),
        (["radius=0.2..0.1"], "two numbers that grow"),
        (["radius=0..1"], "radius=0.0 is not accepted"),
        (["radius=a..b"], "must be a number"),
        (["gamma=0.5..1.5"], "gamma=1.5 is not accepted"),
        (["hidden"], "implies no range"),
        (["spent_confidence"], "implies no range"),
    ],
)
def test_a_range_that_makes_no_sense_is_one_sentence(words, said):
    with pytest.raises(ValueError, match=said):
        parse_space(RUN, words)


class Synthetic:
    """An engine whose trials have a known answer: return `gain(x)`, regret `over(x)` an epoch."""

    def __init__(self, out, epochs=8, most=None):
        self.out, self.epochs, self.most, self.trained = out, epochs, most, 0

    def slots(self):
        return 2

    def start(self, cell):
        if self.most is not None and self.trained >= self.most:
            raise KeyboardInterrupt
        x = cell.run.algorithm.beta
        folder = self.out / cell.name
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["epoch,env_steps,ep_return,ep_return_raw,ep_cost_raw,cost_regret_raw"]
        over = max(0.0, x - 3.0)
        for epoch in range(1, self.epochs + 1):
            gain = x * epoch / self.epochs
            lines.append(f"{epoch},{200 * epoch},{gain},{gain},{6 + over},{over * epoch}")
        (folder / "run.json").write_text(json.dumps({"limits": {"cost": 6.0}}))
        (folder / "progress.csv").write_text("\n".join(lines) + "\n")
        (folder / "done.json").write_text("{}")
        self.trained += 1
        return cell.name

    def ended(self, jobs):
        return list(jobs)

    def outcome(self, job):
        return ""

    def stop(self, job):
        pass


class Silent:
    def __getattr__(self, name):
        return lambda *_: None


BETA = (Dimension("beta", 0.1, 10.0),)


def searched(out, count, study=None, engine=None):
    study, asked = begin(out, study or Study(RUN, BETA, allow=0.0, wave=2))
    engine = engine or Synthetic(out)
    return search(study, asked, out, count, lambda _: Silent(), lambda _: None, 0, engine)[0]


def test_the_search_finds_the_constrained_optimum(tmp_path):
    """Return x, safe up to x = 3: the best safe x is 3, the best of all is 10."""
    trials = searched(tmp_path / "study", 40)
    best = winner(trials)
    assert best.safe and 2.7 < best.params["beta"] <= 3.0
    late = [t.params["beta"] for t in trials[20:] if t.state == "complete"]
    assert np.mean(np.abs(np.array(late) - 3) < 1.5) > 0.5  # it looks where the answer is
    blind = Study(RUN, BETA, allow=1e9, wave=2)  # control: without the constraint
    assert winner(searched(tmp_path / "blind", 25, blind)).params["beta"] > 6


@pytest.mark.parametrize("most", [1, 3, 6])
def test_a_killed_study_goes_on_as_if_it_had_not_been(tmp_path, most):
    whole = searched(tmp_path / "whole", 10)
    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "cut", 10, engine=Synthetic(tmp_path / "cut", most=most))
    (tmp_path / "cut" / "trial-000" / "done.json").unlink()  # in the middle of a trial
    again = searched(tmp_path / "cut", 10)
    assert [t.params for t in again] == [t.params for t in whole]
    assert [(t.state, t.value) for t in again] == [(t.state, t.value) for t in whole]
    longer = searched(tmp_path / "cut", 12)  # a larger number goes on from there
    assert [t.params for t in longer[:10]] == [t.params for t in whole] and len(longer) == 12


def test_another_study_in_the_folder_is_refused_and_nothing_is_lost(tmp_path):
    searched(tmp_path, 2)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(ValueError, match=r"another search space \(beta; requested: radius\)"):
        begin(tmp_path, Study(RUN, (Dimension("radius", 0.1, 1.0),), allow=0.0))
    with pytest.raises(ValueError, match=r"another search space \(high: 10.0; requested: 5"):
        begin(tmp_path, Study(RUN, (Dimension("beta", 0.1, 5.0),), allow=0.0))
    with pytest.raises(ValueError, match=r"another run \(steps: 2000; requested: 4000"):
        longer = make_run("c-trpo", env=RUN.env, steps=4_000, epoch_steps=200, num_envs=4)
        begin(tmp_path, Study(longer, BETA, allow=0.0))
    with pytest.raises(ValueError, match="another allow"):
        begin(tmp_path, Study(RUN, BETA, allow=0.5))
    assert (tmp_path / "study.json").read_bytes() == before
    (tmp_path / "study.json").unlink()
    with pytest.raises(ValueError, match="has no study"):
        begin(tmp_path, Study(RUN, BETA))


def trial(number, curve, excess=-1.0):
    curve = np.array(curve, np.float64)
    return Trial(number, {"beta": 1.0 + number}, "complete", curve, float(curve[-1]), excess)


def test_a_trial_stops_where_it_falls_behind_the_safe_ones():
    study = Study(RUN, BETA)
    safe = [trial(i, np.linspace(0, 10 + i, 10)) for i in range(5)]
    assert stopped_at(study, np.zeros(10), safe) == 2  # after the first quarter
    assert stopped_at(study, np.linspace(0, 20, 10), safe) is None
    assert stopped_at(study, np.zeros(1), safe) is None
    assert stopped_at(study, np.zeros(10), safe[:4]) is None
    unsafe = [trial(i, np.linspace(0, 99, 10), excess=1.0) for i in range(5)]
    assert stopped_at(study, np.zeros(10), unsafe) is None  # these are no measure
    assert stopped_at(study, np.linspace(0, 12.5, 10), [*safe, *unsafe]) is None


def test_proposals_are_a_function_of_seed_and_results():
    study = Study(RUN, BETA, allow=0.0)
    known = [trial(i, [1.0 * i] * 4) for i in range(8)]
    assert propose(study, known, 2) == propose(study, known, 2)
    other = Study(make_run("c-trpo", env=RUN.env, seed=1), BETA, allow=0.0)
    assert propose(study, known, 2) != propose(other, known, 2)


def test_the_winner_comes_with_a_command_and_a_suite_that_parse(tmp_path, capsys):
    from holdfast.cli.options import parse_run

    trials = searched(tmp_path, 6)
    study = Study(RUN, BETA, allow=0.0, wave=2)
    best = winner(trials)
    run = tuned(RUN, BETA, best.params)
    words = command_of(run).split()
    assert parse_run(words[2], words[3], words[4:])[0] == run
    suite = parse_suite("winner", tomllib.loads(suite_of(study, best, [1, 2])))
    made = {cell.run.algorithm.beta for cell in cells(suite)}
    assert made == {run.algorithm.beta, RUN.algorithm.beta} and len(cells(suite)) == 4
    assert {cell.run.seed for cell in cells(suite)} == {1, 2}
    conclude(study, trials, tmp_path, {})
    said = capsys.readouterr().out
    assert "holdfast train c-trpo probe/Speed-v0" in said and "holdfast bench" in said
    page = (tmp_path / "study.html").read_text()
    assert page.count("<tr") == 7 and "<svg" in page and "http" not in page.split("</svg>")[1]
    none = [trial(0, [1.0, 2.0], excess=0.5)]
    assert "No trial is safe" in write_page(tmp_path, study, none, ["x"]).read_text()
    with pytest.raises(SystemExit):
        conclude(study, none, tmp_path, {})


def test_bad_commands_are_one_sentence(tmp_path, capsys):
    for words, said in (
        (["tune", "c-trpo"], "needs an algorithm and an environment"),
        (["tune", "c-trpo", "probe/Speed-v0", "--trials", "0"], "--trials 0 must be at least 1"),
        (["tune", "c-trpo", "probe/Speed-v0", "--allow", "-1"], "must be a share of the limit"),
        (["tune", "c-trpo", "probe/Speed-v0", "--search", "nothing"], "no setting to search"),
        (["tune", "c-trpo", "probe/Speed-v0", "--stpes", "9"], "did you mean '--steps'"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*words])
        assert ended.value.code == 2 and said in " ".join(capsys.readouterr().err.split())


def test_a_probe_with_a_known_answer(tmp_path, capsys):
    """A trust region of 1e-9 moves nothing, so the other radius wins; repeated, nothing runs."""
    words = ["tune", "c-trpo", "probe/Speed-v0", "--search", "radius=0.000000001,0.05"]
    words += ["--steps", "3000", "--epoch-steps", "500", "--num-envs", "5", "--hidden", "8"]
    words += ["--cost-limit", "30", "--trials", "3", "--jobs", "3", "--out", str(tmp_path / "s")]
    words += ["--quiet"]
    main(words)
    said = capsys.readouterr().out
    assert "--radius 0.05" in said
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "s").glob("trial-*/progress.csv")}
    assert len(stamps) == 3
    main(words)
    assert stamps == {p: p.stat().st_mtime_ns for p in stamps}
    assert capsys.readouterr().out == said


def command(words):
    return [sys.executable, "-c", COMMAND, *words]


COMMAND = """
import jax, sys
jax.config.update("jax_disable_most_optimizations", True)
from holdfast.cli import main
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.repeats
def test_a_study_killed_by_sigkill_goes_on_to_the_same_winner(tmp_path, capsys):
    """Real trials in processes of their own, killed in the second wave; the same command ends it.

    The trials end with their scheduler, so that nothing writes into folders that go on.
    """
    words = ["tune", "c-trpo", "probe/Speed-v0", "--search", "radius=0.001..0.1"]
    words += ["--steps", "2000", "--epoch-steps", "200", "--num-envs", "4", "--hidden", "8"]
    count = repeats(2, 3)
    words += ["--cost-limit", "30", "--trials", str(count), "--jobs", "1", "--quiet", "--out"]
    killed = subprocess.Popen(command([*words, str(tmp_path / "cut")]), stderr=subprocess.DEVNULL)
    second = tmp_path / "cut" / "trial-001" / "progress.csv"
    while killed.poll() is None and not (second.exists() and second.read_bytes().count(b"\n") > 3):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(10) == -signal.SIGKILL, "it was still at work"
    before = (tmp_path / "cut" / "study.json").read_bytes()
    first = tmp_path / "cut" / "trial-000" / "progress.csv"
    stamp = first.stat().st_mtime_ns
    assert not (tmp_path / "cut" / "trial-001" / "done.json").exists()
    told = []
    for name in ("cut", "whole"):
        main([*words, str(tmp_path / name)])
        told.append(capsys.readouterr().out.replace(str(tmp_path / name), ""))
    assert "Winner: trial-" in told[0] and told[0] == told[1]
    assert first.stat().st_mtime_ns == stamp, "a complete trial is not repeated"
    names = [f"trial-{i:03d}/progress.csv" for i in range(count)]
    for name in names:
        assert rows_without_clock(tmp_path / "cut" / name) == rows_without_clock(
            tmp_path / "whole" / name
        )
    studies = [json.loads((tmp_path / n / "study.json").read_text()) for n in ("cut", "whole")]
    assert studies[0] == studies[1]
    assert json.loads(before)["trials"] == studies[0]["trials"][: len(json.loads(before)["trials"])]


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_study_on_ray_survives_its_driver_with_the_trials_of_a_local_one(cluster, tmp_path):
    """Real trials on a raylet; the driver is killed, another one ends the study."""
    words = ["tune", "c-trpo", "probe/Speed-v0", "--search", "radius=0.001..0.1"]
    words += ["--steps", "8000", "--epoch-steps", "200", "--num-envs", "4", "--hidden", "8"]
    words += ["--cost-limit", "30", "--trials", "2", "--quiet"]
    here = command([*words, "--jobs", "1", "--out", str(tmp_path / "here")])
    calm = subprocess.run(here, capture_output=True, text=True, timeout=300)
    assert calm.returncode == 0, calm.stderr
    cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    there = command([*words, "--cluster", cluster.address, "--out", str(tmp_path / "ray")])
    driver = subprocess.Popen(there, stderr=subprocess.DEVNULL)
    first = tmp_path / "ray" / "trial-000"
    wait_for(lambda: driver.poll() is not None or rows(tmp_path / "ray", first.name) > 3)
    driver.kill()
    assert driver.wait(10) == -signal.SIGKILL and not (first / "done.json").exists()
    ended = subprocess.run(there, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.replace(str(tmp_path / "ray"), str(tmp_path / "here")) == calm.stdout
    assert digests(tmp_path / "ray") == digests(tmp_path / "here")
    assert len(digests(tmp_path / "ray")) == 2
    both = [(tmp_path / name / "study.json").read_text() for name in ("here", "ray")]
    assert both[0] == both[1] and json.loads(both[0])["wave"] == 1  # one core, so one at a time


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_a_wave_has_the_cores_of_the_cluster(cluster, tmp_path):
    for _ in range(3):
        cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1")
    words = ["tune", "c-trpo", "probe/Speed-v0", "--search", "radius=0.001..0.1"]
    words += ["--steps", "200", "--epoch-steps", "200", "--num-envs", "4", "--hidden", "8"]
    words += ["--cost-limit", "30", "--trials", "1", "--quiet", "--cluster", cluster.address]
    subprocess.run(command([*words, "--out", str(tmp_path / "s")]), check=True, timeout=300)
    assert json.loads((tmp_path / "s" / "study.json").read_text())["wave"] == 3
