# SPDX-License-Identifier: Apache-2.0
"""Products of a policy: `export` (ONNX, NumPy), `film` (videos, plots), `certify` (model cards)."""
