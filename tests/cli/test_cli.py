# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: it works, and what is wrong is one sentence and exit 2."""

import ast
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.algorithms import ALGORITHMS
from holdfast.cli.arguments import EnvironmentOptions, Judging, parse_limits, whole
from holdfast.cli.options import More, Options, grouped, parse_run
from holdfast.records.rows import read_rows
from holdfast.run import make_run

QUICK = (
    "--steps 400 --epoch-steps 200 --num-envs 4 --hidden 8 --critic-passes 1 --cg-steps 3".split()
)


def fails(capsys, *args, code=2):
    """The one sentence that a bad command prints."""
    with pytest.raises(SystemExit) as stop:
        cli.main(list(args))
    assert stop.value.code == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("holdfast:")
    return lines[-1]


def test_each_command_is_the_module_of_its_name():
    shared = {"__init__", "arguments", "cmdp", "options", "session", "words"}
    files = {file.stem for file in Path(cli.__file__).parent.glob("*.py")}
    assert files - shared == set(cli.COMMANDS)
    for name in cli.COMMANDS:
        assert callable(importlib.import_module(f"holdfast.cli.{name}").command), name


def test_train_resume_evaluate_plot(tmp_path, capsys):
    out = tmp_path / "run"
    more = ["--cost-limit", "25", "--out", str(out), "--tensorboard"]
    cli.main(["train", "CTRPO", "probe/Speed-v0", *QUICK, *more])
    told = capsys.readouterr()
    assert "return" in told.err and "cost" in told.err  # plain lines, not on a terminal
    assert str(out) in told.out
    assert (out / "done.json").exists() and list((out / "tensorboard").iterdir())
    cli.main(["resume", str(out), "--steps", "600", "--quiet"])
    assert len(read_rows(out / "progress.csv")) == 3
    capsys.readouterr()
    cli.main(["evaluate", str(out), "--episodes", "12", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"] == 12 and result["safe_at_95"] in ("yes", "no", "undecided")
    assert result["cost"]["cost"]["limit"] == 25.0
    cli.main(["evaluate", str(out), "--episodes", "12"])
    said = capsys.readouterr().out
    assert "Safe, proved at 95%: yes" in said, "20 steps cannot cost more than 20"
    assert "If the tail is as seen: yes" in said
    with pytest.raises(SystemExit) as stop:
        cli.main(
            [
                "evaluate",
                str(out),
                "--until-decided",
                "--max-episodes",
                "4e1",
                "--cost-bound",
                "2e3",
            ]
        )
    assert stop.value.code == 3
    assert "undecided; the mean cost is in [" in capsys.readouterr().out.replace("\n", " ")
    cli.main(["plot", str(out), "-o", str(tmp_path / "curve.svg")])
    assert (tmp_path / "curve.svg").stat().st_size > 0
    cli.main(["plot", str(out)])
    assert (out / "progress.png").read_bytes()[:4] == b"\x89PNG"


def test_check_finds_faults_and_says_so_by_its_exit_code(capsys):
    cli.main(["check", "probe/Speed-v0"])
    assert "error" not in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        cli.main(["check", "Pendulum-v1"])  # sound, but without a cost
    told = capsys.readouterr().out
    assert stop.value.code == 1 and "error" in told and "info['cost']" in told


def test_demo_trains_evaluates_and_draws(tmp_path, capsys, monkeypatch):
    """With a smaller network and epoch and fewer episodes, so that it takes seconds."""
    smaller = dict(hidden=(8,), num_envs=2, epoch_steps=2000, critic_passes=1, cg_steps=3)
    monkeypatch.setattr("holdfast.cli.demo.DEMO_EPISODES", 20)
    monkeypatch.setattr("holdfast.run.make_run", lambda *a, **k: make_run(*a, **(k | smaller)))
    out = tmp_path / "demo"
    for cores in ("2", "1"):  # the second replaces the first
        monkeypatch.setenv("HOLDFAST_CORES", cores)
        cli.main(["demo", "--steps", "2000", "--out", str(out)])
        told, shown = capsys.readouterr()
        assert shown.startswith(
            "c-trpo on SafetyHalfCheetahVelocity-v1 (Holdfast's default): 2,000 st"
        )
        assert "may exceed a speed of 3.21" in shown.splitlines()[1]
        assert "Safe, proved at 95%:" in told
        assert f"holdfastresume{out}" in "".join(told.split())  # lines are wrapped
        assert len(read_rows(out / "progress.csv")) == 1
        assert (out / "progress.png").read_bytes()[:4] == b"\x89PNG"


def test_tensorboard_has_environment_steps_on_its_axis(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "run"
    cli.main(
        ["train", "trpo", "probe/Speed-v0", *QUICK, "--out", str(out), "--tensorboard", "--quiet"]
    )
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    points = events.Scalars("ep_return")
    assert [p.step for p in points] == [200, 400]
    rows = read_rows(out / "progress.csv")
    assert points[0].value == pytest.approx(float(rows[0]["ep_return"]), rel=1e-6)


def test_wandb_runs_never_share_an_id(tmp_path, monkeypatch):
    """Equal folder names are two runs; a resumed folder goes on under its own id."""
    told = []

    class Recorder:
        def init(self, **given):
            told.append(given)
            return self

        def log(self, metrics, step):
            told[-1].setdefault("steps", []).append(step)

        def finish(self):
            told[-1]["finished"] = True

    monkeypatch.setitem(sys.modules, "wandb", Recorder())
    for parent in ("a", "b"):
        out = str(tmp_path / parent / "run")
        cli.main(
            ["train", "trpo", "probe/Speed-v0", *QUICK, "--quiet", "--out", out, "--wandb", "safe"]
        )
    cli.main(["resume", out, "--steps", "600", "--quiet", "--wandb", "safe"])
    first, second, resumed = told
    assert first["id"] != second["id"] == resumed["id"] and resumed["resume"] == "allow"
    assert [run["name"] for run in told] == ["run"] * 3 and resumed["project"] == "safe"
    assert (second["steps"], resumed["steps"]) == ([200, 400], [600])
    assert all(run["finished"] for run in told) and first["config"]["epoch_steps"] == 200


@pytest.mark.extras
def test_wandb_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    code = "from holdfast.cli import main; import sys; main(sys.argv[1:])"
    out = tmp_path / "run"
    subprocess.run(
        [sys.executable, "-c", code, "train", "trpo", "probe/Speed-v0", *QUICK, "--quiet",
         "--out", str(out), "--wandb", "holdfast-test"],
        check=True, timeout=180,
    )  # fmt: skip
    assert list(out.glob("wandb/offline-run-*/run-*.wandb"))
    assert (out / "done.json").exists()


def test_list_shows_algorithms_options_and_presets(capsys):
    cli.main([])
    assert "evaluate" in capsys.readouterr().out
    cli.main(["list"])
    assert "c-trpo" in capsys.readouterr().out
    cli.main(["list", "c-trpo"])
    told = capsys.readouterr().out
    for flag in ("--beta", "--hysteresis", "--barrier", "--num-envs", "--cost-limit"):
        assert flag in told
    assert "raw_final_obs = True" in told and "barrier = entropy" in told
    cli.main(["envs"])
    assert "SafetyHalfCheetahVelocity-v1" in capsys.readouterr().out
    cli.main(["envs", "probe/Shortcut-v0"])
    assert "best safe return 26" in capsys.readouterr().out


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_option_has_a_help_text_and_a_name_of_its_own(name):
    found = [setting for settings in grouped(make_run(name)).values() for setting in settings]
    for setting in found:
        assert len(setting.help) > 10, setting.path
    assert len({setting.name for setting in found}) == len(found)


def test_help_shows_first_what_matters_most(capsys):
    """Also without a name; the solver's knobs are last."""
    for names in ([], ["c-trpo"], ["c-trpo", "probe/Speed-v0"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["train", *names, "--help"])
        told = capsys.readouterr().out
        assert stop.value.code == 0
        order = "--steps --cost-limit --limit --seed --out --preset --workers --wandb"
        places = [told.index(f"{flag} ") for flag in [*order.split(), "--beta", "--gamma"]]
        places += [told.index(f"{flag} ") for flag in ("--radius", "--cg-steps", "--critic-lr")]
        assert places == sorted(places)
    with pytest.raises(SystemExit):
        cli.main(["train", "c-trpo", "E", "--preset", "published", "--help"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "c-trpo, preset published" in told and "(default: entropy)" in told


def test_workers_may_be_auto(capsys):
    for words, count in (("auto", 0), ("0", 0), ("3", 3)):
        assert parse_run("c-trpo", "E", ["--workers", words])[0].workers == count
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--workers INT|auto" in told and "(default: auto)" in told
    cli.main(["list", "c-trpo"])
    assert " auto " in next(
        line for line in capsys.readouterr().out.splitlines() if "--workers" in line
    )


def test_help_breaks_lines_only_where_the_screen_ends(capsys, monkeypatch):
    """Not where a source file does."""
    monkeypatch.setenv("COLUMNS", "200")
    for command, words in (
        ("bench", "a single seed as 20,) instead of the suite's"),
        ("report", "units of the IQM of CPO's, cost"),
    ):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert words in capsys.readouterr().out


def test_help_names_every_suite_and_figure(capsys):
    from holdfast.bench.suite import shipped
    from holdfast.paper.figures import FIGURES

    for command, names in (("bench", shipped()), ("figures", FIGURES)):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        told = capsys.readouterr().out
        assert all(name in told for name in names)


def test_flags_win_over_the_preset():
    run, options = parse_run(
        "c-trpo",
        "E",
        "--preset corrected --barrier entropy --steps 1e6 --seed 7 --limit a=3 --limit=b=4".split(),
    )
    assert run.preset == "corrected" and options.out is None
    assert run.algorithm.barrier == "entropy" and run.algorithm.margin_confidence == 0.0
    assert run.steps == 1_000_000 and run.seed == 7 and run.limits == {"a": 3.0, "b": 4.0}
    several, _ = parse_run("c-trpo", "E", "--beta 1 2 --no-kl-average".split())
    assert several.algorithm.beta == (1.0, 2.0) and several.algorithm.region.kl_average is False


def test_numbers_and_pairs():
    assert whole("1e6") == 1_000_000 and whole("20_000") == 20_000
    for text in ("1.5", "inf"):
        with pytest.raises(ValueError, match="not a whole number"):
            whole(text)
    assert parse_limits(["a=1", "b=2.5"]) == {"a": 1.0, "b": 2.5}
    with pytest.raises(ValueError, match=r"NAME=NUMBER"):
        parse_limits(["hazards"])
    with pytest.raises(ValueError, match=r"a=3 follows --limit a=1: give 'a' one limit"):
        parse_limits(["a=1", "b=2", "a=3"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["trian"], "did you mean 'train'"),
        (["train"], "needs an algorithm and an environment"),
        (["train", "c-trp", "probe/Speed-v0"], "did you mean 'c-trpo'"),
        (["train", "c-trpo", "SafetyPointGoal1-v9"], "SafetyPointGoal1-v0"),
        (["train", "c-trpo", "CartPole-v1"], "reports no cost"),
        (["train", "c-trpo", "probe/Speed-v0", "--cost-limit", "-1"], "must be a finite number"),
        (["train", "c-trpo", "probe/Speed-v0", "--cost-limit", "0"], "no interior"),
        (["train", "c-trpo", "probe/Speed-v0", "--beta", "0"], "--beta 0.0 must be positive"),
        (["train", "c-trpo", "probe/Speed-v0", "--hysteresis", "1.4"], "must lie in (0, 1]"),
        (["train", "c-trpo", "probe/Speed-v0", "--hysterisis", "0.8"], "mean '--hysteresis'?"),
        (["train", "c-trpo", "probe/Speed-v0", "--raduis=0.1"], "did you mean '--radius'?"),
        (["train", "c-trpo", "probe/Speed-v0", "--gui"], "'--gui'; --help shows all"),
        (["train", "ipo", "probe/Speed-v0", "--cost-limit", "0"], "no interior"),
        (["train", "c-trpo", "probe/Speed-v0", "--preset", "paper"], "published, corrected"),
        (["train", "c-trpo", "probe/Speed-v0", "--limit", "hazards=25"], "hazards"),
        (["train", "c-trpo", "probe/Speed-v0", "--limit", "25"], "NAME=NUMBER"),
        (["train", "c-trpo", "probe/Speed-v0", "--epoch-steps", "1001"], "use --epoch-steps 1000"),
        (["train", "c-trpo", "probe/Speed-v0", "--standardise-cost"], "lost their units"),
        (["resume", "/nonexistent-run"], "is not a run folder"),
        (["evaluate", "/nonexistent-run"], "is not a run folder"),
        (["list", "no-such-thing"], "unknown algorithm"),
        (["envs", "probe/Sped-v0"], "did you mean 'probe/Speed-v0'"),
        (["train", "c-trpo", "halfcheetah"], "did you mean 'SafetyHalfCheetahVelocity-v1'?"),
        (["envs", "HalfCheetah-v5"], "did you mean 'SafetyHalfCheetahVelocity-v1'?"),
        (["envs", "Pendulum-v1"], "`holdfast check Pendulum-v1` looks at any other"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(args, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = fails(capsys, *args)
    assert words in told
    assert "Traceback" not in told
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command", ["resume RUN", "demo", "bench quick", "report RUN"])
def test_half_a_step_is_refused(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main([*command.split(), "--steps", "600.7"])
    told = capsys.readouterr()
    assert stop.value.code == 2 and "600.7 is not a whole number" in told.out + told.err


def test_existing_output_folder_and_finished_run(tmp_path, capsys):
    out = tmp_path / "run"
    train = ["train", "trpo", "probe/Speed-v0", *QUICK, "--quiet", "--out", str(out)]
    cli.main(train)
    assert "exists and is not empty" in fails(capsys, *train)
    assert "is finished" in fails(capsys, "resume", str(out))
    (out / "run.json").write_text("{")
    assert "is damaged" in fails(capsys, "evaluate", str(out))


def test_interrupt_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    from holdfast.runs import training

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(training, "train_in_folder", interrupted)
    out = str(tmp_path / "run")
    told = fails(capsys, "train", "trpo", "probe/Speed-v0", *QUICK, "--out", out, code=130)
    assert f"holdfast resume {out}" in told.replace("\n", "")


SUITE = """
steps = 200
seeds = 500
tasks = ["probe/Speed-v0"]
algorithms = ["c-trpo"]
settings = { epoch_steps = 200, num_envs = 2, hidden = [4] }
"""


def test_an_interrupted_comparison_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    from holdfast.cli import bench as module

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "train_cells", interrupted)
    (tmp_path / "suite.toml").write_text(SUITE)
    out = tmp_path / "runs"
    bench = "bench", str(tmp_path / "suite.toml"), "--seeds", "2", "--out", str(out)
    told = f"interrupted; the runs are kept in '{out}', and the same command continues."
    assert told in fails(capsys, *bench, code=130)


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("--version", ""),
        ("bench suite.toml --dry-run", "1"),
        pytest.param("--version", "1", marks=pytest.mark.full),
        pytest.param("bench suite.toml --dry-run", "", marks=pytest.mark.full),
    ],
)
def test_a_closed_pipe_ends_a_command_quietly(words, unbuffered, tmp_path):
    """As after `| head -3`; it shows while much is printed, and else at the end."""
    (tmp_path / "suite.toml").write_text(SUITE)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "holdfast", *words.split()]
    own = {"stderr": subprocess.PIPE, "env": os.environ | {"PYTHONUNBUFFERED": unbuffered}}
    try:
        done = subprocess.run(command, stdout=writing, cwd=tmp_path, **own)
    finally:
        os.close(writing)
    assert done.returncode == cli.CUT_OFF
    assert b"holdfast:" not in done.stderr and b"Error" not in done.stderr


def continued(doc):
    """Second lines of the texts of arguments."""
    return [line for line in inspect.cleandoc(doc).splitlines() if line.startswith(" " * 8)]


@pytest.mark.parametrize("name", [c.name for c in cli.COMMANDS.values() if not c.own_parser])
def test_the_help_of_an_argument_is_one_line_of_the_docstring(name):
    """tyro does not join the lines of functions: longer texts are `arg(help=...)`."""
    doc = importlib.import_module(f"holdfast.cli.{name}").command.__doc__
    assert not continued(doc)
    assert continued(doc + "\n\n    Args:\n        x: One\n            text.")  # the control


@pytest.mark.parametrize("kind", [Options, More, EnvironmentOptions, Judging])
def test_the_help_of_an_option_is_one_line_of_the_class(kind):
    """tyro keeps the break before an indented line."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    texts = [node.value.value for node in body if isinstance(node, ast.Expr)]
    assert len(texts) > 4 and not [text for text in texts[1:] if "\n" in text]
