# SPDX-License-Identifier: Apache-2.0
"""A model card as plain data: the policy, the verdict, its assumptions, and commands to repeat
it.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.agent import Agent
from holdfast.core.limits import Limit
from holdfast.envs.foreign.references import is_unnamed, needs_consent
from holdfast.files import read_json
from holdfast.judge.evaluate import Evaluation
from holdfast.process import DISTRIBUTION, versions
from holdfast.run import Run
from holdfast.runs.space_json import describe_space
from holdfast.ship.certify.history import History
from holdfast.ship.certify.task import cost_words, task_words

FORMAT = 1
FILMED = "The film shows single episodes, the costliest of those played, and proves nothing."


@dataclass(frozen=True)
class CardInputs:
    """The inputs of a card."""

    path: Path
    """The run folder."""
    name: str
    """The run in commands: its path, URI or name in the zoo."""
    agent: Agent
    evaluation: Evaluation
    seed: int
    """Seed of the evaluation."""
    history: History
    film: Path | None
    conditions: Mapping[str, Evaluation]
    """Evaluations under other conditions, by the change."""
    place: Run
    """The run with the environment and cost function of the evaluation."""
    perturb: tuple[str, ...] = ()
    """The words of `--perturb` for these conditions."""
    about: str = ""
    """A description of the task by the user; empty: the environment's own."""
    given: Any = None
    """The environment of the evaluation, if one was passed."""
    unfilmed: str = ""
    """Why there is no film, if there is none."""
    other_head: Evaluation | None = None
    """The evaluation with most likely actions if the card is on sampled ones, or the reverse."""


def describe(judged: CardInputs) -> dict[str, Any]:
    """The card of one policy; it contains every number on the page."""
    agent, result = judged.agent, judged.evaluation
    run, spaces, state = agent.run, agent.spaces, agent.state
    assert spaces is not None and state is not None
    return {
        "format": FORMAT,
        "policy": {
            "algorithm": run.name,
            "preset": run.preset,
            "seed": run.seed,
            "epoch": state.epoch,
            "env_steps": state.epoch * run.epoch_steps,
            "actions": _head(result),
            "noise_time": state.noise.time,
            "noise": noise_words(state.noise.time),
        },
        "task": {
            "env": judged.place.env,
            "trained_on": run.env,
            "about": judged.about or task_words(judged.place.env, judged.given),
            "costs": cost_words(judged.place.env, result.limits, judged.place.cost),
            "limits": {name: claim.plain for name, claim in result.claims.items()},
            "criterion": run.cost_criterion,
            "cost_discount": run.cost_discount,
            "observation_size": spaces.observation.shape[0],
            "action_space": describe_space(spaces.action),
        },
        "verdict": result.summary()
        | {
            "proved": result.verdict.proved_sentence,
            "if_the_tail_is_as_seen": result.verdict.seen_sentence,
            "assumptions": assumptions(judged),
            "evaluation_seed": judged.seed,
        },
        "other_head": _other_head(judged.other_head),
        "cost_of_episodes": {
            name: [float(f"{cost:.7g}") for cost in result.costs[:, i]]
            for i, name in enumerate(result.limits)
        },
        "conditions": {name: other.summary() for name, other in judged.conditions.items()},
        "training": judged.history.summary(),
        "not_shown": not_shown(judged),
        "versions": {"trained": trained_with(judged.path), "judged": versions()},
        "files": digests(judged),
        "no_film": None if judged.film else judged.unfilmed,
        "reproduce": reproduce(judged),
    }


def noise_words(time: float) -> str:
    """The noise of sampled actions in a sentence."""
    if time <= 0:
        return "The noise of sampled actions is white: every step draws its own."
    return f"The noise of sampled actions lasts {time:.3g} step{'s' * (time != 1)}."


