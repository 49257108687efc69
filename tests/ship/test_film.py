# SPDX-License-Identifier: Apache-2.0
"""Films show the episodes that evaluation judges, with every cost where it arose."""

import html
import importlib
import io
import json
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from holdfast import Agent, make_run
from holdfast.bars.episode_bars import FilmBar
from holdfast.cli import main
from holdfast.envs.acting import Actor
from holdfast.envs.make import make_env
from holdfast.judge.evaluate import evaluate
from holdfast.ship.certify import certify
from holdfast.ship.film import Address, Film, NotDrawn, choose, panel, writers
from holdfast.ship.film.views import make_visible, open_view

LENGTH, COSTS = 12, {3: 1.0, 4: 2.0, 9: 4.0}  # step (from 1) -> cost
WATCHED = {"cost": 2.0}


class Clock(gym.Env):
    """Its picture is as bright as its time; costs arise at known steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, render_mode=None, costs=COSTS, lucky=False):
        self.render_mode, self.costs, self.lucky = render_mode, costs, lucky

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.luck = 0, float(self.np_random.integers(0, 100))
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.time += 1
        cost = self.luck / LENGTH if self.lucky else self.costs.get(self.time, 0.0)
        ended = self.time == LENGTH
        return np.zeros(2, np.float32), 1.5, False, ended, {"cost": cost}

    def render(self):
        return np.full((60, 80, 3), 20 * self.time, np.uint8)


def actor():
    layers = ((np.full((2, 1), 0.1, np.float32), np.zeros(1, np.float32)),)
    return Actor(layers, np.ones(1, np.float32))


def seen(source, **settings):
    film = Film(actor(), WATCHED, "c-trpo on Clock", **settings)
    return film, open_view(make_run("c-trpo", env="Clock"), source, None, "rgb_array")


def drawn(film, view, *addresses):
    """The frames of a film, as arrays."""
    episodes = [film.episode(view, address) for address in addresses or [Address(5)]]
    return [np.asarray(frame) for frame in film.images(view, episodes, lambda *_: None)]


RED, GREEN = (tuple(bytes.fromhex(colour[1:])) for colour in (panel.BAD, panel.GOOD))


def alarmed(frame):
    return tuple(frame[2, 2]) == RED


def count(frame, colour, rows=slice(None)):
    return int((frame[rows] == colour).all(-1).sum())


def test_every_step_is_seen_and_every_cost_is_marked():
    """The picture of each step, a red border exactly where a cost arose, then the end."""
    film, view = seen(Clock, fps=5)
    frames = drawn(film, view)
    assert len(frames) == LENGTH - 1 + 5
    brightness = [int(frame[240, 320, 0]) for frame in frames]
    assert brightness == [20 * t for t in range(1, LENGTH)] + [20 * (LENGTH - 1)] * 5
    assert [t + 1 for t, frame in enumerate(frames) if alarmed(frame)] == [3, 4, 9]


def test_bars_are_as_long_as_what_was_spent():
    """Green up to the limit, red beyond, in proportion; the largest cost of the episode fits."""
    film, view = seen(Clock, fps=1)
    frames = drawn(film, view)
    bar = slice(480 + panel.HEAD + panel.LINE // 2, 480 + panel.HEAD + panel.LINE // 2 + 1)
    width, most = panel.WIDTH - panel.MARGIN - panel.LABEL, 7.0 * 1.05
    for t, spent in ((1, 0.0), (3, 1.0), (4, 3.0), (9, 7.0), (11, 7.0)):
        columns = slice(panel.LABEL, None)
        row = frames[t - 1][bar][:, columns]
        green, red = count(row, GREEN), count(row, RED)
        assert abs(green - width * min(spent, 2.0) / most) <= 4
        assert abs(red - width * max(spent - 2.0, 0.0) / most) <= 4
    peaceful, view = seen(partial(Clock, costs={}), fps=1)  # control: nothing red, nothing green
    rows = [frame[bar] for frame in drawn(peaceful, view)]
    assert not any(count(row, RED) or count(row[:, columns], GREEN) for row in rows)


def test_skipped_steps_hide_no_cost():
    film, view = seen(Clock, frames=4, fps=1)
    frames = drawn(film, view)
    assert len(frames) == 1 + 3 + 1  # the first, every third, the end
    assert [alarmed(frame) for frame in frames] == [False, True, True, True, False]


def test_films_show_the_episodes_that_are_judged():
    """The same numbers to the bit, whatever the address; the worst is the costliest."""
    film, view = seen(partial(Clock, lucky=True))
    judged = evaluate(actor(), view.env, WATCHED, episodes=20, seed=7)
    for i in (0, 13):
        episode = film.episode(view, Address(7, i))
        assert episode.rewards.sum() == judged.returns[i]
        np.testing.assert_allclose(episode.costs.sum(0), judged.costs[i], rtol=1e-14)
    ranked = film.by_cost(view, 20, 7)
    costs = [judged.costs[address.index, 0] for address in ranked]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) > 10
    assert choose(2, (), 20, lambda: ranked, 7) == ranked[:2]
    assert choose(2, (), 0, lambda: ranked, 7) == [Address(7, 0), Address(7, 1)]
    assert choose(1, (3, 9), 0, lambda: ranked, 7) == [Address(3), Address(9)]


@pytest.mark.parametrize("bad", [(0, (), 0), (3, (), 2), (1, (4,), 5)])
def test_impossible_choices_are_refused(bad):
    with pytest.raises(ValueError, match=r"episodes=|cannot be combined"):
        choose(*bad, list, 0)


def test_gif_and_mp4_hold_all_frames(tmp_path):
    film, view = seen(Clock, fps=10)
    said = []
    note = lambda done, total: said.append((done, total))
    addresses = [Address(1), Address(2)]
    assert film.write(view, addresses, tmp_path / "a" / "c.gif", note) == tmp_path / "a" / "c.gif"
    assert said[-1] == (24, 24) and said[0] == (1, 24)
    with Image.open(tmp_path / "a" / "c.gif") as gif:
        shown = [gif.info["duration"] for i in range(gif.n_frames) if gif.seek(i) is None]
        assert sum(shown) == 100 * 2 * (LENGTH - 1 + 10) and gif.size[0] == panel.WIDTH
    film.write(view, addresses, tmp_path / "c.mp4", note)
    count_frames = importlib.import_module("imageio_ffmpeg").count_frames_and_secs
    assert count_frames(str(tmp_path / "c.mp4"))[0] == 2 * (LENGTH - 1 + 10)
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4"):
        film.write(view, addresses, tmp_path / "c.avi", note)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c.mp4"]


def test_without_ffmpeg_it_says_what_to_install(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(writers.importlib, "import_module", absent)
    monkeypatch.setattr(writers.shutil, "which", lambda _: None)
    with pytest.raises(RuntimeError, match=r"pip install 'holdfast-rl\[video\]'"):
        writers.find_ffmpeg()


def test_rendering_is_switched_on_where_there_is_some():
    """For ids, classes and functions; an instance stays as it is."""
    gym.register("ClockForFilm-v0", Clock)
    for source in ("ClockForFilm-v0", Clock, partial(Clock, costs={})):
        assert make_visible(source, "rgb_array").render_mode == "rgb_array"
        assert make_visible(source, "human").render_mode is None or isinstance(source, partial)
    mine = Clock()
    assert make_visible(mine, "rgb_array") is mine
    assert seen(mine)[1].picture is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on an environment that cannot be drawn."""
    folder = tmp_path_factory.mktemp("film") / "run"
    sizes = dict(num_envs=4, epoch_steps=200, hidden=(8,), critic_passes=2, critic_minibatch=64)
    Agent("c-trpo", **sizes).learn("probe/Shortcut-v0", 200, progress=False).save(folder)
    return folder


