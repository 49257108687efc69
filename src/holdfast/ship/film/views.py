# SPDX-License-Identifier: Apache-2.0
"""Environments for films: a batch of one with its renderer."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator
from numpy.typing import NDArray

from holdfast.envs.base import VecEnv
from holdfast.envs.budget import Budgeted
from holdfast.envs.failure import describe_error
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.references import is_unnamed
from holdfast.envs.foreign.source import EnvSource, is_instance, resolve
from holdfast.envs.functional.functional_source import is_suite_id
from holdfast.envs.make import known_ids
from holdfast.envs.native import NATIVE_IDS
from holdfast.envs.native.simulation import Simulated
from holdfast.run import Run
from holdfast.train.environment import open_env, sources

Mode = Literal["rgb_array", "human", "none"]
"""Drawing into arrays, into a window, or none."""
SIZE = (640, 480)
PACE = 1 / 30
"""Seconds between two steps in a window."""


class NotDrawn(RuntimeError):
    """The environment can be drawn, but drawing failed; a plot needs no drawing."""


@contextmanager
def drawing() -> Generator[None]:
    """In the block an error becomes `NotDrawn`, with the reason and the remedy."""
    try:
        yield
    except Exception as error:
        raise NotDrawn(
            f"the environment could not be drawn: {describe_error(error)}; correct that, or write "
            "a plot, which needs no drawing (episode.png)."
        ) from error


@dataclass(frozen=True)
class View:
    """A batch of one environment with its renderer."""

    env: VecEnv
    picture: Callable[[], NDArray[np.uint8]] | None
    """Draws the current state [height, width, 3]; None: the environment cannot be drawn."""
    show: Callable[[], None] | None
    """Updates the window; None: there is none."""
    close: Callable[[], None]


def open_view(
    run: Run,
    source: EnvSource | VecEnv | None,
    cost: CostFunction | str | None,
    mode: Mode,
    trusted: bool = False,
) -> View:
    """One environment of the run, drawn into arrays or a window if possible.

    Without a `source` it is the one that the run names; `open_env` explains `trusted`.
    """
    source, cost = sources(run, source, cost, trusted)
    if mode == "human":
        _need_display()
    alone = replace(run, num_envs=1, epoch_steps=max(run.epoch_steps, 1), workers=1)
    if isinstance(source, str) and (source in known_ids() or is_suite_id(source)):
        env = open_env(alone, source, cost, to_evaluate=True)
        bare = env.inner if isinstance(env, Budgeted) else env
        if not isinstance(bare, Simulated) or mode == "none":
            return _undrawn(env)
        try:
            return _native(env, bare, mode)
        except RuntimeError as error:  # its message names the package to install
            env.close()
            raise NotDrawn(str(error)) from error
    with nullcontext() if mode == "none" else drawing():
        single = make_visible(source, mode, run.env_args)
    env = open_env(replace(alone, env_args={}, cost=""), single, cost, to_evaluate=True)
    shown: str | None = getattr(single, "render_mode", None)
    if shown == "human":
        return View(env, None, lambda: time.sleep(PACE), single.close)
    if shown in ("rgb_array", "rgb_array_list"):
        return View(env, lambda: _pixels(single), None, single.close)
    return _undrawn(env, getattr(single, "close", None))


def make_visible(source: Any, mode: Mode, args: Mapping[str, object] | None = None) -> Any:
    """One foreign environment with rendering switched on, if it has any."""
    if is_instance(source):
        return source
    found = resolve(source, known_ids, args)
    if isinstance(found, EnvSpec):
        make: Any = lambda **given: gym.make(found, disable_env_checker=True, **given)
        modes = _modes(found)
    else:
        make, modes = found, _modes(found) if _takes_mode(found) else []
    return make(render_mode=mode) if mode in modes else make()


def film_name(run: Run) -> str:
    """film.gif if the environment of a run declares pictures, else film.png."""
    drawn = run.env in NATIVE_IDS
    if not drawn and not is_unnamed(run.env) and run.env not in known_ids():
        if not is_suite_id(run.env):
            found = resolve(run.env, known_ids, run.env_args)
            modes = _modes(found) if isinstance(found, EnvSpec) or _takes_mode(found) else []
            drawn = "rgb_array" in modes
    return "film.gif" if drawn else "film.png"


def _modes(source: Any) -> list[str]:
    """The render modes that an environment declares; those of a spec are in its class."""
    entry = source.entry_point if isinstance(source, EnvSpec) else getattr(source, "make", source)
    if isinstance(entry, str):
        entry = load_env_creator(entry)
    metadata = getattr(entry, "metadata", None)
    # A factory declares no modes, so its argument is used as declared.
    return list(metadata.get("render_modes", [])) if metadata else ["rgb_array", "human"]


def _takes_mode(factory: Any) -> bool:
    try:
        return "render_mode" in inspect.signature(getattr(factory, "make", factory)).parameters
    except (TypeError, ValueError):
        return False


def _need_display() -> None:
    from holdfast.envs.native.gym.render import require_display

    try:
        require_display()
    except RuntimeError as error:
        raise RuntimeError(
            "a window needs a display and none could be opened: write a video or a plot instead "
            "(-o episode.gif), or set DISPLAY."
        ) from error


def _native(env: VecEnv, drawn: Simulated, mode: Mode) -> View:
    from holdfast.envs.native.gym.render import Painter, Window

    if mode == "human":
        window = Window(drawn.simulation)
        return View(env, None, lambda: (window.show(), time.sleep(PACE))[0], window.close)
    painter = Painter(drawn.simulation, *SIZE, rings=False)
    return View(env, painter.frame, None, painter.close)


def _undrawn(env: VecEnv, close: Callable[[], None] | None = None) -> View:
    return View(env, None, None, close or env.close)


def _pixels(env: Any) -> NDArray[np.uint8]:
    """The result of `render` as one picture."""
    with drawing():
        drawn = env.render()
    drawn = drawn[-1] if isinstance(drawn, list) else drawn
    pixels = np.asarray(drawn)
    if pixels.ndim != 3 or pixels.shape[2] not in (3, 4):
        raise NotDrawn(
            f"render() returned {pixels.dtype}{list(pixels.shape)} and not a picture [height, "
            "width, 3]; correct the environment, or write a plot (episode.png)."
        )
    return np.ascontiguousarray(pixels[..., :3], np.uint8)
