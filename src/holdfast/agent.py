# SPDX-License-Identifier: Apache-2.0
"""Python in the words people know: construct, learn, predict, evaluate, save, load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.algorithms import Algorithm
from holdfast.bars import FilmBar, training_bar
from holdfast.envs.acting import Actor, action_map
from holdfast.envs.base import VecEnv
from holdfast.evaluate import CostBound, Evaluation, OnEpisodes, evaluate
from holdfast.export import Agreement, Portable, export
from holdfast.film import Film, choose
from holdfast.film.views import open_view
from holdfast.run import PresetName, Run, configure, make_run
from holdfast.runs.checkpoint import CheckpointError
from holdfast.runs.folder import (
    Folder,
    create,
    describe_space,
    load_state,
    open_folder,
    versions,
)
from holdfast.runs.progress import read_rows
from holdfast.runs.training import train_in_folder, write_run
from holdfast.train import train
from holdfast.train.environment import Spaces, open_env
from holdfast.train.state import State, actor_of


class Agent:
    """A policy that learns to be good and safe.

    >>> agent = Agent("c-trpo", beta=1.0).learn("probe/Speed-v0", total_steps=20_000)
    >>> action = agent.predict(obs)
    """

    def __init__(
        self,
        algorithm: str | Algorithm = "c-trpo",
        *,
        preset: PresetName | None = None,
        **settings: Any,
    ) -> None:
        self.run: Run = make_run(algorithm, preset, **settings)
        self._algorithm = algorithm
        self._preset: PresetName | None = preset
        self._settings = settings
        self.spaces: Spaces | None = None
        self.state: State | None = None
        self.metrics: list[dict[str, float | int]] = []
        """One row for each epoch so far."""

    def learn(
        self,
        env: Any,
        total_steps: int | float = 1_000_000,
        *,
        out: str | Path | None = None,
        progress: bool = True,
        cost: Any = None,
        **settings: Any,
    ) -> Agent:
        """Train on an environment: an id, a Gymnasium factory or instance, or a `VecEnv`.

        `settings` are those of `Run` and of the algorithm (`cost_limit=`, `limits=`, `seed=`, ...).
        With `out` the run is kept in a folder that `holdfast resume` and `report` understand.
        An agent that has learned already, or was loaded, learns `total_steps` more.
        """
        run = self._next_run(env, int(total_steps), settings)
        batch = open_env(run, env, cost)
        try:
            spaces = Spaces.of(run, batch)
            self._adopt(run, spaces)
            begin = self.state.epoch * self.run.epoch_steps if self.state else 0
            bar = training_bar(self.run, batch, spaces.limits, begin) if progress else None
            shown = [bar] if bar else []
            if out is not None:
                folder = create(Path(out), self.run, batch)
                if self.state is not None:
                    write_run(folder, self.state, self.metrics)
                on_progress = bar.advance if bar else None
                epochs = train_in_folder(folder, batch, shown, self.state, on_progress)
            else:
                epochs = train(self.run, batch, self.state)
            try:
                for epoch in epochs:
                    if bar and out is None:
                        bar.write(epoch.env_steps, epoch.metrics)
                    self.state = epoch.state
                    self.metrics.append(epoch.metrics)
            finally:
                if bar:
                    bar.close()
        finally:
            if batch is not env:
                batch.close()
        return self

    def _next_run(self, env: Any, steps: int, settings: dict[str, Any]) -> Run:
        known: dict[str, Any] = {"env": env if isinstance(env, str) else _label(env)}
        if isinstance(env, VecEnv):
            known["num_envs"] = env.num_envs
        if self.state is None:
            chosen = self._settings | known | {"steps": steps} | settings
            return make_run(self._algorithm, self._preset, **chosen)
        done = self.state.epoch * self.run.epoch_steps
        return configure(self.run, **(known | {"steps": done + steps} | settings))

    def _adopt(self, run: Run, spaces: Spaces) -> None:
        """Take the environment's spaces; what was learned on others cannot go on here."""
        before = self.spaces
        if self.state is not None and before is not None:
            fits = (
                before.observation.shape == spaces.observation.shape
                and before.action == spaces.action
                and tuple(before.limits) == tuple(spaces.limits)
                and len(self.state.obs) == run.num_envs
            )
            if not fits:
                raise ValueError(
                    "this agent learned on other spaces, constraints or num_envs and cannot go on "
                    "here; make a new Agent."
                )
        self.run, self.spaces = run, spaces

    def predict(self, obs: Any, deterministic: bool = True, seed: int | None = None) -> Any:
        """The action for one observation [O] or a batch [n, O], in the environment's units."""
        spaces = self._trained()[1]
        flat = np.asarray(obs, np.float64)
        single = flat.ndim == 1
        flat = np.atleast_2d(flat)
        if flat.shape[1:] != spaces.observation.shape:
            raise ValueError(
                f"an observation of shape {np.shape(obs)} does not fit this policy, which was "
                f"trained on flat observations of size {spaces.observation.shape[0]}."
            )
        actor = self.actor()
        noise = None
        if not deterministic:
            noise = actor.draw(np.random.default_rng(seed), (len(flat),))
        action = action_map(spaces.action, actor.clip)(actor.act(actor.view(flat), noise))
        return action[0] if single else action

    def evaluate(
        self,
        env: Any = None,
        episodes: int = 100,
        *,
        seed: int = 1_000_000,
        deterministic: bool = False,
        cost: Any = None,
        cost_bound: CostBound | None = None,
        until_decided: bool = False,
        max_episodes: int = 10_000,
        on_progress: OnEpisodes | None = None,
    ) -> Evaluation:
        """Fresh episodes on `env` (by default the one trained on), with a verdict on safety.

        `cost_bound` is the most that one episode can cost, where the environment does not know it:
        a number, or one for each constraint by name. With `until_decided` there follow more
        episodes, up to `max_episodes`, until safety is proved or disproved. `on_progress` is told,
        now and then, how many have ended, and what they say.
        """
        spaces = self._trained()[1]
        batch = open_env(self.run, env or self.run.env, cost, to_evaluate=True)
        try:
            return evaluate(
                self.actor(),
                batch,
                spaces.limits,
                episodes=episodes,
                seed=seed,
                deterministic=deterministic,
                discount=self.run.cost_discount,
                cost_bound=cost_bound,
                until_decided=until_decided,
                max_episodes=max_episodes,
                on_progress=on_progress,
            )
        finally:
            if batch is not env:
                batch.close()

    def watch(
        self,
        path: str | Path | None = None,
        env: Any = None,
        *,
        episodes: int = 1,
        seeds: Sequence[int] = (),
        worst_of: int = 0,
        seed: int = 1_000_000,
        deterministic: bool = False,
        cost: Any = None,
        frames: int = 250,
        fps: int = 25,
        progress: bool = True,
    ) -> Path | None:
        """Film episodes: .gif or .mp4, a plot (.png, .svg, .pdf), or a window without a `path`.

        The episodes are the first of an evaluation with `seed`, or of each of `seeds` the first, or
        the costliest of `worst_of`. Returns the file; where the environment cannot be drawn that is
        a plot. `frames` is the most of an episode.
        """
        state, spaces = self._trained()
        source = env or self.run.env
        film = Film(
            actor_of(self.run, state),
            spaces.limits,
            f"{self.run.name} on {self.run.env}",
            deterministic,
            self.run.cost_discount,
            frames,
            fps,
        )
        view = open_view(self.run, source, cost, "human" if path is None else "rgb_array")
        try:
            ranked = lambda: film.by_cost(view, worst_of, seed)
            chosen = choose(episodes, seeds, worst_of, ranked, seed)
            with FilmBar(quiet=not progress) as bar:
                if path is not None:
                    return film.write(view, chosen, Path(path), bar.update)
                film.show(view, chosen, bar.say)
                return None
        finally:
            view.close()

    def actor(self) -> Actor:
        """The policy in NumPy."""
        return actor_of(self.run, self._trained()[0])

    def export(self, path: str | Path) -> Agreement:
        """Write the policy for use without Holdfast: .onnx, or .npz with policy.py beside it.

        It takes flat observations as the environment gives them and returns actions in the
        environment's units, always inside the space; both are checked against `predict` first.
        """
        state, spaces = self._trained()
        about = {
            "algorithm": self.run.name,
            "env": self.run.env,
            "seed": self.run.seed,
            "epoch": state.epoch,
            "limits": spaces.limits,
            "action_space": describe_space(spaces.action),
            "holdfast": versions()["holdfast"],
        }
        return export(Portable(self.actor(), spaces.action, about), Path(path))

    def save(self, path: str | Path) -> None:
        """Write a run folder that `load`, `holdfast evaluate` and `holdfast resume` understand.

        An earlier save of the same run may be there; later epochs or another run are refused.
        """
        state, spaces = self._trained()
        write_run(Folder(Path(path), self.run, spaces), state, self.metrics)

    @classmethod
    def load(cls, path: str | Path) -> Agent:
        """The agent of a run folder, from its newest whole checkpoint."""
        folder = open_folder(Path(path))
        state, _ = load_state(folder)
        if state is None:
            raise CheckpointError(
                f"'{path}' holds no checkpoint yet; continue it with `holdfast resume {path}`."
            )
        agent = cls(folder.run.algorithm)
        agent.run, agent.spaces, agent.state = folder.run, folder.spaces, state
        rows = read_rows(folder.path / "progress.csv")
        agent.metrics = [row for row in rows if row["epoch"] <= state.epoch]
        return agent

    def _trained(self) -> tuple[State, Spaces]:
        if self.state is None or self.spaces is None:
            raise ValueError("this agent has not learned yet; call learn(env, ...) or load it.")
        return self.state, self.spaces


def _label(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", "") or getattr(env, "__name__", "") or type(env).__name__)
