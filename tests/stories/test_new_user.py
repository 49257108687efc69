# SPDX-License-Identifier: Apache-2.0
"""What a walk as a new user found: counts, names of other libraries, and costs that were hidden."""

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from road_env import Road

from holdfast import Agent, cli, make_env, make_run, suggest_limit
from holdfast.bars.training_bar import training_bar
from holdfast.cli.options import parse_run
from holdfast.cli.words import for_shell
from holdfast.console import counted
from holdfast.envs.check.facts import describe_batch
from holdfast.envs.native.catalogue import summaries
from holdfast.judge.verdict import verdict
from holdfast.records.find import labelled
from holdfast.records.log import RunLog
from holdfast.records.rows import costs_of
from holdfast.records.zoo import ZooError, entry_of
from holdfast.ship.certify.task import task_words
from holdfast.ship.film.episode import Address, Episode
from holdfast.ship.film.episode_plot import plot_episodes

SMALL = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1, cg_steps=3)


def refused(capsys, *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main([*args])
    assert stop.value.code == 2
    return capsys.readouterr().err.strip()


# Numbers and their nouns


def test_one_thing_is_not_called_several():
    told = [*summaries("velocity").values(), *summaries("navigation").values()]
    told += [counted(1, "episode"), verdict(np.array([[3.0]]), 5.0).proved_sentence]
    assert not [line for line in told if re.search(r"\b1 [a-z ]*s\b", line)]
    assert any("1 vase" in line for line in told) and "(1 episode, " in told[-1]
    assert counted(20_000, "episode") == "20,000 episodes"


# Epochs that nobody chose


@pytest.mark.parametrize(("count", "epoch"), [(7, 20_006), (10, 20_000), (30_000, 30_000)])
def test_epochs_are_the_next_multiple_of_the_environments(count, epoch):
    run, _ = parse_run("c-trpo", "SafetyHopperVelocity-v1", ["--num-envs", str(count)])
    assert run.epoch_steps == epoch, "and the first line names it"


def test_epochs_that_are_chosen_are_not_changed():
    for spelt in ("--epoch-steps", "--epoch_steps"):
        with pytest.raises(ValueError, match="use epoch_steps=1995 so that"):
            parse_run("c-trpo", "probe/Speed-v0", ["--num-envs", "7", spelt, "2000"])


def test_a_run_that_becomes_longer_says_why_in_the_words_of_the_shell(capsys):
    env = make_env(Road, 4, constraints=("heat", "speed"))
    run = make_run("c-trpo", env="road.py:Road", **SMALL | {"epoch_steps": 20_000}, steps=6_000)
    training_bar(run, env, {"heat": 5.0}, words=for_shell).close()
    told = capsys.readouterr().err
    assert "after all 20,000 steps (6,000 were requested, as no time limit is declared" in told
    assert "a smaller --epoch-steps, to see" in told
    training_bar(make_run("c-trpo", env="x", **SMALL, steps=200), env, {"heat": 5.0}).close()
    told = capsys.readouterr().err
    assert "after all 200 steps; train" in told and "a smaller epoch_steps, to see" in told


# Costs


def test_a_line_shows_the_costs_that_regret_counts():
    """Smoothed costs can be below a limit that the epoch's own cost is above."""
    row = {"ep_cost": 25.6, "ep_cost_raw": 30.5, "cost_regret_raw": 0.5}
    assert costs_of(row, {"cost": 30.0}) == [("cost", 30.5, 30.0)]
    parts = {f"{name}/{part}": v for name, v in row.items() for part in ("heat", "speed")}
    assert [c for _, c, _ in costs_of(parts, {"heat": 1.0, "speed": 2.0})] == [30.5, 30.5]
    assert costs_of({"ep_cost": 25.6}, {"cost": 30.0}) == [("cost", 25.6, 30.0)], "other logs"
    assert costs_of({"ep_cost": 2.0, "ep_cost_raw": np.nan}, {"cost": 3.0})[0][1] == 2.0


def test_a_limit_that_a_run_lacks_is_not_called_none():
    config = {"limits.heat": 5.0, "limits.speed": 1.0}
    common = dict(source="holdfast", algorithm="c-trpo", task="car", path="x")
    logs = [_log(config, common), _log({"limits.heat": 5.0}, common)]
    assert [run.label for run in labelled(logs)] == [
        "c-trpo (speed=1)",
        "c-trpo (speed not limited)",
    ]


def _log(config: dict[str, float], common: dict[str, str]) -> RunLog:
    fields = {field: None for field in RunLog.__dataclass_fields__}
    return RunLog(**fields | common | {"config": config, "seed": 0})


def test_an_episode_without_costs_is_drawn_without_a_warning(tmp_path):
    free = Episode(Address(0), np.ones(9), np.zeros((9, 1)), np.zeros((9, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_episodes([free], {"cost": 5.0}, "free", tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


# Words


def test_a_card_shows_no_markup_of_a_docstring():
    told = task_words("CartPole-v1")
    assert "Neuronlike" in told and "](" not in told and "http" not in told


def test_names_of_other_libraries_are_answered_on_the_command_line(capsys):
    for theirs, ours in (("--total-timesteps", "--steps"), ("--n-envs=4", "--num-envs")):
        told = refused(capsys, "train", "c-trpo", "probe/Speed-v0", theirs)
        assert told == f"holdfast: unknown option '{theirs}'; it is {ours} here."
    told = refused(capsys, "train", "c-trpo", "probe/Speed-v0", "--nonsense")
    assert "--help shows all" in told


def test_a_limit_is_not_taken_for_the_option_cost(capsys):
    told = refused(capsys, "train", "c-trpo", "probe/Speed-v0", "--limit", "cost=5 wurst 5%")
    assert "the limit cost=5 wurst 5% is not of a known kind" in told
    assert for_shell("pass cost=file.py:name") == "pass --cost file.py:name"


def test_missing_files_and_names_get_a_sentence(capsys, tmp_path):
    assert "there is no file 'none.json'; check" in refused(capsys, "solve", "none.json")
    file = tmp_path / "mine.py"
    file.write_text("import math\nimport gymnasium as gym\nclass Road(gym.Env): ...\n")
    told = refused(capsys, "check", f"{file}:Raod")
    assert "did you mean 'Road'?" in told
    assert refused(capsys, "check", f"{file}:Xyz").endswith("known are Road.")


def test_python_refuses_steps_that_are_none():
    for steps in (0, -4, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"total_steps=\S+ must be a number of env"):
            Agent("c-trpo", **SMALL).learn("probe/Speed-v0", steps)


def test_what_chance_costs_is_one_line_until_it_is_printed():
    found = suggest_limit(Road)
    assert re.fullmatch(
        r"Chance\(100 episodes of random actions: mean heat \S+, speed 10\)", repr(found)
    )
    assert len(str(found).splitlines()) > 1


# Weights & Biases


WITH_WANDB = """
from holdfast import Agent

how = dict(out="run", wandb="holdfast-test", progress=False)
small = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=1, cg_steps=3)
agent = Agent("c-trpo", **small).learn("probe/Speed-v0", 400, **how)
agent.learn(total_steps=200, **how)
"""


@pytest.mark.extras
def test_python_logs_to_wandb_and_goes_on_under_the_same_id(tmp_path):
    """In a process of its own: W&B writes its files to the end as that ends."""
    env = os.environ | {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    command = [sys.executable, "-c", WITH_WANDB]
    subprocess.run(command, check=True, timeout=180, cwd=tmp_path, env=env)
    files = sorted(tmp_path.glob("run/wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 2 and len({file.name for file in files}) == 1, "one id, one run"
    first, second = (file.read_bytes() for file in files)
    for i, row in enumerate(Agent.load(tmp_path / "run").metrics):
        told = repr(row["ep_return_raw"]).encode()[:12]
        assert (told in first, told in second) == (i < 2, i >= 2)


# Costs without a limit


@pytest.mark.parametrize(
    ("env", "limited", "free"),
    [
        (Road, ("heat",), ("speed",)),
        (Road, ("heat", "speed"), ()),
        (Road, None, ()),  # added up
        ("probe/Machines-v0", ("heat",), ("noise",)),
        ("SafetyPointGoal2-v0", ("hazards",), ("vases",)),
        ("SafetyPointGoal2-v0", ("vases_contact",), ("hazards", "vases_velocity")),
        ("SafetyPointGoal2-v0", ("cost",), ()),  # the sum of all
    ],
)
def test_a_cost_without_a_limit_is_named_where_training_begins(env, limited, free, capsys):
    made = make_env(env, 1, constraints=limited)
    assert made.facts.free_costs == free
    run = make_run("c-trpo", env="x", **SMALL | {"num_envs": 1}, steps=400)
    training_bar(run, made, dict.fromkeys(made.cost_names, 1.0), words=for_shell).close()
    told, listed = capsys.readouterr().err, describe_batch(made)
    made.close()
    assert ("no limit is given for" in told) == ("without a limit" in listed) == bool(free)
    for name in free:
        assert f"'{name}'" in told and name in listed.partition("without a limit: ")[2]
    assert not free or f"--limit {free[0]}=NUMBER limits it" in told


def test_workers_and_vectors_know_the_costs_without_a_limit():
    for how in ({"workers": 2}, {"vectorise": "sync"}):
        env = make_env(Road, 2, constraints=("heat",), **how)
        assert env.facts.free_costs == ("speed",)
        env.close()


# Arguments of another library


def test_a_policy_and_an_environment_are_no_arguments_of_agent():
    with pytest.raises(ValueError, match=r"not 'CartPole-v1': write Agent\('c-trpo'\)\.learn"):
        Agent("MlpPolicy", "CartPole-v1")


def test_a_policy_that_the_zoo_lacks_gets_near_names(capsys, tmp_path, monkeypatch):
    told = refused(capsys, "zoo", "nothing")
    assert told.startswith("holdfast: there is no policy 'zoo/nothing'") and "╭" not in told
    known = {"SafetyAntVelocity-v1": {}, "SafetyHopperVelocity-v1": {}}
    with pytest.raises(ZooError, match=r"did you mean 'zoo/SafetyAntVelocity-v1'\?"):
        entry_of("SafetyAntVelocty-v1", known)
    assert entry_of("zoo/SafetyAntVelocity-v1", known) == ("SafetyAntVelocity-v1", {})
