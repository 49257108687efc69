# SPDX-License-Identifier: Apache-2.0
"""Export of policies: an ONNX file, or NumPy arrays with a small module that reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.files import write_atomic
from holdfast.ship.export import numpy_policy
from holdfast.ship.export.agreement import Agreement, check, numpy_heads, onnx_heads
from holdfast.ship.export.graph import onnx_model
from holdfast.ship.export.portable import Portable

__all__ = ["Agreement", "Portable", "export"]

READER = "policy.py"
"""Name of the module beside the arrays that reads them."""


def export(policy: Portable, target: Path, double: bool = False, noise: bool = False) -> Agreement:
    """Write `policy`, checked against its actions in Holdfast; the suffix chooses ONNX or NumPy.

    NumPy means two files: the arrays, and policy.py beside them, which reads them. `double` and
    `noise` are for ONNX: float64 instead of float32, and a second output that samples.
    """
    narrow = target.suffix == ".onnx" and not double
    if target.suffix == ".onnx":
        content = onnx_model(policy, double, noise)
        files, heads = {target: content}, onnx_heads(policy, content, double, noise)
    elif target.suffix == ".npz":
        content, reader = policy.npz(), Path(numpy_policy.__file__).read_bytes()
        beside = target.with_name(READER)
        refuse_other(beside, reader)
        files, heads = {target: content, beside: reader}, numpy_heads(policy, content)
    else:
        raise ValueError(
            f"'{target}' must end in .onnx (for onnxruntime and others) or .npz (NumPy alone)."
        )
    agreement = check(policy, heads, narrow=narrow)
    target.parent.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_atomic(file, content)
    return replace(agreement, files=tuple(files))


def refuse_other(file: Path, reader: bytes) -> None:
    """Refuse to replace a file of that name that is not an earlier reader."""
    if file.exists() and file.read_bytes().splitlines()[:2] != reader.splitlines()[:2]:
        raise ValueError(
            f"'{file}' is not the reader of exported arrays, which has the same name and would "
            "replace it: export to another folder, or rename yours."
        )