def _other_head(result: Evaluation | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return result.summary() | {"actions": _head(result), "proved": result.verdict.proved_sentence}


def assumptions(judged: CardInputs) -> list[str]:
    """The assumptions of the proof."""
    result = judged.evaluation
    bounds = result.cost_bounds
    bounded = (
        "the cost of an episode has no known bound, so safety cannot be proved, only indicated"
        if bounds is None
        else "an episode costs between 0 and "
        + ", ".join(f"{b:g} ({name})" for b, name in zip(bounds, result.limits, strict=True))
        + ", with any distribution of the costs in between"
    )
    return [
        f"{bounded};",
        f"the {len(result.returns):,} episodes were drawn independently from the environment as "
        f"named, with {_head(result)} actions of the policy as stored, and none was left out;",
        f"the limit is on the {_quantities(result)}, and confidence is 95 % at any number of "
        "episodes, also if the evaluation stops as soon as it is decided.",
    ]


def _limited(result: Evaluation) -> str:
    beyond = any(claim.kind != "mean" for claim in result.claims.values())
    return _quantities(result) if beyond else "mean"


def _quantities(result: Evaluation) -> str:
    """The limited quantities in words."""
    kinds = {name: claim for name, claim in result.claims.items() if claim.kind != "mean"}
    if not kinds:
        return "mean cost of an episode"
    return ", ".join(f"{claim.quantity} ({name})" for name, claim in result.claims.items())


def _head(result: Evaluation, other: bool = False) -> str:
    return "most likely" if result.deterministic != other else "sampled"


def not_shown(judged: CardInputs) -> list[str]:
    """Conclusions that a card does not support."""
    result, past = judged.evaluation, judged.history
    rate = result.verdict.violating
    epochs = sum(excursion.epochs for excursion in past.excursions)
    learned = (
        f"While it learned, the mean cost was above a limit in {epochs} of {len(past.steps)} "
        "epochs; the verdict is about the policy after that."
        if len(past.steps)
        else "No history of the training is stored, so the costs while it learned are unknown."
    )
    changed = (
        "Only the conditions listed here were changed, one set at a time."
        if judged.conditions
        else "No other mass, friction, sensor noise or delay was tried."
    )
    beside = "" if judged.other_head is None else "; both are compared below"
    return [
        f"The limit is on the {_limited(result)}, so single episodes may exceed it: "
        f"{rate.value:.1%} of those judged did, and up to {rate.high:.1%} cannot be excluded.",
        f"It is about this environment, {judged.place.env}. A machine, or a simulator, that "
        f"differs has other costs. {changed}",
        "A cost that the environment does not report was not judged.",
        f"It is about {_head(result)} actions. With {_head(result, other=True)} ones the policy is "
        f"another, at other costs{beside}.",
        "It is about one trained policy (one seed), not about its algorithm.",
        learned,
        "95 % means: of twenty such answers one may be wrong.",
        *([FILMED] if judged.film is not None else []),
    ]


def trained_with(path: Path) -> dict[str, str]:
    """The versions that run.json names."""
    found: Any = read_json(path / "run.json").get("versions")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def digests(judged: CardInputs) -> dict[str, dict[str, Any]]:
    """SHA-256 and size of every file of the card."""
    assert judged.agent.state is not None
    stored = f"checkpoint/epoch-{judged.agent.state.epoch:06d}/state.safetensors"
    names = ["run.json", "progress.csv", stored]
    found = {name: judged.path / name for name in names if (judged.path / name).is_file()}
    if judged.film is not None:
        found[judged.film.name] = judged.film
    return {name: digest(file.read_bytes()) for name, file in found.items()}


def digest(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def reproduce(judged: CardInputs) -> list[str]:
    """Commands that repeat the evaluations and the training."""
    result, run, place = judged.evaluation, judged.agent.run, judged.place
    flags = f" --seed {judged.seed}"
    here = place.env == run.env and place.env_args == run.env_args
    named = [*([run.env] if here else []), *([run.cost] if place.cost == run.cost else [])]
    flags += " --trust-env" if needs_consent(named, here and run.env_args) else ""
    if not here:
        flags += f" --env {shlex.quote(place.env)}"
        flags += "".join(
            f" --env-arg {shlex.quote(f'{name}={json.dumps(value)}')}"
            for name, value in place.env_args.items()
        )
    if place.cost != run.cost:
        flags += f" --cost {shlex.quote(place.cost)}"
    assert judged.agent.spaces is not None
    trained = {n: run.kinds.get(n, Limit(b)) for n, b in judged.agent.spaces.limits.items()}
    if result.claims != trained:
        limits = {name: claim.plain for name, claim in result.claims.items()}
        flags += "".join(f" --limit {shlex.quote(f'{n}={b}')}" for n, b in limits.items())
    given = result.cost_bounds
    if given is not None and all(math.isfinite(b) for b in given) and len(set(given)) == 1:
        flags += f" --cost-bound {given[0]:g}"
    heads = [result, *([judged.other_head] if judged.other_head is not None else [])]
    again, *beside = (
        f"holdfast evaluate {shlex.quote(judged.name)} --episodes {len(head.returns)}"
        f"{' --greedy' * head.deterministic}{flags}"
        for head in heads
    )
    consent = " --trust-env" if needs_consent((run.env, run.cost), run.env_args) else ""
    train = f"holdfast train --config {shlex.quote(f'{judged.name}/run.json')}{consent}"
    if is_unnamed(run.env) or is_unnamed(run.cost):
        train = "# no command trains it again: its environment or cost function has no name"
    return [
        f"pip install {DISTRIBUTION}=={versions()['holdfast']}",
        again,
        *beside,
        *([f"{again} --perturb {' '.join(judged.perturb)}"] if judged.perturb else []),
        train,
    ]
