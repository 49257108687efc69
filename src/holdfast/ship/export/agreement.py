# SPDX-License-Identifier: Apache-2.0
"""Comparison of an exported policy with the trained one, before the export is written."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.envs.acting import Float32
from holdfast.process import optional
from holdfast.ship.export import numpy_policy
from holdfast.ship.export.parts import BUDGET, apart, nested, possible
from holdfast.ship.export.portable import Portable

TOLERANCE = 1e-6
"""Tolerance as a share of half the width of an action's bounds, or of the action if unbounded."""
NUDGES = 8
"""Number of changes of the observations' last bits, which measure the rounding error of float32."""
CLOSE = 1e-5
"""Choices whose scores differ by less count as equal."""
ALONE = 1_000
"""Largest number of components of an observation that are tested one by one with extreme values."""
LARGEST = 20_000_000
"""Largest total size of the observations of one test, so that large images fit in memory."""
Heads = Callable[..., tuple[Any, ...]]
"""(obs [n, O], seed of the noise, memory) -> (most likely actions, sampled ones, next memory).

Only a policy with a memory takes a memory [n, H] and returns the next.
"""


class Disagreement(RuntimeError):
    """An exported policy whose actions differ from the trained one's."""


@dataclass(frozen=True)
class Agreement:
    """The result of the comparison."""

    observations: int
    largest: float
    """Difference of an action, in units of half the width of its bounds."""
    files: tuple[Path, ...] = ()
    """The written files."""

    def __str__(self) -> str:
        return (
            f"same actions as Holdfast's on {self.observations:,} observations, random and extreme "
            f"(largest difference {self.largest:.1e})"
        )


def onnx_heads(policy: Portable, model: bytes, double: bool = False, noise: bool = False) -> Heads:
    """The heads of an ONNX file, in onnxruntime: most likely actions, and sampled ones or None."""
    ort = optional("onnxruntime", "onnx", "checking an ONNX export")
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def heads(
        obs: NDArray[np.float64], seed: int, memory: Float32 | None = None
    ) -> tuple[Any, ...]:
        kind = np.float64 if double else np.float32
        given = {name: part.astype(kind) for name, part in apart(policy.parts, obs).items()}
        names = ["action"]
        if noise:
            given["noise"] = policy.actor.draw(np.random.default_rng(seed), (1, len(obs)))[0]
            names.append("sampled")
        if memory is not None:
            given["memory"] = memory
            names.append("next_memory")
        found = dict(zip(names, session.run(names, given), strict=True))
        kept = () if memory is None else (found["next_memory"],)
        return found["action"], found.get("sampled"), *kept

    return heads


def numpy_heads(policy: Portable, content: bytes) -> Heads:
    """The two heads of an .npz file, in the file that reads it."""
    reader = numpy_policy.Policy(io.BytesIO(content))

    def heads(
        obs: NDArray[np.float64], seed: int, memory: Float32 | None = None
    ) -> tuple[NDArray[Any], ...]:
        noise = policy.actor.draw(np.random.default_rng(seed), (1, len(obs)))[0]
        leaves = apart(policy.parts, obs)
        left = leaves.pop(BUDGET, None)
        given = nested(policy.given, iter(leaves.values()))
        if memory is None:
            return reader(given, budget=left), reader(given, noise, budget=left)
        action, kept = reader(given, memory=memory, budget=left)
        return action, reader(given, noise, memory, left)[0], kept

    return heads


def check(
    policy: Portable, heads: Heads, count: int = 20_000, seed: int = 0, narrow: bool = False
) -> Agreement:
    """Compare on random and extreme observations; raises `Disagreement`.

    `narrow`: the file takes and returns float32.
    """
    asked, largest, remembers = 0, 0.0, policy.actor.network.memory
    for kind, drawn in observations(policy, np.random.default_rng(seed), count):
        rng = np.random.default_rng(seed)
        obs = possible(policy.parts, drawn, np.random.default_rng(seed + 1))
        if narrow:  # what the file is given, it must act upon
            obs = obs.astype(np.float32).astype(np.float64)
        noise = policy.actor.draw(rng, (1, len(obs)))[0]
        memory = rng.uniform(-1, 1, (len(obs), remembers)).astype(np.float32) if remembers else None
        action, sampled, *kept = heads(obs, seed, *([] if memory is None else [memory]))
        for got, given, head in ((action, None, "action"), (sampled, noise, "sampled action")):
            if got is None:
                continue
            seen = Seen(obs, given, memory, f"{head} of {kind}")
            own = policy.space.dtype
            got = got.astype(own) if narrow and got.dtype == np.float32 else got
            largest = max(largest, _compare(policy, seen, got))
        if memory is not None:
            _compare_memory(policy, Seen(obs, None, memory, f"memory of {kind}"), kept[0])
        asked += len(obs)
    return Agreement(asked, largest)


