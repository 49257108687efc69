# SPDX-License-Identifier: Apache-2.0
"""Model cards: every number can be had again, every digest is true, nothing is claimed too much."""

import base64
import hashlib
import html
import json
import re
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast import Agent
from holdfast.cli import main
from holdfast.core.limits import parse_limit
from holdfast.drawing import svg
from holdfast.records.excursions import Excursion, excursions
from holdfast.records.statistics import cost_regret
from holdfast.ship.certify import card, certify, task
from holdfast.ship.certify import card_page as page
from holdfast.ship.certify.history import history
from small_runs import rows_without_clock

SIZES = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=2, critic_minibatch=64)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certify") / "run"
    agent = Agent("c-trpo", cost_limit=1.5, **SIZES)
    agent.learn("probe/Shortcut-v0", 400, progress=False).save(folder)
    return folder


@pytest.fixture(scope="module")
def made(run):
    return certify(run, episodes=40, seed=77)


def rows(costs, recovering=()):
    row = lambda i, c: {"env_steps": 10 * (i + 1), "ep_return_raw": i, "ep_cost_raw": c}
    return [row(i, c) | {"recovering": i in recovering} for i, c in enumerate(costs)]


def test_excursions_are_the_stretches_above_a_limit():
    costs = [9.0, 3.0, 6.0, 8.0, 5.0, 5.0, 7.0]
    told = history(rows(costs, recovering=(0, 3)), {"cost": 5.0})
    assert told.excursions == (
        Excursion(1, 1, 4.0, True),
        Excursion(3, 2, 3.0, True),
        Excursion(7, 1, 2.0, False),
    )
    found = told.summary()
    assert found["recoveries"] == 2 and found["epochs_over_limit"] == 4
    assert found["epochs_recovering"] == 2 and found["env_steps"] == 70
    assert told.regret == 4 + 1 + 3 + 2 == float(cost_regret(np.array(costs), 5.0)[-1])
    two = np.array([[-1.0, 1.0], [2.0, -1.0], [-1.0, -1.0]])
    assert excursions(two) == [Excursion(1, 2, 2.0, True)], "another constraint goes on with it"
    assert history(rows([5.0, 1.0]), {"cost": 5.0}).excursions == (), "at the limit is not above"


def test_a_card_says_what_the_run_folder_says(run, made):
    data = json.loads(made[1].read_text())
    agent = Agent.load(run)
    judged = agent.evaluate(episodes=40, seed=77)
    assert judged.summary().items() <= data["verdict"].items()
    assert data["verdict"]["proved"] == judged.verdict.proved_sentence
    assert data["cost_of_episodes"]["cost"] == judged.costs[:, 0].tolist()
    assert data["training"]["cost_regret"] == pytest.approx(agent.metrics[-1]["cost_regret_raw"])
    assert data["policy"]["env_steps"] == 400 and data["task"]["limits"] == {"cost": 1.5}


def test_the_command_in_a_card_gives_its_numbers_again(made, capsys):
    data = json.loads(made[1].read_text())
    command = next(c for c in data["reproduce"] if c.startswith("holdfast evaluate"))
    with suppress(SystemExit):  # its code says what the verdict is
        main([*command.split()[1:], "--json"])
    again = json.loads(capsys.readouterr().out)
    assert again.items() <= data["verdict"].items()


def test_the_training_command_in_a_card_repeats_the_run(made, run, tmp_path):
    """Limit, epoch length and all other settings included."""
    data = json.loads(made[1].read_text())
    command = next(c for c in data["reproduce"] if c.startswith("holdfast train"))
    main([*shlex.split(command)[1:], "--out", str(tmp_path / "again"), "--quiet"])
    again = tmp_path / "again"
    assert rows_without_clock(again / "progress.csv") == rows_without_clock(run / "progress.csv")
    main([*shlex.split(command)[1:], "--out", str(tmp_path / "other"), "--quiet", "--seed", "1"])
    other = rows_without_clock(tmp_path / "other" / "progress.csv")
    assert other != rows_without_clock(run / "progress.csv"), "the control"


