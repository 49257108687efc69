# SPDX-License-Identifier: Apache-2.0
"""Python in the words people know: construct, learn, predict, evaluate, save, load.

Long, since it is the whole face of the library: each method is its arguments, what they mean, and a
call of what does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.algorithms import Algorithm
from holdfast.bars import FilmBar, training_bar
from holdfast.envs.acting import Actor, action_map
from holdfast.envs.base import VecEnv
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.source import EnvSource, name_env, name_function
from holdfast.envs.foreign.spaces import read_observations, to_native
from holdfast.envs.make import is_given, is_vectorised, num_envs_of
from holdfast.envs.perturb import Perturbation, perturbed
from holdfast.evaluate import CostBound, Evaluation, Judged, OnEpisodes, evaluate, judged_by
from holdfast.export import Agreement, Portable, export
from holdfast.film import Film, choose
from holdfast.film.views import open_view
from holdfast.process import versions
from holdfast.run import PresetName, Run, configure, make_run
from holdfast.runs.checkpoint import CheckpointError
from holdfast.runs.folder import Folder, create, load_state, open_folder
from holdfast.runs.progress import rows_until
from holdfast.runs.sinks import Sink, TensorBoard, closed_after
from holdfast.runs.spaces import describe_space
from holdfast.runs.storage import local_copy
from holdfast.runs.training import train_in_folder, write_run
from holdfast.train import Epoch, train
from holdfast.train.environment import Given, Spaces, open_env
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
        self._given: Given = (None, None)
        """Environment and cost function, as they were passed to `learn`."""
        self._trusted = False

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
        callback: Callable[[Epoch], object] | None = None,
        **settings: Any,
    ) -> Agent:
        """Train on an environment: a name, a Gymnasium factory or instance, or a batch.

        `settings` are those of `Run` and of the algorithm (`cost_limit=`, `limits=`, `seed=`, ...).
        With `out` the run is kept in a folder that `holdfast resume` and `report` understand.
        An agent that has learned already, or was loaded, learns `total_steps` more, by default on
        the same environment; `trust_env` allows a loaded one to import what its run names. `out`
        may be the folder that it was loaded from. `tensorboard` is a folder for events; `callback`
        is given each `Epoch` and ends the training, in order, where it returns False.
        """
        env, cost = self._sources(env, cost)
        run = self._next_run((env, cost), int(total_steps), settings)
        self._trusted |= trust_env
        envs = open_env(run, env, cost, trusted=self._trusted)
        self._given = env, cost
        with ExitStack() as opened:
            if not is_given(env):
                opened.callback(envs.close)
            spaces = Spaces.of(run, envs)
            self._adopt(run, spaces)
            begin = self.state.epoch * self.run.epoch_steps if self.state else 0
            shown: list[Sink] = []
            opened.enter_context(closed_after(shown))
            bar = training_bar(self.run, envs, spaces.limits, begin) if progress else None
            on_progress = bar.advance if bar else None
            if bar is not None:
                shown.append(bar)
            if tensorboard is not None:
                shown.append(TensorBoard(Path(tensorboard), begin))
            if out is not None:
                folder = self._folder(Path(out), envs)
                epochs = train_in_folder(folder, envs, shown, self.state, on_progress)
            else:
                epochs = train(self.run, envs, self.state, on_progress)
            for epoch in opened.enter_context(closing(epochs)):
                for sink in shown if out is None else ():  # in a folder it comes before saving
                    sink.write(epoch.env_steps, epoch.metrics)
                self.state = epoch.state
                self.metrics.append(epoch.metrics)
                if callback is not None and callback(epoch) is False:
                    break
        return self

    def _sources(self, env: EnvSource | VecEnv | None, cost: CostFunction | str | None) -> Given:
        """The environment and cost function, by default those passed before in this process."""
        before = self._given
        if env is None and before[0] is None and not self.run.env:
            raise ValueError("learn needs an environment, such as learn('probe/Speed-v0').")
        return before[0] if env is None else env, before[1] if cost is None else cost

    def _next_run(self, given: Given, steps: int, settings: dict[str, Any]) -> Run:
        known: dict[str, Any] = {}
        env, cost = given
        if env is not None and env is not self._given[0]:
            known["env"], known["env_args"] = name_env(env)
        if env is not None and is_vectorised(env):
            known["num_envs"] = num_envs_of(env)
        if cost is not None:
            known["cost"] = cost if isinstance(cost, str) else name_function(cost)
        if self.state is None:
            settings = self._settings | known | {"steps": steps} | settings
            run = make_run(self._algorithm, self._preset, **settings)
        else:
            done = self.state.epoch * self.run.epoch_steps
            run = configure(self.run, **(known | {"steps": done + steps} | settings))
        if run.limits and settings.get("cost_limit") is not None:
            raise ValueError(
                f"cost_limit={run.cost_limit} would limit nothing, as there are limits by name: "
                f"give limits={dict.fromkeys(run.limits, run.cost_limit)}."
            )
        return run

    def _folder(self, path: Path, batch: VecEnv) -> Folder:
        """A new folder with what was learned so far, or the one where it lies already."""
        state, spaces = self.state, self.spaces
        if state is None or spaces is None or not (path / "run.json").exists():
            folder = create(path, self.run, batch)
        else:
            folder = Folder(path, self.run, spaces)
        if state is not None:
            write_run(folder, state, self.metrics)
        return folder

    def _adopt(self, run: Run, spaces: Spaces) -> None:
        """Take the environment's spaces; what was learned on others cannot go on here."""
        before = self.spaces
        if self.state is not None and before is not None:
            if not before.fits(spaces) or len(self.state.obs) != run.num_envs:
                raise ValueError(
                    "this agent learned on other spaces, constraints or num_envs and cannot go on "
                    "here; make a new Agent."
                )
        self.run, self.spaces = run, spaces

    def predict(
        self,
        obs: Any,
        deterministic: bool = True,
        seed: int | None = None,
        memory: Any = None,
        budget: Any = None,
    ) -> Any:
        """The action for one observation, or for many, as the environment gives and takes them.

        Many are what a `VectorEnv` gives: each part has a leading axis. Actions always lie in the
        action space; NaN or infinity in an observation raises.

        A policy that remembers (encoder="gru") returns (action, memory): pass the memory with the
        next observation, and None where an episode begins; of many, 0 in the rows where one does.

        A policy with a limit beyond the mean needs `budget`, the share of it that is left, between
        -1 and 1: (b - cost so far) / b, a number for each such limit (of many, a row for each).
        """
        spaces = self._trained()[1]
        flat, single = read_observations(spaces.native_observation, obs)
        flat = spaces.with_left(flat, budget)
        actor, noise = self.actor(), None
        kept = actor.recall(memory, len(flat))
        if not deterministic:
            noise = actor.draw(np.random.default_rng(seed), (len(flat),))
        chosen, kept = actor.act(actor.view(flat, kept), noise)
        action = action_map(spaces.action, True)(chosen)
        if spaces.native_action is not spaces.action:
            action = to_native(spaces.native_action, action, True)
        action, kept = (action[0], kept[0]) if single else (action, kept)
        return (action, kept) if actor.network.memory else action

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
        limits: Judged | Mapping[str, Judged] | None = None,
        perturb: Perturbation | None = None,
        cost_bound: CostBound | None = None,
        until_decided: bool = False,
        max_episodes: int = 10_000,
        on_progress: OnEpisodes | None = None,
    ) -> Evaluation:
        """Fresh episodes on `env` (by default the one trained on), with a verdict on safety.

        `limits` judges by others than those of training, one or some by name, each a number or a
        text such as "25 worst 5%"; `perturb` changes the conditions (see `Perturbation`).
        `cost_bound` is the most that one episode can cost, where the environment does not know it:
        a number, or one for each constraint by name. With `until_decided` there follow more
        episodes, up to `max_episodes`, until safety is proved or disproved. `on_progress` is told,
        now and then, how many have ended, and what they say.
        """
        state, spaces = self._trained()
        run = self.run if env is None else self._elsewhere(env, env_args)
        env, cost = self._sources(env, cost)
        if perturb is not None:
            run = replace(run, workers=1)  # whose simulators can be reached
        envs = open_env(run, env, cost, to_evaluate=True, trusted=trust_env or self._trusted)
        try:
            spaces.refuse_other(Spaces.of(replace(run, limits=spaces.limits), envs))
            if perturb is not None:
                seen = np.sqrt(state.normaliser.var)
                unit = np.ones_like(seen) if self.actor().normaliser is None else seen
                unit[len(unit) - len(spaces.budgets) :] = 0.0  # what is left is counted, not sensed
                envs = perturbed(envs, perturb, unit)
            return evaluate(
                self.actor(),
                envs,
                judged_by({**spaces.limits, **self.run.kinds}, limits),
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
            if not is_given(env):
                envs.close()

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

        The episodes are the first of an evaluation with `seed`, or of each of `seeds` the first, or
        the costliest of `worst_of`. Returns the file; where the environment cannot be drawn that is
        a plot. `frames` is the most of an episode.
        """
        state, spaces = self._trained()
        run = self.run if env is None else replace(self.run, env_args=dict(env_args or {}))
        env, cost = self._sources(env, cost)
        film = Film(
            actor_of(self.run, state),
            spaces.limits,
            f"{self.run.name} on {self.run.env}",
            deterministic,
            self.run.cost_discount,
            frames,
            fps,
        )
        mode = "human" if path is None else "rgb_array"
        view = open_view(run, env, cost, mode, trust_env or self._trusted)
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

    def _elsewhere(self, env: EnvSource | VecEnv, args: Mapping[str, object] | None) -> Run:
        """The run with another environment, as many of it as there are."""
        name, own = name_env(env)
        count = (
            num_envs_of(env) if is_vectorised(env) else 1 if is_given(env) else self.run.num_envs
        )
        changes = {"env": name, "env_args": dict(own if args is None else args)}
        return replace(self.run, num_envs=count, epoch_steps=count, **changes)

    def actor(self) -> Actor:
        """The policy in NumPy."""
        return actor_of(self.run, self._trained()[0])

    def export(self, path: str | Path) -> Agreement:
        """Write the policy for use without Holdfast: .onnx, or .npz with policy.py beside it.

        It takes observations as the environment gives them (of a Dict or Tuple one input for each
        part) and returns actions as it takes them, always inside the space; they are compared with
        those of `predict` first.
        """
        state, spaces = self._trained()
        space = spaces.native_action
        about = {
            "algorithm": self.run.name,
            "env": self.run.env,
            "seed": self.run.seed,
            "epoch": state.epoch,
            "limits": spaces.limits | self.run.limits,
            "budgets": {name: spaces.limits[name] for name in spaces.budgets},
            "action_space": describe_space(space),
            "holdfast": versions()["holdfast"],
        }
        observed, budgets = spaces.native_observation, spaces.budgets
        portable = Portable(self.actor(), space, about, observed, budgets)
        return export(portable, Path(path))

    def save(self, path: str | Path) -> None:
        """Write a run folder that `load`, `holdfast evaluate` and `holdfast resume` understand.

        An earlier save of the same run may be there; later epochs or another run are refused.
        """
        state, spaces = self._trained()
        write_run(Folder(Path(path), self.run, spaces), state, self.metrics)

    @classmethod
    def load(cls, path: str | Path, trust_env: bool = False) -> Agent:
        """The agent of a run folder, a path or URI (s3://...), from its newest whole checkpoint.

        `trust_env` allows it to import the environment that the folder names, when it is needed.
        """
        folder = open_folder(local_copy(path))
        state, _ = load_state(folder)
        if state is None:
            raise CheckpointError(
                f"'{path}' holds no checkpoint yet; continue it with `holdfast resume {path}`."
            )
        agent = cls(folder.run.algorithm)
        agent.run, agent.spaces, agent.state = folder.run, folder.spaces, state
        agent._trusted = trust_env
        agent.metrics = rows_until(folder.path / "progress.csv", state.epoch)
        return agent

    def _trained(self) -> tuple[State, Spaces]:
        if self.state is None or self.spaces is None:
            raise ValueError("this agent has not learned yet; call learn(env, ...) or load it.")
        return self.state, self.spaces