def observations(
    policy: Portable, rng: np.random.Generator, count: int
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Test observations: near those of training, far from them, and beyond any sensor's range."""
    size, normaliser = policy.obs_size, policy.actor.normaliser
    count = max(2, min(count, LARGEST // size))
    mean = np.zeros(size) if normaliser is None else normaliser.mean
    scale = np.ones(size) if normaliser is None else normaliser.scale
    for width in (1.0, 10.0):
        yield "random observations", mean + width * scale * rng.standard_normal((count // 2, size))
    still = np.stack([mean, np.zeros(size), np.full(size, 1e-30)])
    yield "observations at rest", still
    for far in (1e3, 1e6, 1e12):
        one = np.eye(size) if size <= ALONE else np.eye(ALONE, size, (size - ALONE) // 2)
        alone = np.concatenate([one, -one]) * far
        signs = rng.choice([-far, far], (100, size))
        yield f"observations {far:g} deviations away", mean + scale * np.vstack([alone, signs])


@dataclass(frozen=True)
class Seen:
    """The inputs of an action."""

    obs: NDArray[np.float64]
    noise: Float32 | None
    memory: Float32 | None
    what: str
    """Its name in a sentence."""

    @property
    def all(self) -> tuple[Any, ...]:
        return self.obs, self.noise, self.memory


def _compare(policy: Portable, seen: Seen, got: NDArray[Any]) -> float:
    """The largest difference, in units of the tolerance; raises `Disagreement` if it is too
    large.
    """
    ours, what = policy.act(*seen.all), seen.what
    if got.shape != ours.shape or got.dtype != ours.dtype:
        raise Disagreement(
            f"the exported {what} is {got.dtype}{list(got.shape)} where ours is "
            f"{ours.dtype}{list(ours.shape)}; please report this, no file was written."
        )
    if not isinstance(policy.space, gym.spaces.Box):
        wrong, apart = _worse_choices(policy, seen, got), 0.0
    else:
        bound = (policy.space.high - policy.space.low) / 2
        unit = np.where(np.isfinite(bound), bound, np.maximum(1.0, np.abs(ours)))
        difference = np.abs(got - ours) / unit
        difference = np.where(np.isnan(difference), np.inf, difference)
        # Far away float32 itself leaves more open than the tolerance.
        exact = _in_double(policy).act(*seen.all)
        doubt = np.abs(exact - ours) / unit
        if (difference > TOLERANCE + 2 * doubt.max()).any():
            doubt = np.maximum(doubt, _nudged(policy, seen, exact) / unit)
        wrong = (difference > TOLERANCE + 2 * doubt.max()).reshape(len(ours), -1).any(1)
        apart = float(difference.max())
    if wrong.any():
        i = int(wrong.argmax())
        raise Disagreement(
            f"the exported {what} is {got[i]} where ours is {ours[i]} for the observation "
            f"{seen.obs[i].tolist()}; please report this, no file was written."
        )
    return apart


def _nudged(policy: Portable, seen: Seen, exact: NDArray[Any]) -> NDArray[Any]:
    """The largest effect on each exact action of a change of the observations in their last bit.

    A runtime with another order of summation may have errors of this size.
    """
    double, rng, most = _in_double(policy), np.random.default_rng(0), np.zeros_like(exact)
    for _ in range(NUDGES):
        last_bit = rng.choice([-1, 1], seen.obs.shape) * np.finfo(np.float32).eps
        moved = double.act(seen.obs * (1 + last_bit), seen.noise, seen.memory)
        most = np.maximum(most, np.abs(moved - exact))
    return most


def _compare_memory(policy: Portable, seen: Seen, got: NDArray[Any]) -> None:
    ours = policy.remembered(seen.obs, seen.memory)
    doubt = np.abs(_in_double(policy).remembered(seen.obs, seen.memory) - ours).max()
    if got.shape != ours.shape or not (np.abs(got - ours) <= TOLERANCE + 2 * doubt).all():
        raise Disagreement(
            f"the exported {seen.what} is not ours; please report this, no file was written."
        )


def _worse_choices(policy: Portable, seen: Seen, got: NDArray[Any]) -> NDArray[np.bool_]:
    """[n] whether some choice's score is clearly below the best."""
    scores = policy.scores(*seen.all)
    picked = got.reshape(len(scores), -1) - policy.starts
    doubt = np.abs(_in_double(policy).scores(*seen.all) - scores).max()
    wrong, first = np.zeros(len(scores), np.bool_), 0
    for d, choices in enumerate(policy.actor.sizes):
        block = scores[:, first : first + choices]
        inside = (picked[:, d] >= 0) & (picked[:, d] < choices)
        taken = np.take_along_axis(block, np.clip(picked[:, d, None], 0, choices - 1), 1)[:, 0]
        wrong |= ~inside | (block.max(1) - taken > CLOSE + 2 * doubt)
        first += choices
    return wrong


def _in_double(policy: Portable) -> Portable:
    """The same policy in float64 after normalisation, as a reference for rounding errors."""
    wide = tuple((w.astype(np.float64), b.astype(np.float64)) for w, b in policy.actor.layers)
    return replace(policy, actor=replace(policy.actor, layers=wide))  # pyright: ignore[reportArgumentType]