def test_every_digest_is_that_of_its_file(run, made):
    data, text = json.loads(made[1].read_text()), made[0].read_text()
    assert {"run.json", "progress.csv", "film.png"} < set(data["files"])
    assert any(name.endswith("state.safetensors") for name in data["files"])
    for name, found in data["files"].items():
        file = made[0].parent / name if name.startswith("film") else run / name
        assert hashlib.sha256(file.read_bytes()).hexdigest() == found["sha256"]
        assert found["bytes"] == file.stat().st_size and found["sha256"] in text
    assert hashlib.sha256(made[1].read_bytes()).hexdigest() in text
    embedded = base64.b64decode(re.search(r'base64,([^"]+)"', text)[1])
    assert hashlib.sha256(embedded).hexdigest() == data["files"]["film.png"]["sha256"]


def test_a_page_is_whole_and_runs_nothing(made):
    text = made[0].read_text()
    assert "<script" not in text and "@import" not in text
    assert not re.search(r'(src|href)="(?!data:)', text) and "http" not in re.sub(
        'data:[^"]+', "", text
    )
    for title in ("Assumptions", "What it does not show", "To repeat it"):
        assert f"<h2>{title}</h2>" in text


def test_a_card_claims_no_more_than_is_known(run, made):
    """From 40 episodes nothing is proved here, and the page says so; single episodes may exceed."""
    data, text = json.loads(made[1].read_text()), made[0].read_text()
    answer = data["verdict"]["safe_at_95"]
    assert page.ANSWERS[answer] in text
    others = set(page.ANSWERS.values()) - {page.ANSWERS[answer]}
    assert not any(other in text for other in others)
    said = " ".join(data["not_shown"])
    high = data["verdict"]["violation_rate"]["high_95"]
    assert f"up to {high:.1%} cannot be excluded" in said
    assert "No other mass, friction, sensor noise or delay was tried." in said
    assert "It is about sampled actions. With most likely ones the policy is another" in said
    greedy = judged(run, evaluation=Agent.load(run).evaluate(episodes=12, deterministic=True))
    assert "It is about most likely actions. With sampled ones" in " ".join(card.not_shown(greedy))
    epochs = data["training"]["epochs_over_limit"]
    assert f"above a limit in {epochs} of 2 epochs" in said


def judged(run, **changes):
    agent = Agent.load(run)
    told = history(agent.metrics, agent.spaces.limits)
    evaluation = agent.evaluate(episodes=12, seed=3)
    inputs = card.CardInputs(run, str(run), agent, evaluation, 3, told, None, {}, agent.run)
    return replace(inputs, **changes)


@pytest.mark.parametrize(("cost", "answer"), [(0.0, "yes"), (9.0, "no"), (1.5, "undecided")])
def test_each_answer_has_its_page(run, cost, answer):
    made = judged(run)
    costs = np.full((4000 if answer == "yes" else 12, 1), cost)
    costs[0] = 1.0
    length = np.ones(len(costs), np.int64)
    result = replace(
        made.evaluation, costs=costs, returns=np.ones(len(costs)), lengths=length,
        cost_bounds=(10.0,),
    )  # fmt: skip
    made = replace(made, evaluation=result)
    data = card.describe(made)
    text = page.render(data, made, b"{}")
    assert data["verdict"]["safe_at_95"] == answer
    assert f'class="verdict {answer}"' in text and page.ANSWERS[answer] in text


def test_other_conditions_and_a_missing_history_are_named(run):
    made = judged(run)
    made = replace(
        made, conditions={"mass +20 %": made.evaluation}, history=history([], made.history.limits)
    )
    data = card.describe(made)
    text = page.render(data, made, b"{}")
    assert "<td>mass +20 %</td>" in text and "Only the conditions listed here" in text
    assert "saved without the history of its training" in text
    assert "the costs while it learned are unknown" in text


def test_a_card_under_other_conditions_can_be_had_again(run, tmp_path, capsys):
    """Each condition of the grid has a row, and the command in the card gives the same numbers."""
    words = ["sensor-noise=0.5", "action-delay=0,2"]
    text, stored = certify(run, tmp_path, episodes=12, seed=5, film=False, perturb=words)
    data = json.loads(stored.read_text())
    names = ["sensor noise 0.5", "sensor noise 0.5, action delay 2"]
    assert list(data["conditions"]) == names
    assert all(f"<td>{name}</td>" in text.read_text() for name in names)
    command = next(c for c in data["reproduce"] if "--perturb" in c)
    with suppress(SystemExit):  # its code says what the verdict is
        main([*command.split()[1:], "--json"])
    again = json.loads(capsys.readouterr().out)
    for row, found in zip(again, data["conditions"].values(), strict=True):
        assert found.items() <= row.items()
    assert data["conditions"][names[0]] != data["conditions"][names[1]], "the conditions matter"


