# SPDX-License-Identifier: Apache-2.0
"""Model cards: one offline page and one JSON file on a policy's safety."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.agent import Agent
from holdfast.cluster.storage import called, refuse_zoo
from holdfast.envs.base import VecEnv
from holdfast.envs.failure import describe_error
from holdfast.envs.foreign.costs import CostFunction
from holdfast.envs.foreign.source import EnvSource, name_env, name_function
from holdfast.files import write_atomic
from holdfast.judge.evaluate import CostBound, Limits, OnEpisodes
from holdfast.judge.perturb import parse_perturbations
from holdfast.ship.certify.card import CardInputs
from holdfast.ship.certify.card import describe as described
from holdfast.ship.certify.card_page import render
from holdfast.ship.certify.history import history
from holdfast.ship.film.writers import find_ffmpeg

__all__ = ["certify"]

FILMED = 20
"""Number of episodes of which the costliest is filmed."""


def certify(
    run: str | Path,
    out: str | Path | None = None,
    *,
    episodes: int = 200,
    until_decided: bool = False,
    max_episodes: int = 10_000,
    seed: int = 1_000_000,
    deterministic: bool = False,
    cost_bound: CostBound | None = None,
    limits: Limits | None = None,
    film: bool = True,
    trust_env: bool = False,
    perturb: Sequence[str] = (),
    env: EnvSource | VecEnv | None = None,
    env_args: Mapping[str, object] | None = None,
    cost: CostFunction | str | None = None,
    describe: str = "",
    name: str = "",
    on_progress: OnEpisodes | None = None,
) -> tuple[Path, Path]:
    """Judge the policy of a run folder and write card.html and card.json into `out`.

    `out` is RUN/card by default. The verdict is on sampled actions, or with `deterministic` on the
    most likely ones; the other kind is judged, too, from `episodes` episodes. `perturb` are further
    conditions, as in `holdfast evaluate --perturb`. `film` adds a video of the costliest of 20
    episodes, or a plot for an environment without pictures; if drawing fails, the card contains the
    reason. `env`, `env_args`, `cost` and `limits` are those of `Agent.evaluate`, and replace those
    of training in the card. `describe` is a description of the task, in place of the environment's
    docstring. `name` is the run in the card's commands, by default its folder or address.
    """
    folder = Path(run)
    if out is None:
        refuse_zoo(folder, "name a folder for the card with out=")
    target = folder / "card" if out is None else Path(out)
    agent = Agent.load(folder, trust_env)
    assert agent.spaces is not None
    how: dict[str, Any] = {"cost": cost, "env_args": env_args, "seed": seed}
    how |= {"deterministic": deterministic}
    judge = partial(
        agent.evaluate,
        env,
        episodes,
        **how,
        cost_bound=cost_bound,
        limits=limits,
        on_progress=on_progress,
    )
    result = judge(until_decided=until_decided, max_episodes=max_episodes)
    beside = judge(deterministic=not deterministic)
    conditions = parse_perturbations(perturb) if perturb else ()
    others = {str(condition): judge(perturb=condition) for condition in conditions}
    target.mkdir(parents=True, exist_ok=True)
    shown, unfilmed = None, "it was not requested"
    if film:
        wanted = target / f"film{'.mp4' if has_ffmpeg() else '.gif'}"
        try:
            shown = agent.watch(wanted, env, **how, worst_of=FILMED, progress=False)
        except Exception as error:  # whatever it is, the card must not be lost with the film
            unfilmed = str(error) if isinstance(error, RuntimeError) else describe_error(error)
    past = history(agent.metrics, agent.spaces.limits)
    place = agent.run
    if env is not None:
        name, own = name_env(env)
        place = replace(place, env=name, env_args=dict(own if env_args is None else env_args))
    if cost is not None:
        place = replace(place, cost=cost if isinstance(cost, str) else name_function(cost))
    judged = CardInputs(
        folder,
        name or called(folder),
        agent,
        result,
        seed,
        past,
        shown,
        others,
        place,
        tuple(perturb),
        describe,
        env,
        unfilmed,
        beside,
    )
    data = described(judged)
    content = (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()
    write_atomic(target / "card.json", content)
    write_atomic(target / "card.html", render(data, judged, content).encode())
    return target / "card.html", target / "card.json"


def has_ffmpeg() -> bool:
    try:
        find_ffmpeg()
    except RuntimeError:
        return False
    return True
