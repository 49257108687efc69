# SPDX-License-Identifier: Apache-2.0
"""The Dockerfile is what .ci/container.py can run, and has all that the package is built from."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def container():
    spec = importlib.util.spec_from_file_location("container", ROOT / ".ci" / "container.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_every_instruction_is_known(container):
    names = {
        name for name, _ in container.instructions((ROOT / "Dockerfile").read_text())
    }  # an unknown one would end the script
    assert names == {
        "ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "ENTRYPOINT", "CMD"
    }  # fmt: skip


def test_what_is_copied_exists_and_is_not_ignored(container):
    copied = {
        word.removesuffix("/")
        for name, rest in container.instructions((ROOT / "Dockerfile").read_text())
        if name == "COPY" and "--from" not in rest
        for word in rest.split()[:-1]
    }
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert copied == allowed and all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"README.md", ".ci/build_hook.py", ".ci/links.py"} <= copied
    assert {*project["license-files"]} <= copied


def test_its_extras_are_extras_of_the_package(container):
    given = dict(
        rest.split("=", 1)
        for name, rest in container.instructions((ROOT / "Dockerfile").read_text())
        if name == "ARG"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(given["EXTRAS"].split(",")) <= set(project["optional-dependencies"])


def test_steps_that_need_root_are_left_out_and_named(container, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(container.subprocess, "run", lambda *_, **__: None)
    stage = container.Stage(tmp_path)
    stage.run("apt-get update")
    assert "not run here: apt-get update" in capsys.readouterr().out
    stage.run("pip list")
    assert "run: pip list" in capsys.readouterr().out


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'__version__ = "{version}"' in (ROOT / "src/holdfast/__init__.py").read_text()