def test_names_from_a_run_folder_are_text_not_markup(run):
    made = judged(run)
    name = '<img src=x onerror="alert(1)">'
    agent = made.agent
    agent.run = replace(agent.run, env=name)
    agent.spaces = replace(agent.spaces, limits={name: 1.5})
    evil = replace(made.evaluation, limits={name: 1.5})
    told = replace(made.history, limits={name: 1.5})
    made = replace(made, evaluation=evil, history=told, conditions={name: evil})
    text = page.render(card.describe(made), made, b"{}")
    assert name not in text and html.escape(name) in text


def test_the_command_says_where_the_card_is(run, tmp_path, capsys):
    main(["certify", str(run), "-o", str(tmp_path / "c"), "--episodes", "12", "--no-film"])
    said = capsys.readouterr().out
    assert str(tmp_path / "c" / "card.html") in said and "card.json" in said
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["card.html", "card.json"]
    assert "No film was made: it was not requested" in (tmp_path / "c" / "card.html").read_text()


def test_several_constraints_are_told_apart(tmp_path):
    """In the verdict, over the curves, at their limits and in the table of conditions."""
    agent = Agent("c-trpo", **SIZES).learn("probe/Machines-v0", 200, progress=False)
    agent.save(tmp_path / "run")
    made = certify(tmp_path / "run", episodes=12, film=False, perturb=["action-delay=1"])
    text = made[0].read_text()
    for words in ("mean cost of", ">heat: limit 9<", ">noise: limit 9.75<", "cost: heat, noise"):
        assert words in text, words
    drawn = svg.curves(np.arange(3.0), np.ones((3, 1)), {"heat": 2.0}, "one", "cost")
    assert ">limit 2<" in drawn and "heat" not in drawn  # the control: one needs no name


def test_a_card_states_what_the_task_and_each_cost_is():
    told = task.task_words("SafetyPointGoal2-v0")
    assert "hazards" in told and "1000 steps" in told
    costs = task.cost_words("SafetyPointGoal2-v0", ("cost", "hazards", "vases"))
    assert costs["hazards"] == "1 in a step inside a hazard"
    assert costs["vases"] == "1 in a step in which a vase is touched or in which a vase moves"
    assert "hazard" in costs["cost"] and "vase" in costs["cost"]
    (speed,) = task.cost_words("SafetyAntVelocity-v1", ("cost",)).values()
    assert speed.startswith("1 in a step above the speed limit of 2.6")
    assert "speed" in task.task_words("probe/Speed-v0")
    tank = str(Path(__file__).parents[2] / "docs" / "examples" / "tank.py:Tank")
    assert task.task_words(tank).startswith("Keep the level high by opening none")
    assert "reports as spill" in task.cost_words(tank, ["spill"])["spill"]
    assert "reward" in task.task_words("CartPole-v1") or "pole" in task.task_words("CartPole-v1")
    nobody = type("Nobody", (), {})
    assert task.task_words("nobody", nobody()) == task.UNKNOWN, "nothing is made up"


def test_every_native_cost_has_a_meaning():
    from holdfast.envs.native.worlds.cost_terms import ENTRIES

    assert {key for keys in ENTRIES.values() for key in keys} == set(task.MEANING)


