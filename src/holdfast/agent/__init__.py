# SPDX-License-Identifier: Apache-2.0
"""The Python interface: construct, learn, predict, evaluate, save, load.

This file is whole because it is the public interface; half of it documents arguments. The work is
done in `next_run` (from arguments to a run), `learning` (epochs with their displays and files) and
`trained` (a policy as a value).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Never, Unpack

import numpy as np
from numpy.typing import NDArray

from holdfast.agent.learning import Outputs, train_agent
from holdfast.agent.next_run import (
    Arguments,
    is_alone,
    named,
    plain_settings,
    refuse_unused_limit,
    run_elsewhere,
)
from holdfast.agent.trained import Trained
from holdfast.algorithms import Algorithm
from holdfast.bars.episode_bars import FilmBar
from holdfast.cluster.storage import add_epoch, local_copy
from holdfast.envs.acting import Actor
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.references import is_unnamed
from holdfast.envs.foreign.source import EnvSource
from holdfast.envs.make import is_given
from holdfast.files import CheckpointError
from holdfast.judge.evaluate import CostBound, Evaluation, Limits, OnEpisodes, evaluate
from holdfast.judge.perturb import Perturbation
from holdfast.keywords import SettingArguments
from holdfast.records.rows import EVALUATIONS, Row, columns_of, rows_until
from holdfast.register import PresetName
from holdfast.run import Run, configure
from holdfast.runs.checkpoint import Which
from holdfast.runs.consent import is_remembered, remember
from holdfast.runs.evaluator import refuse_given
from holdfast.runs.folder import Folder, create, load_state, open_folder
from holdfast.runs.plot import plot_columns
from holdfast.runs.training import write_run
from holdfast.ship.export import Agreement, export
from holdfast.ship.film import PLOTS, Film, choose
from holdfast.ship.film.views import open_view
from holdfast.train import Epoch
from holdfast.train.environment import Given, Spaces, open_env, with_fitting_epochs
from holdfast.train.state import State

__all__ = ["Agent"]

ALONE = (
    "One environment, because an instance cannot be copied; pass its class or id to train "
    "with more."
)


class Agent:
    """A policy that learns to be good and safe.

    >>> agent = Agent("c-trpo", beta=1.0).learn("probe/Speed-v0", total_steps=20_000)
    >>> action = agent.predict(obs)
    """

    def __init__(
        self,
        algorithm: str | Algorithm = "c-trpo",
        *others: Never,
        preset: PresetName | None = None,
        **settings: Unpack[SettingArguments],
    ) -> None:
        if others:
            raise ValueError(
                f"Agent takes one algorithm and then settings by name, not {others[0]!r:.80}: "
                "write Agent('c-trpo').learn(ENV)."
            )
        self._arguments = Arguments(algorithm, preset, plain_settings(settings))
        self.run: Run = self._arguments.run()
        self.spaces: Spaces | None = None
        self.state: State | None = None
        self._rows: list[dict[str, float | int]] = []
        self.evaluations: list[Row] = []
        """One row for each evaluation while training (`evaluate_every`)."""
        self._place: Path | None = None
        """The run folder; None: the agent is only in memory."""
        self._given: Given = (None, None)
        """Environment and cost function, as they were passed to `learn`."""
        self._trusted = False
        self._sampling: tuple[State, int, Iterator[Any]] | None = None
        """The state and the number of observations for which the noise stream was made."""

    @property
    def metrics(self) -> list[dict[str, float | int]]:
        """One row for each epoch so far: the columns of progress.csv by name.

        `ep_return`, `ep_cost` and `ep_length` are means of episodes, smoothed as published codes
        do. `ep_return_raw` and `ep_cost_raw` are means of the epoch alone. `cost_regret_raw` is the
        sum of all costs above the limits. docs/training.md explains all columns; `history()` is the
        same as a table.
        """
        return self._rows

    def history(self) -> dict[str, NDArray[np.float64]]:
        """The metrics as columns, one number for each epoch: `pandas.DataFrame(agent.history())`.

        NaN where an epoch has no such number.
        """
        return columns_of(self._rows)

    def plot(self, path: str | Path = "progress.png") -> Path:
        """Draw return, cost against limit and regret; .png, .svg or .pdf."""
        judged, limits = columns_of(self.evaluations), self._trained().spaces.limits
        return plot_columns(self.history(), self.run, limits, Path(path), "this agent", judged)

    def certify(self, out: str | Path | None = None, **how: Any) -> tuple[Path, Path]:
        """Judge the policy and write a model card; returns the paths of card.html and card.json.

        The agent must have a run folder (`learn(out=...)`, `save` or `load`). The card is written
        into its folder `card`, or into `out`. Other arguments are those of
        `holdfast.ship.certify.certify`: `episodes`, `until_decided`, `perturb`, `film`, ...
        """
        self._trained()
        if self._place is None:
            raise ValueError("a card needs a run folder: call save('runs/mine') first.")
        # By name: cards are made from agents, so their package stands above this one.
        certify = import_module("holdfast.ship.certify").certify
        env, cost = self._given
        given = {"env": env, "cost": cost} if is_unnamed(self.run.env) else {}
        return certify(self._place, out, **(given | {"trust_env": self._trusted} | how))

    def __repr__(self) -> str:
        run, row = self.run, self.metrics[-1] if self.metrics else {}
        if self.state is None or self.spaces is None:
            return f"Agent({run.name!r}, has not learned yet)"
        limits = ", ".join(f"{name} {limit:g}" for name, limit in self.spaces.limits.items())
        steps = self.state.epoch * run.epoch_steps
        words = f"{run.name!r} on {run.env}, {steps:,} steps, limits: {limits}"
        if row:
            words += f"; return {row['ep_return']:.4g}, cost {row['ep_cost']:.4g}"
        return f"Agent({words})"

    def learn(
        self,
        env: EnvSource | VecEnv | None = None,
        total_steps: int | float = 1_000_000,
        *,
        out: str | Path | None = None,
        progress: bool = True,
        cost: CostFunction | str | None = None,
        trust_env: bool = False,
        tensorboard: str | Path | None = None,
        wandb: str | None = None,
        callback: Callable[[Epoch], object] | None = None,
        **settings: Unpack[SettingArguments],
    ) -> Agent:
        """Train on an environment: a name, a Gymnasium factory or instance, or a batch.

        `settings` are those of `Run` and of the algorithm (`cost_limit=`, `limits=`, `seed=`, ...).
        With `out` the run is kept in a folder that `holdfast resume` and `report` read. It may be
        the folder from which the agent was loaded.

        An agent that has already learned, or was loaded, learns `total_steps` more, by default on
        the same environment. `trust_env` allows a loaded agent to import the code that its run
        names.

        `tensorboard` is a folder for event files. `wandb` is a project of Weights & Biases and
        needs `out`. `callback` receives each `Epoch`; training stops in order when it returns
        False. Without `epoch_steps`, epochs are fitted to the task.
        """
        if wandb is not None and out is None:
            raise ValueError(f"wandb={wandb} keeps its id in the run folder: give out= too.")
        if not total_steps >= 1 or total_steps == float("inf"):
            raise ValueError(
                f"total_steps={total_steps} must be a number of environment steps, at least 1."
            )
        given = self._sources(env, cost)
        run = self._next_run(given, int(total_steps), plain_settings(settings))
        self._trusted |= trust_env
        refuse_given(run, given)
        envs = open_env(run, *given, trusted=self._trusted)
        self._given, self._trusted = given, True  # its code was named or allowed
        if self.state is None and self._arguments.fits_epochs(settings):
            run = with_fitting_epochs(run, envs)
        with ExitStack() as opened:
            if not is_given(given[0]):
                opened.callback(envs.close)
            spaces = Spaces.of(run, envs)
            if self.state is not None:
                self._trained().refuse_to_continue(run, spaces)
            self.run, self.spaces = run, spaces
            place = None if out is None else partial(self._folder, Path(out), envs)
            about = ALONE if is_alone(given[0]) else ""
            outputs = Outputs(progress, about, tensorboard, wandb, place)
            epochs = train_agent(run, spaces, envs, self.state, given, outputs)
            for epoch, judged in opened.enter_context(closing(epochs)):
                self.state = epoch.state
                self._rows.append(epoch.metrics)
                self.evaluations += [] if judged is None else [judged]
                if callback is not None and callback(epoch) is False:
                    break
        if out is not None and self.state is not None:
            self.evaluations = [*rows_until(Path(out) / EVALUATIONS, self.state.epoch)]
        return self

    def _sources(self, env: EnvSource | VecEnv | None, cost: CostFunction | str | None) -> Given:
        """The environment and cost function, by default those passed before in this process."""
        before = self._given
        if env is None and before[0] is None and not self.run.env:
            raise ValueError("learn needs an environment, such as learn('probe/Speed-v0').")
        return before[0] if env is None else env, before[1] if cost is None else cost

    def _next_run(self, given: Given, steps: int, settings: dict[str, Any]) -> Run:
        """The run of the next `learn`: a first one, or the run so far with more steps."""
        known = named(given, self._given, self._arguments)
        if self.state is None:
            run = self._arguments.run(**(known | {"steps": steps} | settings))
        else:
            done = self.state.epoch * self.run.epoch_steps
            run = configure(self.run, **(known | {"steps": done + steps} | settings))
        refuse_unused_limit(run, settings)
        return run

    def _folder(self, path: Path, batch: VecEnv) -> Folder:
        """A new folder with the training state so far, or the folder that has it already."""
        state, spaces = self.state, self.spaces
        if state is None or spaces is None or not (path / "run.json").exists():
            folder = create(path, self.run, batch)
        else:
            folder = Folder(path, self.run, spaces)
        if state is not None:
            write_run(folder, state, self.metrics, self.evaluations)
        self._place = folder.path
        return folder

    def predict(
        self,
        obs: Any,
        deterministic: bool = True,
        seed: int | None = None,
        memory: Any = None,
        noise: Any = None,
        budget: Any = None,
    ) -> Any:
        """The action for one observation, or for several, in the environment's own form.

        Several observations have a leading axis in each part, as in a `VectorEnv`. Actions are
        always inside the action space; NaN or infinity in an observation raises ValueError.

        With `deterministic=False` actions are sampled, as in training. The noise may last several
        steps, so its state is kept between calls. With `seed` a single action is drawn;
        `noise=next(stream)` with `stream = agent.noise(seed)` repeats a whole episode.

        A policy with a memory (encoder="gru") returns (action, memory). Pass the memory with the
        next observation, and None at the start of an episode. In a batch, set the rows of new
        episodes to 0.

        A policy with a limit beyond the mean needs `budget`, its remaining share between -1 and 1:
        (b - cost so far) / b. It is a number for each such limit (in a batch, a row for each
        observation).
        """

        def draw(actor: Actor, count: int) -> Any:
            if noise is not None or deterministic:
                return noise
            return next(self._stream(count) if seed is None else actor.noise(seed, count))

        return self._trained().predict(obs, memory, budget, draw)

    def evaluate(
        self,
        env: EnvSource | VecEnv | None = None,
        episodes: int = 100,
        *,
        seed: int = 1_000_000,
        deterministic: bool = False,
        cost: CostFunction | str | None = None,
        env_args: Mapping[str, object] | None = None,
        trust_env: bool = False,
        limits: Limits | None = None,
        perturb: Perturbation | None = None,
        cost_bound: CostBound | None = None,
        until_decided: bool = False,
        max_episodes: int = 10_000,
        on_progress: OnEpisodes | None = None,
    ) -> Evaluation:
        """Fresh episodes on `env` (by default the one trained on), with a verdict on safety.

        `limits` replaces the limits of training: one limit, or several by name, each a number or a
        text such as "25 worst 5%". Without it, another task is judged by the limits that it
        declares. `perturb` changes the conditions (see `Perturbation`). `cost_bound` is the largest
        possible cost of one episode, if the environment does not declare it: a number, or one for
        each constraint by name. With `until_decided` more episodes follow, up to `max_episodes`,
        until safety is proved or disproved. `on_progress` is called from time to time with the
        number of finished episodes and the verdict so far.
        """
        policy = self._trained()
        run = self.run if env is None else run_elsewhere(self.run, env, env_args)
        given = self._sources(env, cost)
        with policy.batch(run, given, trust_env or self._trusted, perturb) as envs:
            result = evaluate(
                policy.actor,
                envs,
                policy.limits(run.env, envs, limits),
                episodes=episodes,
                seed=seed,
                deterministic=deterministic,
                discount=self.run.cost_discount,
                cost_bound=cost_bound,
                until_decided=until_decided,
                max_episodes=max_episodes,
                on_progress=on_progress,
            )
        longest = max((float(row.get("ep_length", 0.0)) for row in self._rows), default=0.0)
        return replace(result, env=run.env, longest_length=longest)

    def watch(
        self,
        path: str | Path | None = None,
        env: EnvSource | VecEnv | None = None,
        *,
        episodes: int = 1,
        seeds: Sequence[int] = (),
        worst_of: int = 0,
        seed: int = 1_000_000,
        deterministic: bool = False,
        cost: CostFunction | str | None = None,
        env_args: Mapping[str, object] | None = None,
        trust_env: bool = False,
        frames: int = 250,
        fps: int = 25,
        progress: bool = True,
    ) -> Path | None:
        """Film episodes: .gif or .mp4, a plot (.png, .svg, .pdf), or a window without a `path`.

        The episodes are the first of an evaluation with `seed`, the first of each of `seeds`, or
        the costliest of `worst_of`. `frames` is the largest number of frames of an episode. Returns
        the file; for an environment without pictures it is a plot. If drawing fails it raises
        `holdfast.ship.film.NotDrawn`.
        """
        policy = self._trained()
        run = self.run if env is None else replace(self.run, env_args=dict(env_args or {}))
        film = Film(
            policy.actor,
            policy.spaces.limits,
            f"{self.run.name} on {self.run.env}",
            deterministic,
            self.run.cost_discount,
            frames,
            fps,
        )
        plain = path is not None and Path(path).suffix in PLOTS
        mode = "human" if path is None else "none" if plain else "rgb_array"
        view = open_view(run, *self._sources(env, cost), mode, trust_env or self._trusted)
        try:
            ranked = lambda: film.by_cost(view, worst_of, seed)
            chosen = choose(episodes, seeds, worst_of, ranked, seed)
            with FilmBar(quiet=not progress) as bar:
                if path is not None:
                    return film.write(view, chosen, Path(path), bar.update)
                film.show(view, chosen, bar.report)
                return None
        finally:
            view.close()

    def actor(self) -> Actor:
        """The policy in NumPy."""
        return self._trained().actor

    def _stream(self, count: int) -> Iterator[Any]:
        """The noise of sampled actions; its state is kept between calls."""
        state = self._trained().state
        if self._sampling is None or self._sampling[0] is not state or self._sampling[1] != count:
            self._sampling = state, count, self.noise(None, count)
        return self._sampling[2]

    def noise(self, seed: int | None = None, count: int = 1) -> Iterator[Any]:
        """The noise of each step of an episode, or of `count` parallel episodes, for `predict`."""
        return self.actor().noise(seed, count)

    def export(self, path: str | Path, *, double: bool = False, noise: bool = False) -> Agreement:
        """Write the policy for use without Holdfast: .onnx, or .npz with policy.py beside it.

        Its inputs are observations in the environment's own form, for a Dict or Tuple one input for
        each part. Its outputs are actions inside the action space. They are compared with those of
        `predict` before the file is written. An ONNX file has inputs and outputs of float32, or
        float64 with `double`. With `noise` it has a second input, the noise, and a second output,
        `sampled`.
        """
        return export(self._trained().portable(), Path(path), double, noise)

    def save(self, path: str | Path) -> None:
        """Write a run folder that `load`, `holdfast evaluate` and `holdfast resume` read.

        An earlier save of the same run is replaced; later epochs or another run are refused.
        """
        policy = self._trained()
        folder = Folder(Path(path), policy.run, policy.spaces)
        write_run(folder, policy.state, self.metrics, self.evaluations)
        self._place = Path(path)
        if self._trusted:
            remember(Path(path), self.run)

    @classmethod
    def load(cls, path: str | Path, trust_env: bool = False, which: Which = "newest") -> Agent:
        """The agent of a run folder, a path or URI (s3://...), from its newest whole checkpoint.

        `which` may also be "best", the best policy that was safe in its own fresh episodes (see
        `evaluate_every`), or the epoch of a kept checkpoint. `trust_env` allows the import of the
        environment that the folder names, when it is needed.
        """
        place = local_copy(path)
        if isinstance(which, int):
            add_epoch(place, which)
        folder = open_folder(place)
        state, _ = load_state(folder, which)
        if state is None:
            raise CheckpointError(
                f"'{path}' has no checkpoint yet; continue it with "
                f"`holdfast resume {shlex.quote(str(path))}`."
            )
        agent = cls(folder.run.algorithm)
        agent.run, agent.spaces, agent.state = folder.run, folder.spaces, state
        agent._trusted = trust_env or is_remembered(folder.path)
        agent._rows = rows_until(folder.path / "progress.csv", state.epoch)
        agent._place = folder.path
        agent.evaluations = [*rows_until(folder.path / EVALUATIONS, state.epoch)]
        return agent

    def _trained(self) -> Trained:
        if self.state is None or self.spaces is None:
            raise ValueError("this agent has not learned yet; call learn(env, ...) or load it.")
        return Trained(self.run, self.spaces, self.state)
