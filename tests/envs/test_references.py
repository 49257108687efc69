# SPDX-License-Identifier: Apache-2.0
"""One's own environment by name: on the command line, in run.json, in worker processes."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from holdfast import Agent, cli
from holdfast.envs.foreign import references
from holdfast.envs.foreign.source import Factory, label_of, name_env, resolve
from holdfast.envs.make import make_env
from holdfast.run import make_run
from holdfast.runs import consent
from holdfast.runs.folder import open_folder
from holdfast.train.environment import open_env

TANK = Path(__file__).parents[2] / "docs" / "examples" / "tank.py"
SMALL = {"num_envs": 2, "epoch_steps": 80, "hidden": (8,), "cg_steps": 2, "critic_passes": 1}
FLAGS = "--steps 80 --epoch-steps 80 --num-envs 2 --hidden 8 --quiet".split()
LIMITS = "--limit spill=5 --limit dry=2".split()
MORE = """

class Outer:
    class Inner(Tank):
        pass


def half(size=0.5):
    return Tank(size)


def tanks(num_envs, size=1.0):
    return gym.vector.SyncVectorEnv([lambda: Tank(size)] * num_envs)


def level(obs, action, next_obs):
    return abs(float(next_obs["level"][0]) - 0.5)


unnamed = lambda: Tank()


def local():
    class Hidden(Tank):
        pass

    return Hidden
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the user's with tank.py in it; imports from it are forgotten afterwards."""
    (tmp_path / "tank.py").write_text(TANK.read_text() + MORE)
    package = (
        "import gymnasium\nfrom tank import Tank\n"
        "gymnasium.register('TankTest-v0', entry_point=Tank, max_episode_steps=9)\n"
    )
    (tmp_path / "tankage.py").write_text(package)
    (tmp_path / "broken.py").write_text("import no_such_module\n")
    monkeypatch.chdir(tmp_path)
    elsewhere = [path for path in sys.path if not (Path(path) / "tank.py").exists()]
    monkeypatch.setattr(sys, "path", elsewhere)
    for name in ("tank", "tankage"):  # of another test's folder
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    gym.registry.pop("TankTest-v0", None)


@pytest.mark.parametrize("name", ["tank.py:Tank", "tank:Tank", "tank:half", "tank.py:Outer.Inner"])
def test_every_kind_of_name_makes_the_same_batch(here, name):
    named = make_env(name, 2, constraints=("spill", "dry"), env_args={"size": 0.7})
    made = make_env(lambda: references.load("tank.py:Tank")(0.7), 2, constraints=("spill", "dry"))
    assert np.array_equal(named.reset(3), made.reset(3))
    for action in ([2, 2], [2, 1], [0, 2]):
        one, other = named.step(np.array(action)), made.step(np.array(action))
        assert np.array_equal(one.obs, other.obs) and np.array_equal(one.cost, other.cost)


def test_a_registered_id_imports_its_package_first(here):
    assert "TankTest-v0" not in gym.registry
    env = make_env("tankage:TankTest-v0", 2, env_args={"size": 0.1})
    env.reset(0)
    assert env.facts.time_limit == 9 and env.step(np.array([2, 2])).cost.tolist() == [[1.0], [1.0]]


def test_names_reach_worker_processes(here):
    how = {"constraints": None, "cost": "tank.py:level", "env_args": {"size": 0.7}}
    pooled = make_env("tank.py:Tank", 2, vectorise="process", workers=2, **how)
    loop = make_env("tank.py:Tank", 2, **how)
    try:
        assert np.array_equal(pooled.reset(3), loop.reset(3))
        one, other = (env.step(np.array([2, 0])) for env in (pooled, loop))
        assert np.array_equal(one.cost, other.cost) and (one.cost > 0).all()
    finally:
        pooled.close()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("tank.py:Tnak", "'tank.py' has no 'Tnak'; did you mean 'Tank'?"),
        ("tonk.py:Tank", "there is no file"),
        ("tonk:Tank", "there is no module 'tonk'"),
        ("tonk:Tank-v0", "there is no module 'tonk'"),
        ("tankage:Tonk-v0", "unknown env 'tankage:Tonk-v0'"),
        ("broken:Tank", "importing 'broken' raised ModuleNotFoundError: No module named 'no_such"),
        ("tank.py:Outer.Tank", "'tank.py' has no 'Tank'"),
    ],
)
def test_a_wrong_name_is_one_sentence(here, name, told):
    with pytest.raises(ValueError) as error:
        make_env(name, 1)
    assert told in str(error.value)