def test_the_verdict_stands_once_and_every_constraint_in_the_table(run):
    made = judged(run, about="A shortcut <i>past</i> guards.")
    data = card.describe(made)
    text = page.render(data, made, b"{}")
    answer = data["verdict"]["safe_at_95"]
    assert text.count(page.ANSWERS[answer]) == 1 and "Safe, proved at 95 %" not in text
    assert html.escape("A shortcut <i>past</i> guards.") in text
    assert data["verdict"]["proved"].startswith("Safe, proved at 95%: ")
    shown = page._reason(data["verdict"]["proved"])
    assert shown[0].isupper() and data["verdict"]["proved"].endswith(shown[1:])
    known = {"mean": 1.0, "limit": 2.0, "proved_low_95": 0.5, "proved_high_95": 1.5}
    assert page._holds(known) == "safe" and page._holds(known | {"limit": 0.1}) == "unsafe"
    assert page._holds(known | {"limit": 1.0}) == "undecided"
    both = page._each({"heat": known, "wear": known | {"limit": 0.1}})
    assert "heat safe (mean 1.00 of 2), wear unsafe" in both and page._each({"heat": known}) == ""
    assert page._holds(known | {"proved_high_95": None}) == "undecided"


@pytest.mark.parametrize("limit", ["1.5 worst 20%", "1.5 in 80%"])
def test_a_policy_under_a_limit_beyond_the_mean_has_a_card(limit, tmp_path, capsys):
    """What is proved is the tail or the chance, in the words, in the table and in the command."""
    agent = Agent("c-trpo", limits={"cost": limit}, **SIZES)
    agent.learn("probe/Shortcut-v0", 400, progress=False).save(tmp_path / "run")
    text, stored = certify(tmp_path / "run", episodes=40, film=False)
    data, shown = json.loads(stored.read_text()), text.read_text()
    row = data["verdict"]["cost"]["cost"]
    assert data["task"]["limits"] == {"cost": limit} and row["kind"] == limit
    assert limit in shown and "A limit is on the mean sum" not in shown
    assert parse_limit(limit).quantity in " ".join(data["verdict"]["assumptions"])
    command = next(c for c in data["reproduce"] if c.startswith("holdfast evaluate"))
    with suppress(SystemExit):
        main([*shlex.split(command)[1:], "--json"])
    assert json.loads(capsys.readouterr().out).items() <= data["verdict"].items()
    text, stored = certify(tmp_path / "run", episodes=40, film=False, limits={"cost": "2 in 90%"})
    data = json.loads(stored.read_text())
    assert data["task"]["limits"] == {"cost": "2 in 90%"}
    command = next(c for c in data["reproduce"] if c.startswith("holdfast evaluate"))
    with suppress(SystemExit):
        main([*shlex.split(command)[1:], "--json"])
    assert json.loads(capsys.readouterr().out).items() <= data["verdict"].items()


def test_a_chance_is_held_by_its_share_not_by_its_amount():
    chance = {"mean": 9.0, "limit": 25.0, "bound": 0.05}
    bounds = {"proved_low_95": 0.2, "proved_high_95": 0.4}
    assert page._holds(chance | bounds) == "unsafe"
    assert page._holds(chance | bounds | {"bound": 0.5}) == "safe"
    assert page._holds({"mean": 9.0, "limit": 25.0} | bounds) == "safe", "the control: a mean"


def test_both_heads_stand_side_by_side_under_one_verdict(run, made, capsys):
    """The greedy head is judged beside the sampled one, and its command gives its numbers again."""
    data, text = json.loads(made[1].read_text()), made[0].read_text()
    greedy = data["other_head"]
    assert data["policy"]["actions"] == "sampled" and greedy["actions"] == "most likely"
    assert greedy["episodes"] == 40 and greedy["return"] != data["verdict"]["return"]
    assert "<td>sampled</td>" in text and "<td>most likely</td>" in text
    assert text.count('class="verdict') == 1, "one verdict line"
    command = next(c for c in data["reproduce"] if "--greedy" in c)
    with suppress(SystemExit):
        main([*command.split()[1:], "--json"])
    assert json.loads(capsys.readouterr().out).items() <= greedy.items()
    alone = page.render(card.describe(judged(run)), judged(run), b"{}")
    assert "<td>most likely</td>" not in alone  # the control: one head


def test_a_card_names_the_noise_of_the_policy(run, made):
    data = json.loads(made[1].read_text())
    time = Agent.load(run).state.noise.time
    assert data["policy"]["noise_time"] == time and card.noise_words(time) in made[0].read_text()
    assert card.noise_words(10.0) == "The noise of sampled actions lasts 10 steps."
    assert "white" in card.noise_words(0.0)
