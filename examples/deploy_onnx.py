# SPDX-License-Identifier: Apache-2.0
"""Deploy: the policy as an ONNX file, in a control loop that needs neither Holdfast nor JAX.

pip install 'holdfast-rl[onnx]'
python examples/deploy_onnx.py
"""

import argparse

import numpy as np
import onnxruntime

from holdfast import Agent

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--steps", type=int, default=40_000, help="steps of training")
parser.add_argument("--out", default="policy.onnx", help="file for the policy")
args = parser.parse_args()

# On the machine that trains: the file is compared with the agent before it is written.
agent = Agent("c-trpo").learn("probe/Speed-v0", args.steps, epoch_steps=4_000, cost_limit=6.0)
print(agent.export(args.out))

# On the machine that acts: only onnxruntime and NumPy.
session = onnxruntime.InferenceSession(args.out)
sensor = session.get_inputs()[0]
kind = np.float64 if "double" in sensor.type else np.float32
speed = 0.0
for _ in range(20):
    observation = np.array([[speed]], kind)
    (action,) = session.run(["action"], {sensor.name: observation})
    if not np.isfinite(action).all():
        raise SystemExit("a sensor failed: stop the plant")  # your safe state
    speed += 0.2 * float(action[0, 0])  # your plant
print(f"speed after 20 steps: {speed:.2f}")