def test_without_a_picture_there_is_a_plot(run, tmp_path, capsys):
    main(["watch", str(run), "-o", str(tmp_path / "e.gif"), "--worst-of", "8", "--episodes", "2"])
    said = capsys.readouterr().out
    assert "This environment has no pictures. Here is a plot" in said and "e.png" in said
    assert not (tmp_path / "e.gif").exists()
    with Image.open(tmp_path / "e.png") as plot:
        assert plot.size[0] > 600


class Undrawable(Clock):
    """It has pictures, but what draws them is not installed."""

    def render(self):
        raise gym.error.DependencyNotInstalled('no pen, run `pip install "pens"`')


@pytest.fixture(scope="module")
def undrawable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undrawable") / "run"
    sizes = dict(num_envs=2, epoch_steps=80, hidden=(8,), critic_passes=1, cost_limit=5.0)
    agent = Agent("c-trpo", **sizes).learn(Undrawable, 80, progress=False)
    agent.save(folder)
    return folder


def test_a_film_that_fails_says_why_and_leaves_a_plot(undrawable, tmp_path, capsys):
    with pytest.raises(NotDrawn, match=r"DependencyNotInstalled: no pen.*or write a plot"):
        Agent.load(undrawable).watch(tmp_path / "e.gif", Undrawable, progress=False)
    name = f"{__file__}:Undrawable"
    main(["watch", str(undrawable), "--env", name, "-o", str(tmp_path / "e.gif")])
    said = capsys.readouterr().out
    assert "No film: the environment could not be drawn: DependencyNotInstalled: no pen" in said
    assert (tmp_path / "e.png").exists() and not (tmp_path / "e.gif").exists()


def test_a_card_is_written_without_a_film_that_fails(undrawable, tmp_path):
    page, data = certify(undrawable, tmp_path, episodes=10, env=Undrawable)
    why = json.loads(data.read_text())["no_film"]
    assert 'pip install "pens"' in why and "or write a plot" in why
    assert html.escape(why) in page.read_text() and "The film shows" not in page.read_text()


