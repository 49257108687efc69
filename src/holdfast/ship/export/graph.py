# SPDX-License-Identifier: Apache-2.0
"""A policy as an ONNX graph of basic operators that every runtime supports.

    observation  float [n, ...] as the environment gives it; of a Dict or Tuple one for each part:
                 observation/level, observation/gear/0
    action       [n, ...]       the most likely action, as the environment takes it

A graph with noise has two more:

    noise        float [m, k]   standard normal, or Gumbel for choices
    sampled      an action drawn with `noise` (m = n, or 1 for all)

A policy with a limit beyond the mean has one more input:

    budget       double [n, k]   of each such limit the share that is left, (b − cost so far) / b

A policy with a memory has two more:

    memory       float [m, H]   what it remembers; 0 where an episode begins
    next_memory  float [n, H]   to pass on with the next observation

Numbers are float, or double on request; choices are integers. An ONNX graph cannot raise. If an
observation is not finite, or not a valid choice, the output is outside the action space: NaN, or
one less than the first choice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from holdfast.core.networks import GATES, KERNEL, STRIDE, Network
from holdfast.process import optional
from holdfast.ship.export.parts import Part
from holdfast.ship.export.portable import Portable

OPSET, IR = 17, 8
"""Version of 2022, for compatibility with older runtimes."""
OPERATORS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}
"""Operators of activations; silu is a product."""


@dataclass
class Sheet:
    """Nodes and constants of the graph under construction."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list[Any])
    constants: list[Any] = field(default_factory=list[Any])

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(np.array(value), name))
        return name

    def __call__(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        node = self.onnx.helper.make_node(operator, inputs, [output], name=output, **attributes)
        self.nodes.append(node)
        return output


def onnx_model(policy: Portable, double: bool = False, noise: bool = False) -> bytes:
    """The ONNX file of a policy."""
    onnx = optional("onnx", "onnx", "an ONNX export")
    optional("onnx.numpy_helper", "onnx", "an ONNX export")
    sheet, helper = Sheet(onnx), onnx.helper
    number = lambda dtype: helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    seen = write_view(sheet, policy)
    out = write_network(sheet, policy, seen)
    size, scaled = policy.actor.noise_size, policy.actor.std is not None
    dtype = action_dtype(policy, double)
    write_action(sheet, policy, seen, out, "action", dtype)
    if noise:
        if scaled:
            sheet.constant("std", policy.actor.std)
        spread = sheet("Mul", ["noise", "std"], "spread") if scaled else "noise"
        drawn = sheet("Add", [out, spread], "drawn")
        write_action(sheet, policy, seen, drawn, "sampled", dtype)
    value, remembers = helper.make_tensor_value_info, policy.actor.network.memory
    kept = [("memory", "m"), ("next_memory", "n")] if remembers else []
    kept = [value(name, number(np.float32), [rows, remembers]) for name, rows in kept]
    shape = ["n", *(policy.space.shape or ())]
    wide = number(np.float64 if double else np.float32)
    heads = ("action", "sampled") if noise else ("action",)
    graph = helper.make_graph(
        sheet.nodes,
        "policy",
        [
            *(value(part.name, wide, ["n", *part.shape]) for part in policy.parts),
            *([value("noise", number(np.float32), ["m", size])] if noise else []),
            *kept[:1],
        ],
        [*(value(head, number(dtype), shape) for head in heads), *kept[1:]],
        sheet.constants,
        doc_string=__doc__,
    )
    model = helper.make_model(
        graph,
        producer_name="holdfast",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR,
    )
    about = {key: v if isinstance(v, str) else json.dumps(v) for key, v in policy.about.items()}
    helper.set_model_props(model, about)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def write_view(sheet: Sheet, policy: Portable) -> str:
    """The policy's input: the parts in order, normalised in double, then converted to float."""
    flat = [write_part(sheet, part) for part in policy.parts]
    seen = flat[0] if len(flat) == 1 else sheet("Concat", flat, "flat", axis=1)
    normaliser = policy.actor.normaliser
    if normaliser is not None:
        mean = sheet.constant("mean", normaliser.mean)
        scale = sheet.constant("scale", normaliser.scale)
        seen = sheet("Div", [sheet("Sub", [seen, mean], "centred"), scale], "normalised")
    return sheet("Cast", [seen], "seen", to=sheet.onnx.TensorProto.FLOAT)


def write_part(sheet: Sheet, part: Part) -> str:
    """[n, width] the numbers of a part, or its choices one-hot; NaN for an invalid choice."""
    name, count = part.name, len(part.sizes) or part.width
    x = sheet("Cast", [name], f"{name}_wide", to=sheet.onnx.TensorProto.DOUBLE)
    if len(part.shape) != 1:
        x = sheet("Reshape", [x, sheet.constant(f"{name}_rows", np.array([-1, count]))], f"{x}_row")
    if not part.sizes:
        return x
    owner = np.repeat(np.arange(count), part.sizes)
    called = np.concatenate(
        [np.arange(n) + s for n, s in zip(part.sizes, part.starts, strict=True)]
    )
    each = sheet("Gather", [x, sheet.constant(f"{name}_owner", owner)], f"{name}_each", axis=1)
    called = sheet.constant(f"{name}_called", called.astype(np.float64))
    same = sheet("Equal", [each, called], f"{name}_same")
    hot = sheet("Cast", [same], f"{name}_hot", to=sheet.onnx.TensorProto.DOUBLE)
    owned = sheet.constant(f"{name}_owned", (owner[:, None] == np.arange(count)).astype(np.float64))
    hits = sheet("MatMul", [hot, owned], f"{name}_hits")
    fewest = sheet("ReduceMin", [hits], f"{name}_fewest", axes=[1], keepdims=1)
    known = sheet("Cast", [fewest], f"{name}_known", to=sheet.onnx.TensorProto.BOOL)
    return sheet("Where", [known, hot, sheet.constant(f"{name}_none", np.nan)], f"{name}_chosen")


def write_network(sheet: Sheet, policy: Portable, x: str) -> str:
    """The encoder, then the layers with the activation between them; linear output."""
    network, layers = policy.actor.network, policy.actor.layers
    if network.images:
        x = write_joined(sheet, network, layers, x)
    elif network.channels:
        x = write_convolutions(sheet, network, layers, x, network.seen[0])
    elif network.memory:
        x = write_memory(sheet, network.memory, layers, x)
    for i in range(network.readers, len(layers)):
        x = write_product(sheet, "Gemm", x, *layers[i], f"layer{i}")
        if i < len(layers) - 1:
            x = write_activation(sheet, network.activation, x, f"hidden{i}")
    return x


def write_product(
    sheet: Sheet, operator: str, x: str, weight: Any, bias: Any, name: str, **attributes: Any
) -> str:
    """x · weight + bias, as a Gemm or a Conv."""
    names = [sheet.constant(f"{name}_weight", weight), sheet.constant(f"{name}_bias", bias)]
    return sheet(operator, [x, *names], name, **attributes)


def write_activation(sheet: Sheet, kind: str, x: str, name: str) -> str:
    if kind == "silu":
        return sheet("Mul", [x, sheet("Sigmoid", [x], f"{name}_gate")], name)
    return sheet(OPERATORS[kind], [x], name)


def write_joined(sheet: Sheet, network: Network, layers: Any, seen: str) -> str:
    """The features of each image, followed by the other numbers."""
    each, parts, axis = len(network.channels), list[str](), sheet.constant("columns", np.array([1]))
    for i, image in enumerate(network.images):
        begin, height, width, colours, _ = image
        ends = begin, begin + height * width * colours
        cut = [sheet.constant(f"cut{i}_{e}", np.array([end])) for e, end in enumerate(ends)]
        pixels = sheet("Slice", [seen, *cut, axis], f"pixels{i}_seen")
        parts.append(write_convolutions(sheet, network, layers, pixels, image, i * each))
    if network.others:
        others = sheet.constant("others", np.array(network.others))
        parts.append(sheet("Gather", [seen, others], "numbers", axis=1))
    return sheet("Concat", parts, "joined", axis=1)


def write_convolutions(
    sheet: Sheet,
    network: Network,
    layers: Any,
    x: str,
    image: tuple[int, int, int, int, bool],
    begin: int = 0,
) -> str:
    """An image's features, pixel by pixel; its convolutions begin at layer `begin`."""
    _, height, width, colours, first = image
    end = f"{begin}" if begin else ""
    shape = (-1, colours, height, width) if first else (-1, height, width, colours)
    x = sheet("Reshape", [x, sheet.constant(f"shape{end}", np.array(shape))], f"image{end}")
    if not first:
        x = sheet("Transpose", [x], f"planes{end}", perm=[0, 3, 1, 2])
    for i in range(begin, begin + len(network.channels)):
        weight, bias = layers[i]
        kernel = weight.reshape(KERNEL, KERNEL, -1, len(bias)).transpose(3, 2, 0, 1)
        border = {"pads": [1, 1, 1, 1], "strides": [STRIDE, STRIDE]}
        x = write_product(sheet, "Conv", x, kernel, bias, f"layer{i}", **border)
        x = write_activation(sheet, network.activation, x, f"hidden{i}")
    pixels = sheet("Transpose", [x], f"pixels{end}", perm=[0, 2, 3, 1])
    return sheet("Flatten", [pixels], f"features{end}")


def write_memory(sheet: Sheet, size: int, layers: Any, seen: str) -> str:
    """`next_memory`, and the observation followed by it."""
    memory = "memory"
    terms: list[list[str]] = []
    for x, (weight, bias), name in zip((seen, memory), layers, ("given", "kept"), strict=False):
        parts = zip(np.split(weight, GATES, 1), np.split(bias, GATES), strict=True)
        terms.append(
            [write_product(sheet, "Gemm", x, *p, f"{name}{i}") for i, p in enumerate(parts)]
        )
    given, kept = terms
    read, keep = (
        sheet("Sigmoid", [sheet("Add", [given[i], kept[i]], f"sum{i}")], f"gate{i}") for i in (0, 1)
    )
    part = sheet("Add", [given[2], sheet("Mul", [read, kept[2]], "recalled")], "sum2")
    fresh = sheet("Tanh", [part], "fresh")
    drop = sheet("Sub", [sheet.constant("one", np.float32(1)), keep], "drop")
    parts = [sheet("Mul", [keep, memory], "old"), sheet("Mul", [drop, fresh], "new")]
    return sheet("Concat", [seen, sheet("Add", parts, "next_memory")], "both", axis=1)


def action_dtype(policy: Portable, double: bool) -> np.dtype[Any]:
    """The dtype of actions: the environment's, but float for double unless double is requested."""
    own = policy.act(np.zeros((1, policy.obs_size))).dtype
    return np.dtype(np.float32) if own == np.float64 and not double else own


def write_action(
    sheet: Sheet, policy: Portable, seen: str, out: str, name: str, dtype: np.dtype[Any]
) -> None:
    """From the policy's outputs to an action inside the space, or outside it for invalid inputs."""
    whole = sheet("Concat", [seen, out], f"{name}_whole", axis=1)
    odd = sheet(
        "Or",
        [sheet("IsNaN", [whole], f"{name}_nan"), sheet("IsInf", [whole], f"{name}_inf")],
        f"{name}_odd",
    )
    count = sheet("Cast", [odd], f"{name}_count", to=sheet.onnx.TensorProto.FLOAT)
    worst = sheet("ReduceMax", [count], f"{name}_worst", axes=[1], keepdims=1)
    broken = sheet("Cast", [worst], f"{name}_broken", to=sheet.onnx.TensorProto.BOOL)
    shape = policy.space.shape or ()
    if isinstance(policy.plain, gym.spaces.Box):
        chosen = write_box(sheet, policy.arrays(), out, name, dtype)
        outside = np.array(np.nan, dtype)
    else:
        chosen = write_choice(sheet, policy, out, name)
        outside = policy.starts - 1
    none = sheet.constant(f"{name}_none", outside)
    answer = sheet("Where", [broken, none, chosen], f"{name}_answer")
    kind = sheet.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    typed = sheet("Cast", [answer], f"{name}_typed", to=kind)
    sheet("Reshape", [typed, sheet.constant(f"{name}_shape", np.array([-1, *shape]))], name)


def write_box(
    sheet: Sheet, arrays: dict[str, NDArray[Any]], out: str, name: str, dtype: np.dtype[Any]
) -> str:
    """clip(middle + half · a, low, high), by bounds that are inside the space also as `dtype`."""
    part = lambda key: sheet.constant(f"{name}_{key}", arrays[key])
    kind = sheet.onnx.helper.np_dtype_to_tensor_dtype(arrays["half"].dtype)
    a = sheet("Cast", [out], f"{name}_unit", to=kind)
    a = sheet("Mul", [part("half"), a], f"{name}_wide")
    a = sheet("Add", [part("middle"), a], f"{name}_free")
    if dtype != arrays["half"].dtype and dtype.kind == "f":
        arrays = arrays | {
            "low": inside(arrays["low"], dtype, np.inf),
            "high": inside(arrays["high"], dtype, -np.inf),
        }
        to = sheet.onnx.helper.np_dtype_to_tensor_dtype(dtype)
        a = sheet("Cast", [a], f"{name}_narrow", to=to)
    return sheet("Max", [sheet("Min", [a, part("high")], f"{name}_top"), part("low")], f"{name}_in")


def inside(bound: NDArray[Any], dtype: np.dtype[Any], way: float) -> NDArray[Any]:
    """A bound in lower precision, rounded towards `way`."""
    near = bound.astype(dtype)
    outside = near < bound if way > 0 else near > bound
    return np.where(outside, np.nextafter(near, np.array(way, dtype)), near)


def write_choice(sheet: Sheet, policy: Portable, out: str, name: str) -> str:
    """[n, D] the first of the largest scores in each block, counted as the environment does."""
    ends = np.cumsum((0, *policy.actor.sizes))
    axis = sheet.constant(f"{name}_along", np.array([1]))
    picked: list[str] = []
    for d in range(len(ends) - 1):
        cut = [sheet.constant(f"{name}_cut{d + e}_{e}", ends[d + e : d + e + 1]) for e in (0, 1)]
        block = sheet("Slice", [out, *cut, axis], f"{name}_block{d}")
        picked.append(sheet("ArgMax", [block], f"{name}_pick{d}", axis=1, keepdims=1))
    joined = sheet("Concat", picked, f"{name}_picks", axis=1)
    return sheet("Add", [joined, sheet.constant(f"{name}_first", policy.starts)], f"{name}_from")