def test_wrong_arguments_are_one_sentence(here):
    with pytest.raises(ValueError, match=r"cannot be made: got an unexpected keyword .*'siz'"):
        make_env("tank.py:Tank", 1, env_args={"siz": 1})
    with pytest.raises(ValueError, match="env_args= cannot change Env 'probe/Speed-v0'"):
        make_env("probe/Speed-v0", 1, env_args={"size": 1})
    with pytest.raises(ValueError, match=r"which run.json cannot keep"):
        make_run("c-trpo", env="tank.py:Tank", env_args={"size": np.ones(3)})


def test_what_has_a_name_is_found_by_it_and_nothing_else_gets_one(here):
    module = references.import_place("tank.py")
    for name in ("Tank", "half", "Outer.Inner", "level"):
        found = references.load(f"tank.py:{name}")
        assert references.name_of(found) == f"tank.py:{name}"
    assert references.name_of(json.JSONDecoder) == "json.decoder:JSONDecoder"
    for nameless in (module.unnamed, module.local(), lambda: 0, 3, module.Tank()):
        assert references.name_of(nameless) is None
    assert name_env(module.unnamed) == ("<lambda>", {})
    assert name_env(module.Tank()) == ("<Tank>", {})
    assert label_of(resolve(module.Tank, args={"size": 2.0})) == "'Tank'"


def test_instances_are_named_only_if_nothing_is_lost():
    plain = gym.make("Pendulum-v1", g=5.0)
    assert name_env(plain) == ("Pendulum-v1", {"g": 5.0})
    shorter = gym.make("Pendulum-v1", max_episode_steps=7)
    for other in (gym.wrappers.FlattenObservation(plain), shorter):
        assert name_env(other) == ("<Pendulum-v1>", {})


def test_a_file_is_run_once_and_a_script_names_its_own_classes(here):
    (here / "script.py").write_text(
        "from tank import Tank\nfrom holdfast.envs.foreign import references\n"
        "class Mine(Tank): pass\n"
        "if __name__ == '__main__':\n"
        "    print(references.name_of(Mine), references.load('script.py:Mine') is Mine)\n"
    )
    told = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, check=True, cwd=here
    )
    assert told.stdout == "script.py:Mine True\n"
    assert references.load("tank.py:Tank") is references.load(str(here / "tank.py") + ":Tank")


# Consent


def test_a_run_folder_cannot_import_anything_by_itself(here, capsys):
    cli.main(["train", "c-trpo", "tank.py:Tank", *LIMITS, *FLAGS, "--out", "run"])
    config = json.loads((here / "run" / "run.json").read_text())
    assert config["run"]["env"] == "tank.py:Tank"
    evil = f"open({str(here / 'owned')!r}, 'w').close()\n" + TANK.read_text()
    (here / "evil.py").write_text(evil)
    for changes in (
        {"env": "evil.py:Tank"},
        {"env": "evil:Tank"},
        {"env": "evil:Tank-v0"},
        {"env": "probe/Speed-v0", "cost": "evil:level"},
        {"env": "Pendulum-v1", "env_args": {"g": 1.0}},
    ):
        changed = config | {"run": config["run"] | changes}
        (here / "run" / "run.json").write_text(json.dumps(changed))
        for command in (
            "resume run --steps 160",
            "evaluate run",
            "watch run -o film.gif",
            "certify run",
        ):
            with pytest.raises(SystemExit) as stop:
                cli.main(command.split())
            assert stop.value.code == 2 and "--trust-env" in capsys.readouterr().err
        loaded = Agent.load("run")
        for use in (loaded.learn, loaded.evaluate, partial(loaded.watch, "film.gif")):
            with pytest.raises(ValueError, match="trust_env=True"):
                use()
    assert not (here / "owned").exists()
    changed = config | {"run": config["run"] | {"env": "evil.py:Tank"}}
    (here / "run" / "run.json").write_text(json.dumps(changed))
    with pytest.raises(SystemExit):  # the control: it would
        cli.main(["evaluate", "run", "--episodes", "2", "--trust-env"])
    assert (here / "owned").exists()


def test_a_suite_cannot_import_anything_by_itself(here, capsys):
    (here / "own.toml").write_text(
        'steps = 80\nseeds = 1\ntasks = ["tank.py:Tank"]\nalgorithms = ["c-trpo"]\n'
        "settings = { epoch_steps = 80, num_envs = 2, limits = { spill = 5, dry = 2 } }\n"
    )
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "own.toml", "--dry-run"])
    assert stop.value.code == 2 and "--trust-env" in capsys.readouterr().err
    cli.main(["bench", "own.toml", "--dry-run", "--trust-env"])
    assert capsys.readouterr().out == "c-trpo_tank.py-Tank_seed0\n"


