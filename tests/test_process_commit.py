# SPDX-License-Identifier: Apache-2.0
"""The commit of the code in run.json: with a repository, without one, and with a broken one."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import process
from holdfast.process import commit, versions

FIRST, SECOND = "1" * 40, "2" * 40


def repository(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


READABLE = {
    "detached": {".git/HEAD": f"{FIRST}\n"},
    "a branch": {".git/HEAD": "ref: refs/heads/a/b\n", ".git/refs/heads/a/b": f"{FIRST}\n"},
    "a packed branch": {
        ".git/HEAD": "ref: refs/heads/a\n",
        ".git/packed-refs": f"# pack-refs\n{SECOND} refs/heads/b/a\n{FIRST} refs/heads/a\n",
    },
    "a worktree": {
        ".git": "gitdir: main/worktrees/w\n",
        "main/worktrees/w/HEAD": "ref: refs/heads/a\n",
        "main/worktrees/w/commondir": "../..\n",
        "main/refs/heads/a": f"{FIRST}\n",
    },
}
UNREADABLE = {
    "nothing": {},
    "an empty folder": {".git/keep": ""},
    "no commit yet": {".git/HEAD": "ref: refs/heads/a\n"},
    "another branch": {".git/HEAD": "ref: refs/heads/a", ".git/packed-refs": f"{FIRST} refs/b\n"},
    "no number": {".git/HEAD": "main\n"},
    "a lost folder": {".git": "gitdir: elsewhere\n"},
}


@pytest.mark.parametrize("files", READABLE.values(), ids=READABLE)
def test_the_commit_is_read(files, tmp_path):
    assert commit(repository(tmp_path, files)) == FIRST


@pytest.mark.parametrize("files", UNREADABLE.values(), ids=UNREADABLE)
def test_nothing_fails_where_there_is_none(files, tmp_path):
    assert commit(repository(tmp_path, files)) is None
    (tmp_path / "HEAD").write_bytes(b"\xff\xfe")
    assert commit(tmp_path / "HEAD") is None  # not even a folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_says_the_same(tmp_path):
    def git(*words):
        who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    assert commit(tmp_path) is None
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert commit(tmp_path) == git("rev-parse", "HEAD") is not None
    git("pack-refs", "--all")
    assert commit(tmp_path) == git("rev-parse", "HEAD")


@pytest.mark.parametrize("head", [FIRST, None])
def test_run_json_holds_it_if_there_is_one(head, tmp_path, monkeypatch):
    from holdfast.envs.make import make_env
    from holdfast.run import make_run
    from holdfast.runs.folder import create, open_folder

    repository(tmp_path / "code", {".git/HEAD": head} if head else {"readme": ""})
    monkeypatch.setattr(process, "CHECKOUT", tmp_path / "code")
    assert versions().get("commit") == head
    run = make_run("c-trpo", env="probe/Bandit-v0")
    env = make_env("probe/Bandit-v0", run.num_envs)
    folder = create(tmp_path / "run", run, env)
    env.close()
    saved = json.loads((folder.path / "run.json").read_text())
    assert saved["versions"].get("commit") == head
    assert ("commit" in saved["versions"]) == (head is not None)
    assert open_folder(folder.path).run == run
