# SPDX-License-Identifier: Apache-2.0
"""Exported policies act as ours do, on 10⁵ observations, and a wrong one is found out."""

import functools
import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from scipy.stats import kstest

from full import repeats
from holdfast import Agent
from holdfast.cli import main
from holdfast.envs.acting import Actor, Normaliser
from holdfast.ship.export import Portable, agreement, export, graph, numpy_policy
from holdfast.ship.export.agreement import Disagreement, check, numpy_heads, onnx_heads

BOX = gym.spaces.Box
BOTH = dict(double=True, noise=True)
SPACES = {
    "box": BOX(-1.0, 1.0, (6,), np.float32),
    "lopsided": BOX(np.array([-3.0, 0.1]), np.array([0.5, 0.2]), dtype=np.float64),
    "half open": BOX(np.array([-np.inf, -0.1]), np.array([np.inf, np.inf]), dtype=np.float64),
    "discrete": gym.spaces.Discrete(5, start=-3),
    "multi": gym.spaces.MultiDiscrete([2, 4, 3]),
    "grid": BOX(-2.0, 5.0, (2, 3), np.float32),
    "named": gym.spaces.MultiDiscrete([[2, 4], [3, 2]], start=[[3, 0], [-1, 7]]),
    "bits": gym.spaces.MultiBinary(4),
}


def policy(name, size=17, normalised=True, seed=0):
    """A policy of usual size with weights as training leaves them."""
    rng, space = np.random.default_rng(seed), SPACES[name]
    sizes = ()
    if isinstance(space, gym.spaces.Discrete):
        sizes = (int(space.n),)
    elif isinstance(space, gym.spaces.MultiDiscrete):
        sizes = tuple(space.nvec.reshape(-1).tolist())
    elif isinstance(space, gym.spaces.MultiBinary):
        sizes = (2,) * int(space.n)
    width = sum(sizes) or int(np.prod(space.shape))
    widths = [size, 64, 64, width]
    layers = tuple(
        (
            (rng.uniform(-1, 1, (a, b)) / np.sqrt(a)).astype(np.float32),
            rng.uniform(-0.2, 0.2, b).astype(np.float32),
        )
        for a, b in itertools.pairwise(widths)
    )
    std = None if sizes else np.exp(rng.uniform(-2, 0, width)).astype(np.float32)
    seen = Normaliser(3 * rng.normal(size=size), rng.uniform(1e-4, 9, size), 100.0)
    return Portable(Actor(layers, std, sizes, seen if normalised else None), space, {"env": "x"})