def test_a_plain_id_needs_no_consent():
    run = make_run("c-trpo", env="Pendulum-v1", num_envs=1)
    with pytest.raises(ValueError, match="reports no cost"):
        open_env(run)
    with pytest.raises(ValueError, match="cannot be loaded by name"):
        open_env(make_run("c-trpo", env="<lambda>"))


def forget(folder):
    """As if another user had trained it."""
    consent._record(folder).unlink()


def test_a_run_is_trusted_only_where_and_as_this_user_trained_it(here, tmp_path, monkeypatch):
    run = make_run("c-trpo", env="tank.py:Tank")
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    assert not consent.is_remembered(folder)
    consent.remember(folder, run)
    assert consent.is_remembered(folder)
    shutil.copytree(folder, tmp_path / "copy")
    assert not consent.is_remembered(tmp_path / "copy"), "from elsewhere"
    (folder / "run.json").write_text("{ }")
    assert not consent.is_remembered(folder), "changed"
    (folder / "run.json").write_text("{}")
    (tmp_path / "other").mkdir()
    with monkeypatch.context() as moved:
        moved.chdir(tmp_path / "other")
        assert not consent.is_remembered(folder), "tank.py would be another file"
    assert consent.is_remembered(folder), "the control"
    consent.remember(tmp_path / "copy", make_run("c-trpo", env="probe/Speed-v0"))
    assert not consent.is_remembered(tmp_path / "copy"), "what needs no consent leaves no record"


def test_saving_a_foreign_run_does_not_make_it_one_s_own(here):
    cli.main(["train", "c-trpo", "tank.py:Tank", *LIMITS, *FLAGS, "--out", "run"])
    assert len(Agent.load("run").evaluate(episodes=2).returns) == 2, "trained here"
    forget(Path("run"))
    Agent.load("run").save("copy")
    for folder in ("run", "copy"):
        with pytest.raises(ValueError, match="there is no record that you trained it here"):
            Agent.load(folder).evaluate(episodes=2)


# The way through


def test_one_s_own_environment_is_resumed_to_the_same_bits(here):
    name = "tank.py:Tank"
    whole = ["--steps", "160", "--epoch-steps", "80", "--num-envs", "2", "--hidden", "8", "--quiet"]
    arg = ["--env-arg", "size=0.8"]
    cli.main(["train", "c-trpo", name, *LIMITS, *arg, *whole, "--out", "whole"])
    cli.main(["train", "c-trpo", name, *LIMITS, *arg, *FLAGS, "--out", "half"])
    cli.main(["resume", "half", "--steps", "160", "--quiet", "--trust-env"])
    one, other = Agent.load("whole").state, Agent.load("half").state
    assert np.array_equal(one.obs, other.obs)
    for a, b in zip(one.learner.policy.layers, other.learner.policy.layers, strict=True):
        assert np.array_equal(a[0], b[0])
    folder = open_folder(Path("half"))
    assert folder.run.env_args == {"size": 0.8} and folder.spaces.limits == {"spill": 5, "dry": 2}


def test_a_moved_file_is_named_anew(here):
    cli.main(["train", "c-trpo", "tank.py:Tank", *LIMITS, *FLAGS, "--out", "run"])
    (here / "elsewhere").mkdir()
    os.rename("tank.py", "elsewhere/tank.py")
    cli.main(["resume", "run", "--steps", "160", "--quiet", "--env", "elsewhere/tank.py:Tank"])
    assert open_folder(Path("run")).run.env == "elsewhere/tank.py:Tank"


def test_an_agent_goes_on_in_the_folder_it_was_loaded_from(here):
    tank = references.load("tank.py:Tank")
    limits = {"spill": 5.0, "dry": 2.0}
    agent = Agent("c-trpo", **SMALL)
    agent.learn(tank, 80, progress=False, limits=limits, out="run")
    again = Agent.load("run").learn(total_steps=80, progress=False, out="run", trust_env=True)
    assert again.state.epoch == 2 and open_folder(Path("run")).run.steps == 160
    whole = Agent("c-trpo", **SMALL).learn(tank, 160, progress=False, limits=limits)
    assert np.array_equal(whole.state.obs, again.state.obs)
    third = Agent.load("run").learn(tank, 80, progress=False, out="run")  # named by the user
    assert third.state.epoch == 3
    with pytest.raises(ValueError, match="a run with other settings"):
        Agent.load("run").learn(tank, 80, progress=False, out="run", seed=7)
    with pytest.raises(ValueError, match="contains epoch 3"):
        again.learn(total_steps=80, progress=False, out="run")


