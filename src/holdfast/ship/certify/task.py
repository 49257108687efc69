# SPDX-License-Identifier: Apache-2.0
"""Descriptions of a task and its costs: from the catalogue, from docstrings, or from the user."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from holdfast.envs import native
from holdfast.envs.foreign.references import load, split
from holdfast.envs.make import is_task
from holdfast.envs.native.worlds.cost_terms import ENTRIES
from holdfast.envs.probe import PROBES

MEANING = {
    "cost_sum": "1 in a step in which any cost of the task is above 0",
    "cost_hazards": "1 in a step inside a hazard",
    "cost_vases_contact": "1 in a step in which a vase is touched",
    "cost_vases_velocity": "1 in a step in which a vase moves",
    "cost_pillars": "1 in a step in which a pillar is touched",
    "cost_gremlins": "1 in a step in which a gremlin is touched",
    "cost_buttons": "1 in a step in which a wrong button is touched",
    "cost_out_of_boundary": "1 in a step beyond the walls",
    "cost_velocity": "1 in a step above the speed limit",
}
"""Entry of a native task's `info` → its meaning."""
LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
"""Markup of Markdown in docstrings, which is removed."""
UNKNOWN = "The environment has no description; `--describe` adds one."


def task_words(name: str, given: Any = None) -> str:
    """One paragraph on an environment: of a native task, or the docstring of a class or function.

    `given` is the environment itself if it was passed; else `name` is loaded, which the evaluation
    has already imported.
    """
    if is_task(name):
        if name in PROBES:
            return f"{_sentence(PROBES[name].summary)} At most {PROBES[name].horizon} steps."
        found = native.describe(name)
        surroundings = f" In the world: {found.world}." if found.world else ""
        length = f" An episode has {found.time_limit} steps of {found.seconds_per_step:g} s."
        return f"{_sentence(found.aim)}{surroundings}{length}"
    thing = _environment(name) if given is None or isinstance(given, str) else given
    return _paragraph(thing) or UNKNOWN


def cost_words(name: str, costs: Iterable[str], function: str = "") -> dict[str, str]:
    """Cost → its meaning, if known."""
    if function:
        text = _paragraph(load(function)) if split(function) else ""
        return dict.fromkeys(costs, f"{text or 'Computed'} (cost function {function})")
    if not is_task(name):
        return {cost: f"the value that the environment reports as {cost} in info" for cost in costs}
    if name in PROBES:
        return dict.fromkeys(costs, f"see the task: {PROBES[name].summary}")
    found = native.describe(name)
    return {cost: _native(cost, found) for cost in costs}


def _native(cost: str, found: native.Description) -> str:
    """The entries of `info` behind a constraint, the summed cost spelt out."""
    keys = [key for key in ENTRIES[cost] if key != "cost_sum"]
    keys = keys or [key for key in found.info_keys if key != "cost_sum"]
    words = " or ".join(MEANING[key].removeprefix("1 in a step ") for key in keys)
    limit = f" of {found.threshold:g}" if "cost_velocity" in keys and found.threshold else ""
    return f"1 in a step {words}{limit}"


def _environment(name: str) -> Any:
    """The class or function of a name; None if there is none."""
    if split(name):
        return load(name)
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    try:
        made = gym.spec(name).entry_point
    except gym.error.Error:
        return None
    return load_env_creator(made) if isinstance(made, str) else made


def _paragraph(thing: Any) -> str:
    """The first paragraph of a docstring of its own, on one line."""
    kind = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    text = inspect.cleandoc(kind.__doc__ or "") if thing is not None else ""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    words = " ".join("\n".join(lines).strip().partition("\n\n")[0].split())
    return LINK.sub(r"\1", words)


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."
