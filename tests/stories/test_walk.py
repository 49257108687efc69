# SPDX-License-Identifier: Apache-2.0
"""The page on one's own environment, followed word for word on the command line.

Its Python half runs with all other code blocks (test_docs).
"""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from holdfast import Agent, cli
from holdfast.runs.folder import open_folder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your-own-environment.md").read_text()


def test_the_file_is_the_one_on_the_page():
    code = (ROOT / "docs" / "examples" / "tank.py").read_text()
    assert re.search(r"^```python\n(.*?)^```", PAGE, re.S | re.M)[1] in code


def test_from_check_to_a_policy_without_holdfast(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])  # where names were found is forgotten after
    (tmp_path / "tank.py").write_text((ROOT / "docs" / "examples" / "tank.py").read_text())
    commands = re.search(r"^```sh\n(.*?)^```", PAGE, re.S | re.M)[1].splitlines()
    said: dict[str, str] = {}
    for line in commands:
        command, _, otherwise = line.partition(" || ")
        words = shlex.split(command)
        assert words[0] == "holdfast"
        try:
            cli.main([*words[1:], *(["--quiet"] if words[1] in ("train", "resume") else [])])
        except SystemExit as stop:
            assert otherwise and stop.code in (1, 3), (line, capsys.readouterr())
        said[words[1]] = capsys.readouterr().out
    assert list(said) == ["check", "train", "resume", "evaluate", "export"]
    assert "nothing found" in said["check"] and "Random actions cost" in said["check"]
    assert "200 fresh episodes" in said["evaluate"] and "cost: spill" in said["evaluate"]
    folder = open_folder(Path("runs/tank"))
    assert folder.finished and folder.run.env == "tank.py:Tank" and folder.run.epochs == 12
    assert folder.spaces.limits == {"spill": 2.0, "dry": 1.0}
    agent = Agent.load("runs/tank")
    session = onnxruntime.InferenceSession("tank.onnx")
    rng, count = np.random.default_rng(0), 100_000
    level = rng.normal(0.5, 1.0, (count, 1)).astype(np.float32)
    valves = rng.integers(0, 3, count)
    given = {"observation/level": level, "observation/open": np.float32(valves)}
    (action,) = session.run(["action"], given)
    ours = agent.predict({"level": level, "open": valves})
    assert (action != ours).sum() <= 1, "but for scores that are as good as equal"
    assert set(ours) == {0, 1, 2} and session.run(["action"], given)[0].dtype == ours.dtype
    for i in range(3):
        assert agent.predict({"level": level[i], "open": int(valves[i])}) == ours[i]