def far_and_wide(made, count):
    """Observations around the statistics and up to 20 deviations off."""
    rng, seen = np.random.default_rng(9), made.actor.normaliser or Normaliser.create(17)
    width = np.repeat([1.0, 5.0, 20.0], -(-count // 3))[:count, None]
    return seen.mean + width * seen.scale * rng.normal(size=(count, made.obs_size))


@pytest.mark.repeats
@pytest.mark.parametrize(
    ("name", "normalised", "count"),
    [(n, True, repeats(10_000, 100_000) if n in ("box", "discrete") else 10_000) for n in SPACES]
    + [("box", False, 10_000), ("multi", False, 10_000)],
)
def test_onnx_acts_as_ours_on_many_observations(name, normalised, count):
    """Equal to 1e-6 of half the bounds' width; choices equal but for scores as good as equal."""
    made = policy(name, normalised=normalised)
    obs = far_and_wide(made, count)
    action, sampled = onnx_heads(made, graph.onnx_model(made, **BOTH), **BOTH)(obs, 4)
    noise = made.actor.draw(np.random.default_rng(4), (1, len(obs)))[0]
    for got, given in ((action, None), (sampled, noise)):
        ours = made.act(obs, given)
        assert got.shape == ours.shape and got.dtype == ours.dtype
        assert all(made.space.contains(a) for a in got[:100])
        if isinstance(made.space, BOX):
            width = (made.space.high - made.space.low) / 2
            unit = np.where(np.isfinite(width), width, np.maximum(1, np.abs(ours)))
            assert np.abs((got - ours) / unit).max() <= 1e-6
            assert len(np.unique(ours)) > 1000
        else:
            other = (got != ours).reshape(len(obs), -1).any(1)
            assert (closest(made, obs, given)[other] < 4e-6).all()
            assert other.sum() < 5 and len(np.unique(ours)) == len(np.unique(got)) > 1


def closest(made, obs, noise):
    """[n] the smallest distance of the best score of a block to the next."""
    blocks = np.split(made.scores(obs, noise), np.cumsum(made.actor.sizes)[:-1], axis=-1)
    ordered = [np.sort(block, axis=-1) for block in blocks]
    return np.min([block[:, -1] - block[:, -2] for block in ordered], axis=0)


@pytest.mark.parametrize("name", SPACES)
def test_numpy_acts_bit_for_bit_as_ours(name):
    """One by one or as a batch, and with the same noise the same draws."""
    made = policy(name)
    reader, obs = numpy_policy.Policy(io.BytesIO(made.npz())), far_and_wide(made, 10_000)
    np.testing.assert_array_equal(reader(obs), made.act(obs))
    np.testing.assert_array_equal([reader(o) for o in obs[:50]], made.act(obs[:50]))
    noise = made.actor.draw(np.random.default_rng(2), (1, len(obs)))[0]
    np.testing.assert_array_equal(reader(obs, noise), made.act(obs, noise))
    assert reader.about == {"env": "x"}


@pytest.mark.parametrize("name", ["box", "multi"])
@pytest.mark.parametrize("time", [0.0, 5.0])
def test_the_noise_of_an_export_has_the_law_of_training(name, time):
    """Correlation of two steps and the law of one, as ours draws them; another time is told."""
    made = policy(name)
    made = replace(made, actor=replace(made.actor, noise_time=time), about={"noise_time": time})
    stream = numpy_policy.Policy(io.BytesIO(made.npz())).noise(np.random.default_rng(0), 500)
    theirs = np.stack(list(itertools.islice(stream, 40)))
    ours = made.actor.draw(np.random.default_rng(1), (40, 500))
    assert theirs.shape == ours.shape and theirs.dtype == ours.dtype
    assert kstest(theirs[-1].ravel(), ours[-1].ravel()).pvalue > 0.01
    follow = lambda x: np.corrcoef(x[1:].ravel(), x[:-1].ravel())[0, 1]
    assert follow(theirs) == pytest.approx(follow(ours), abs=0.03)
    other = replace(made.actor, noise_time=time + 3).draw(np.random.default_rng(1), (40, 500))
    assert abs(follow(theirs) - follow(other)) > 0.03


@pytest.mark.parametrize("name", SPACES)
def test_what_is_exported_is_checked_far_away_too(name):
    made = policy(name)
    for heads in (
        onnx_heads(made, graph.onnx_model(made, **BOTH), **BOTH),
        numpy_heads(made, made.npz()),
    ):
        said = check(made, heads, count=2_000)
        assert said.observations == 2_000 + 3 + 3 * (2 * 17 + 100)
        assert said.largest < 1e-5


def without_normaliser(actor):
    return replace(actor, normaliser=None)


def other_mean(actor):
    seen = actor.normaliser
    return replace(actor, normaliser=replace(seen, mean=seen.mean * (1 + 1e-4)))


def other_bias(actor):
    *rest, (weight, bias) = actor.layers
    return replace(actor, layers=(*rest, (weight, bias + 1e-3 * np.arange(len(bias), dtype="f4"))))


@pytest.mark.repeats
@pytest.mark.parametrize("wrong", [without_normaliser, other_mean, other_bias])
@pytest.mark.parametrize("name", SPACES)
def test_a_wrong_export_is_refused(name, wrong, tmp_path, monkeypatch):
    """Negative control: the file of a policy that is slightly another one is never written."""
    made = policy(name)
    other = replace(made, actor=wrong(made.actor))
    monkeypatch.setattr(
        "holdfast.ship.export.onnx_model", lambda _, *how: graph.onnx_model(other, *how)
    )
    monkeypatch.setattr(Portable, "npz", lambda _, made=Portable.npz: made(other))
    # A choice differs only where two scores are nearly equal, so it takes many to see it.
    count = repeats(1_000 if isinstance(made.space, BOX) else 20_000, 20_000)
    monkeypatch.setattr("holdfast.ship.export.check", functools.partial(check, count=count))
    for file in ("p.onnx", "p.npz"):
        with pytest.raises(Disagreement, match="where ours is"):
            export(made, tmp_path / file)
    assert not list(tmp_path.iterdir())


def other_order(made, order):
    """The heads of a runtime that adds the products of the first layer in another order."""
    (weight, bias), *rest = made.actor.layers
    seen = made.actor.normaliser
    turned = replace(seen, mean=seen.mean[order], var=seen.var[order])
    actor = replace(made.actor, layers=((weight[order], bias), *rest), normaliser=turned)
    other = replace(made, actor=actor)

    def heads(obs, seed):
        noise = made.actor.draw(np.random.default_rng(seed), (1, len(obs)))[0]
        return other.act(obs[:, order], None), other.act(obs[:, order], noise)

    return heads


def test_another_order_of_sums_is_no_other_policy():
    """Also far away, where ours may err by less than float32 does in other orders."""
    for seed in range(6):
        made, rng = policy("box", seed=seed), np.random.default_rng(seed)
        for _ in range(8):
            assert check(made, other_order(made, rng.permutation(17)), 100).largest < 1e-4
    wrong = replace(made, actor=other_bias(made.actor))
    with pytest.raises(Disagreement):
        check(made, other_order(wrong, np.arange(17)), 100)


@pytest.mark.parametrize("name", ["box", "lopsided", "half open"])
def test_a_wrong_head_or_a_missing_clip_is_refused(name):
    made = policy(name)
    right = onnx_heads(made, graph.onnx_model(made, **BOTH), **BOTH)
    swapped = lambda obs, seed: right(obs, seed)[::-1]
    with pytest.raises(Disagreement, match="action of random"):
        check(made, swapped, 100)
    louder = replace(made, actor=replace(made.actor, std=made.actor.std * np.float32(1.01)))
    with pytest.raises(Disagreement, match="sampled action of random"):
        check(made, onnx_heads(made, graph.onnx_model(louder, **BOTH), **BOTH), 100)
    free = replace(made, space=BOX(-np.inf, np.inf, made.space.shape, made.space.dtype.type))
    with pytest.raises(Disagreement):
        check(made, onnx_heads(made, graph.onnx_model(free, **BOTH), **BOTH), 100)
    nothing = lambda obs, seed: tuple(np.full_like(a, np.nan) for a in right(obs, seed))
    with pytest.raises(Disagreement):
        check(made, nothing, 100)


@pytest.mark.parametrize("name", SPACES)
def test_no_action_follows_from_a_broken_observation(name):
    """ONNX cannot raise, so the answer lies outside the space; NumPy raises."""
    made = policy(name)
    session = ort.InferenceSession(graph.onnx_model(made, double=True, noise=True))
    reader = numpy_policy.Policy(io.BytesIO(made.npz()))
    obs = np.tile(made.actor.normaliser.mean, (6, 1))
    obs[1, 0], obs[2, 3], obs[3, -1], obs[4] = np.nan, np.inf, -np.inf, 1e300
    noise = made.actor.draw(np.random.default_rng(0), (1,))
    given = {"observation": obs, "noise": noise}
    for name in ("action", "sampled"):
        got = session.run([name], given)[0]
        inside = [made.space.contains(a) for a in got]
        assert inside == [True, False, False, False, False, True], got
    for row in obs[1:4]:
        with pytest.raises(ValueError, match="NaN or infinity"):
            reader(row)
    with pytest.raises(ValueError, match=r"shape \(16,\); this policy takes \(17,\)"):
        reader(obs[0, 1:])


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_files_are_float32_and_load_without_a_warning(name, noise, tmp_path, capfd):
    made = policy(name)
    agreed = export(made, tmp_path / "policy.onnx", noise=noise)
    assert agreed.observations > 1000
    session = ort.InferenceSession(tmp_path / "policy.onnx")
    assert capfd.readouterr().err == ""
    kinds = {put.type for put in (*session.get_inputs(), *session.get_outputs())}
    assert "tensor(double)" not in kinds and "tensor(float)" in kinds
    far = np.full((1, made.obs_size), 1e4, np.float32)
    for obs in (far, -far):
        action = session.run(["action"], {"observation": obs} | ({"noise": made.actor.draw(
            np.random.default_rng(0), (1,))} if noise else {}))[0]  # fmt: skip
        assert made.space.contains(action[0].astype(made.space.dtype)), "also at its bounds"
    wide = export(made, tmp_path / "wide.onnx", double=True)
    assert wide.observations == agreed.observations
    put = ort.InferenceSession(tmp_path / "wide.onnx").get_inputs()[0]
    assert put.type == "tensor(double)", "the control: on request"


def test_the_file_is_plain_onnx():
    """Named inputs and outputs, old operators, no code, the same bytes each time."""
    made = policy("box")
    content = graph.onnx_model(made)
    assert content == graph.onnx_model(policy("box"))
    model = onnx.load_from_string(content)
    assert [i.name for i in model.graph.input] == ["observation"]
    assert [o.name for o in model.graph.output] == ["action"]
    model = onnx.load_from_string(graph.onnx_model(made, noise=True))
    assert [i.name for i in model.graph.input] == ["observation", "noise"]
    assert [o.name for o in model.graph.output] == ["action", "sampled"]
    assert {node.domain for node in model.graph.node} == {""} and not model.functions
    assert model.opset_import[0].version <= 17 and model.ir_version <= 8


class Robot(gym.Env):
    """Dict observations, a choice of three, counted from 1."""

    observation_space = gym.spaces.Dict(
        {"where": BOX(-1.0, 1.0, (2, 2), np.float32), "gear": gym.spaces.Discrete(3)}
    )
    action_space = gym.spaces.Discrete(3, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        cost = {"cost": float(action == 2)}
        return self.observation_space.sample(), float(action), False, self.time >= 20, cost


def test_a_trained_choice_from_dict_observations_leaves_through_the_command(tmp_path, capsys):
    """A policy on Dict observations takes them as they are, and acts without Holdfast."""
    sizes = dict(num_envs=2, epoch_steps=80, hidden=(8,), critic_passes=1, critic_minibatch=40)
    agent = Agent("c-trpo", cost_limit=5.0, **sizes).learn(Robot, 80, progress=False)
    agent.save(tmp_path / "run")
    for file in ("policy.onnx", "policy.npz"):
        main(["export", str(tmp_path / "run"), "-o", str(tmp_path / file)])
    said = capsys.readouterr().out
    assert f"Wrote:   {tmp_path / 'policy.py'}" in said and said.count("same actions") == 2
    assert said.count(f"holdfast evaluate {tmp_path / 'run'} --greedy") == 2
    obs = [Robot.observation_space.sample() for _ in range(20)]
    parts = {key: np.array([o[key] for o in obs]) for key in ("where", "gear")}
    np.savez(tmp_path / "obs.npz", **parts)
    script = (
        "import sys, numpy as np; from policy import Policy; p = Policy('policy.npz');"
        "print([int(a) for a in p(dict(np.load('obs.npz')))]);"
        "assert not {'holdfast', 'jax', 'gymnasium', 'onnx'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    session = ort.InferenceSession(tmp_path / "policy.onnx")
    given = {f"observation/{key}": np.float32(part) for key, part in parts.items()}
    assert {put.name for put in session.get_inputs()} == given.keys()
    there = session.run(["action"], given)[0]
    assert json.loads(done.stdout) == there.tolist() == [int(agent.predict(o)) for o in obs]
    assert set(there) <= {1, 2, 3}
    props = session.get_modelmeta().custom_metadata_map
    assert props["env"].endswith(":Robot") and json.loads(props["limits"]) == {"cost": 5.0}


def test_the_reader_is_small_and_needs_numpy_alone():
    text = Path(numpy_policy.__file__).read_text()
    imports = {line.split()[1] for line in text.splitlines() if line.startswith(("import", "from"))}
    assert imports == {"json", "math", "numpy", "typing", "zipfile"}
    assert len(text.splitlines()) <= 200
    assert "allow_pickle=False" in text


def test_a_file_of_the_reader_s_name_is_not_replaced(tmp_path):
    made, mine = policy("box"), tmp_path / "policy.py"
    mine.write_text("print('mine')\n")
    with pytest.raises(
        ValueError, match=r"policy\.py' is not the reader.*export to another folder"
    ):
        export(made, tmp_path / "arm.npz")
    assert [file.name for file in tmp_path.iterdir()] == ["policy.py"]
    assert mine.read_text() == "print('mine')\n"
    ours = Path(numpy_policy.__file__).read_text()
    mine.write_text(ours.replace("\n\n\n", "\n\n"))  # of an earlier version
    export(made, tmp_path / "arm.npz")
    assert mine.read_text() == ours


def test_refusals_say_what_to_do(tmp_path, monkeypatch):
    made = policy("box")
    with pytest.raises(ValueError, match=r"must end in \.onnx .* or \.npz"):
        export(made, tmp_path / "policy.pt")
    import importlib

    real = importlib.import_module

    def without_onnx(name):
        if name.startswith("onnx"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", without_onnx)
    with pytest.raises(RuntimeError, match=r"pip install 'holdfast-rl\[onnx\]'"):
        export(made, tmp_path / "policy.onnx")
    assert export(made, tmp_path / "policy.npz").largest == 0
    assert agreement.TOLERANCE == 1e-6