def test_what_has_no_name_is_passed_again(here):
    tank = references.load("tank.py:Tank")
    agent = Agent("c-trpo", **SMALL)
    agent.learn(lambda: tank(), 80, progress=False, limits={"spill": 5.0}, out="run")
    assert agent.run.env == "<lambda>"
    assert len(agent.evaluate(episodes=2).returns) == 2  # it is still here
    loaded = Agent.load("run")
    for use in (loaded.learn, loaded.evaluate):
        with pytest.raises(
            ValueError, match=r"used <lambda>, which cannot be loaded by name .* pass it again"
        ):
            use()
    loaded.learn(tank, 80, progress=False, out="run")
    assert open_folder(Path("run")).run.env == "tank.py:Tank"


def test_a_cost_function_by_name(here):
    cost = ["--cost", "tank.py:level", "--cost-limit", "4"]
    cli.main(["train", "c-trpo", "tank.py:Tank", *cost, *FLAGS, "--out", "run"])
    assert open_folder(Path("run")).run.cost == "tank.py:level"
    result = Agent.load("run").evaluate(episodes=2, trust_env=True)
    assert list(result.limits) == ["cost"] and (result.costs % 1 != 0).all()


def test_watch_and_certify_take_the_same_names(here, capsys):
    """Named on the command line they need no consent, and the card speaks of what was judged."""
    size = ["--env-arg", "size=0.8"]
    cost = ["--cost", "tank.py:level"]
    words = ["train", "c-trpo", "tank.py:Tank", *size, *cost, "--cost-limit", "4", *FLAGS]
    cli.main([*words, "--out", "run"])
    other = ["--env", "tank.py:Tank", "--env-arg", "size=0.5", *cost]
    cli.main(["watch", "run", "-o", "episode.svg", *other])
    assert Path("episode.svg").stat().st_size > 1000
    quick = ["certify", "run", "--episodes", "4", "--no-film"]
    cli.main([*quick, *other])
    card = json.loads(Path("run/card/card.json").read_text())
    assert card["task"]["env"] == card["task"]["trained_on"] == "tank.py:Tank"
    assert "--env tank.py:Tank --env-arg size=0.5" in card["reproduce"][1]
    for command in (["watch", "run", "-o", "other.svg"], quick):
        with pytest.raises(SystemExit):  # an argument of nothing
            cli.main([*command, *size])
        cli.main(command)  # this user trained it here
    assert capsys.readouterr().err.count("belongs to --env") == 2
    forget(Path("run"))
    for command in (["watch", "run", "-o", "other.svg"], quick):
        with pytest.raises(SystemExit):
            cli.main(command)
    assert capsys.readouterr().err.count("--trust-env") == 2


def test_check_takes_the_same_names(here, capsys):
    cli.main(["check", "tank.py:Tank", "--env-arg", "size=0.8"])
    assert "nothing found" in capsys.readouterr().out
    cli.main(["check", "tank:tanks"])
    assert "nothing found" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["check", "tank.py:Tank", "--limit", "spil=3"])
    assert "did you mean" in capsys.readouterr().out


def test_a_factory_is_resolved_once():
    factory = resolve(gym.Env)
    assert isinstance(factory, Factory) and resolve(factory) is factory


def test_commands_that_are_offered_work_as_they_stand(here, capsys):
    """After a training and in a card: with consent where it is needed, and only there."""
    loud = [flag for flag in FLAGS if flag != "--quiet"]
    cli.main(["train", "c-trpo", "tank.py:Tank", *LIMITS, *loud, "--out", "run"])
    offered = re.findall(r": +holdfast (.+)", capsys.readouterr().out)
    assert [words.split()[0] for words in offered] == ["evaluate", "plot", "watch", "export"]
    cli.main(["certify", "run", "--episodes", "4", "--no-film"])
    offered += [
        words.removeprefix("holdfast ")
        for words in json.loads(Path("run/card/card.json").read_text())["reproduce"]
        if words.startswith("holdfast evaluate")
    ]
    for words in offered:
        try:
            cli.main(words.split())
        except SystemExit as stop:
            assert stop.code in (1, 3), words  # a verdict, no refusal
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", "run"])
    told = capsys.readouterr().err
    assert "`holdfast evaluate run`" in told and "resume run --steps" in told
    forget(Path("run"))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", "run"])
    told = capsys.readouterr().err
    assert "`holdfast evaluate run --trust-env`" in told and "resume run --trust-env --st" in told
    cli.main(["train", "c-trpo", "probe/Speed-v0", *loud, "--out", "probe"])
    assert "--trust-env" not in capsys.readouterr().out  # the control: ours need none