def test_a_window_needs_a_display_and_an_environment_that_has_one(run, monkeypatch):
    from holdfast.envs.native.gym import render

    def blind():
        raise RuntimeError("no display")

    monkeypatch.setattr(render, "require_display", blind)
    with pytest.raises(RuntimeError, match=r"needs a display .*-o episode\.gif"):
        Agent.load(run).watch()
    monkeypatch.setattr(render, "require_display", lambda: None)
    with pytest.raises(RuntimeError, match="no window"):
        Agent.load(run).watch(progress=False)


class Viewer:
    """What a window of MuJoCo's has that is used of it."""

    def __init__(self, model, data, **panels):
        self.cam, self.panels, self.synced = mujoco.MjvCamera(), panels, 0

    def lock(self):
        return nullcontext()

    def sync(self):
        self.synced += 1

    def close(self):
        pass


def test_a_window_goes_along_with_the_runner(monkeypatch):
    """A camera that stays soon shows an empty floor; moved by the user, it stays moved."""
    from holdfast.envs.native.gym import render

    opened = []
    viewer = SimpleNamespace(
        launch_passive=lambda *a, **k: opened.append(Viewer(*a, **k)) or opened[-1]
    )
    monkeypatch.setattr(render, "require_display", lambda: None)
    monkeypatch.setitem(sys.modules, "mujoco.viewer", viewer)
    env = make_env("SafetyHalfCheetahVelocity-v1", 1, workers=1)
    env.reset(0)
    window = render.Window(env.simulation)
    camera, torso = opened[0].cam, window.stage.data.xpos[1]
    assert opened[0].panels == {"show_left_ui": False, "show_right_ui": False}
    assert camera.lookat.tolist() == torso.tolist() and camera.distance == 4.0
    camera.lookat[1] += 0.5  # the user's hand
    begun = torso.copy()
    for _ in range(20):
        env.step(np.ones((1, 6)))
        window.show()
    assert np.abs(torso - begun).max() > 0.05 and opened[0].synced == 20
    np.testing.assert_allclose(camera.lookat - torso, [0.0, 0.5, 0.0], atol=1e-12)


def test_a_log_is_not_filled_with_what_a_window_shows():
    text = io.StringIO()
    with FilmBar(console=Console(file=text)) as bar:
        for step in range(50):
            bar.report(f"step {step}")
    assert text.getvalue() == ""


class Shown(Clock):
    """Shows itself in a window, as Gymnasium's environments do."""

    metadata = {"render_modes": ["human"], "render_fps": 10}  # noqa: RUF012


def test_a_window_shows_every_step_with_its_numbers(monkeypatch):
    from holdfast.envs.native.gym import render
    from holdfast.ship.film import views

    slept, said = [], []
    monkeypatch.setattr(render, "require_display", lambda: None)
    monkeypatch.setattr(views.time, "sleep", slept.append)
    view = open_view(make_run("c-trpo", env="Shown"), Shown, None, "human")
    Film(actor(), WATCHED, "x").show(view, [Address(3)], said.append)
    assert len(said) == LENGTH and len(slept) == LENGTH - 1
    assert said[3] == "seed 3, step 4: return 6.0, cost 3 of 2"


def test_a_bar_shows_how_far_it_is():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with FilmBar(console=console) as bar:
        bar.update(3, 12)
        bar.progress.refresh()
        assert "3 of 12 frames" in text.getvalue()
        bar.report("return 5")
    assert bar.progress.finished is False


def test_native_tasks_are_drawn_without_a_screen():
    """A runner that has left the finite floor still runs on one."""
    from holdfast.envs.native.gym import render as graphics

    try:
        graphics.context(8, 8).free()
    except RuntimeError as error:
        pytest.skip(f"no OpenGL here: {error}")
    task = "SafetyHalfCheetahVelocity-v1"
    view = open_view(make_run("c-trpo", env=task), task, None, "rgb_array")
    try:
        view.env.reset(0)
        start = view.picture()
        view.env.simulation.datas[0].qpos[0] = 500.0
        far = view.picture()
        floor = lambda picture: picture[400:].reshape(-1, 3).std(0).max()
        assert start.shape == (480, 640, 3)
        assert floor(far) > 30 and floor(start) > 30, "the floor's pattern"
        assert float(view.env.simulation.model.geom_size[0, 0]) > 0, "the physics' own model"
    finally:
        view.close()


def test_without_opengl_it_says_what_to_install(monkeypatch):
    from holdfast.envs.native.gym import render as graphics

    monkeypatch.setattr(graphics, "candidates", tuple)
    task = "SafetyPointGoal1-v0"
    with pytest.raises(RuntimeError, match="apt-get install libegl1"):
        open_view(make_run("c-trpo", env=task), task, None, "rgb_array")
