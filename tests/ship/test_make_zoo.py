# SPDX-License-Identifier: Apache-2.0
"""The zoo: made from run folders, used by name in every command, digests checked."""

import json

import numpy as np
import pytest

from holdfast import Agent
from holdfast.cli import main
from holdfast.records.zoo import ZooError, entries
from small_runs import SMALL, rows_without_clock

TASK = "SafetyHopperVelocity-v1"
TINY = SMALL | {"epoch_steps": 4_000, "critic_passes": 1, "cg_steps": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two seeds of one task, and a lower one that is not finished; the zoo takes the second."""
    root = tmp_path_factory.mktemp("zoo")
    for seed in (2, 1):
        agent = Agent("c-trpo", seed=seed, workers=1, **TINY)
        agent.learn(TASK, 4_000, out=root / f"run{seed}", progress=False)
    agent = Agent("c-trpo", seed=0, workers=1, **TINY)
    agent.learn(TASK, 8_000, out=root / "begun", progress=False, callback=stop_after_one)
    main(["zoo", "--make", str(root), "--to", str(root / "zoo"), "--episodes", "10"])
    return root


def stop_after_one(epoch):
    return epoch.index < 1


@pytest.fixture
def zoo(made, monkeypatch):
    monkeypatch.setenv("HOLDFAST_ZOO", str(made / "zoo"))
    return made / "zoo"


def test_the_lowest_seed_is_taken_and_listed(made, zoo, capsys):
    assert entries()[TASK]["seed"] == 1
    assert (zoo / TASK / "card" / "card.html").exists()
    main(["zoo"])
    said = capsys.readouterr().out
    assert f"zoo/{TASK}" in said and "holdfast watch zoo/" in said


def test_the_record_is_that_of_training_and_no_path_is_kept(made, zoo):
    for name in ("run.json", "done.json"):
        assert (zoo / TASK / name).read_bytes() == (made / "run1" / name).read_bytes()
    files = [p for p in zoo.rglob("*") if p.is_file()]
    assert files and not any(str(made).encode() in file.read_bytes() for file in files)


def test_the_commands_of_its_card_repeat_it(zoo, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    card = json.loads((zoo / TASK / "card" / "card.json").read_text())
    _, judge, greedy, train = card["reproduce"]
    assert f"holdfast evaluate zoo/{TASK} --episodes 10" in judge and "--greedy" in greedy
    for line, head in ((judge, "verdict"), (greedy, "other_head")):
        try:
            main([*line.split()[1:], "--json"])
        except SystemExit as ended:
            assert ended.code in (1, 3)
        assert json.loads(capsys.readouterr().out)["return"] == card[head]["return"]
    main([*train.split()[1:], "--quiet", "--out", "again"])
    again, first = (
        rows_without_clock(f / "progress.csv") for f in (tmp_path / "again", zoo / TASK)
    )
    assert again == first


def test_a_name_is_as_good_as_a_folder(made, zoo, tmp_path, capsys, monkeypatch):
    by_name, by_folder = Agent.load(f"zoo/{TASK}"), Agent.load(made / "run1")
    obs = np.linspace(-1, 1, by_name.spaces.observation.shape[0])
    np.testing.assert_array_equal(by_name.predict(obs), by_folder.predict(obs))
    main(["export", f"zoo/{TASK}", "-o", str(tmp_path / "p.npz")])
    assert f"holdfast evaluate zoo/{TASK} --greedy" in " ".join(capsys.readouterr().out.split())
    main(["watch", f"zoo/{TASK}", "-o", str(tmp_path / "film.gif"), "--frames", "2"])
    assert (tmp_path / "film.gif").exists()
    capsys.readouterr()
    try:
        main(["evaluate", f"zoo/{TASK}", "--episodes", "10", "--json"])
    except SystemExit as ended:
        assert ended.code in (1, 3)
    judged = json.loads(capsys.readouterr().out)
    assert judged["return"]["mean"] == entries()[TASK]["return"]
    monkeypatch.chdir(tmp_path)
    main(["train", "--from", f"zoo/{TASK}", "--steps", "4000", "--out", "more", "--quiet"])
    assert json.loads((tmp_path / "more" / "run.json").read_text())["run"]["origin"] == (
        f"zoo/{TASK}@1"
    )


def test_nothing_is_written_into_the_zoo_and_nothing_is_lost_with_its_copy(zoo, tmp_path, capsys):
    before = {p: p.read_bytes() for p in zoo.rglob("*") if p.is_file()}
    for words, remedy in (
        (["evaluate", "--episodes", "2", "--save"], "leave --save out"),
        (["certify", "--episodes", "2"], "a folder for the card with --out"),
        (["plot"], "a file for the picture with --out"),
        (["resume", "--steps", "8000"], "`holdfast train --from`"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([words[0], f"zoo/{TASK}", *words[1:]])
        said = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 2 and f"'zoo/{TASK}' comes with the library" in said
        assert remedy in said
    main(["plot", f"zoo/{TASK}", "-o", str(tmp_path / "curve.png")])
    assert (tmp_path / "curve.png").exists()
    assert before == {p: p.read_bytes() for p in zoo.rglob("*") if p.is_file()}


def test_unknown_names_and_wrong_digests_are_one_sentence(zoo, monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["watch", "zoo/SafetyHoperVelocity-v1"])
    said = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2 and said.startswith(
        "holdfast: there is no policy 'zoo/SafetyHoper"
    )
    with pytest.raises(ZooError, match=rf"no policy 'zoo/SafetyHoper.*did you mean 'zoo/{TASK}'"):
        Agent.load("zoo/SafetyHoperVelocity-v1")
    file = next((zoo / TASK).glob("checkpoint/*/state.safetensors"))
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(ZooError, match=r"state.safetensors.*digest differs.*install"):
            Agent.load(f"zoo/{TASK}")
        file.unlink()
        with pytest.raises(ZooError, match=r"lacks its checkpoint"):
            Agent.load(f"zoo/{TASK}")
    finally:
        file.write_bytes(whole)
    Agent.load(f"zoo/{TASK}")
    monkeypatch.setenv("HOLDFAST_ZOO", str(tmp_path))
    with pytest.raises(ZooError, match=r"zoo --make RUNS"):
        Agent.load(f"zoo/{TASK}")


def test_the_zoo_is_made_of_trained_runs_only(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["zoo", "--make", str(tmp_path), "--to", str(tmp_path / "zoo")])
    assert "name trained runs" in " ".join(capsys.readouterr().err.split())
    main(["zoo", "--to", str(tmp_path)])
    assert "No policies come with this installation" in capsys.readouterr().out


def test_every_policy_that_comes_with_the_library_is_whole():
    for name in entries():
        assert Agent.load(f"zoo/{name}").state is not None
