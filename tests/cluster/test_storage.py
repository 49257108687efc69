# SPDX-License-Identifier: Apache-2.0
"""Run folders elsewhere: nothing half-seen, nothing lost, the same bits after every journey."""

import errno
import importlib.util
import json
import tempfile
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from holdfast import Agent, cli, make_env, make_run
from holdfast.cluster import places as kept
from holdfast.cluster import storage
from holdfast.cluster.cells import work
from holdfast.cluster.places import Disk, Remote, StorageError, is_uri, place_of
from holdfast.cluster.storage import Outbox, contents, deliver, fetch, in_order, runs_under
from holdfast.files import CheckpointError, confined
from holdfast.records.rows import read_rows
from holdfast.report import report
from holdfast.run import to_json
from holdfast.runs.folder import create, load_state, open_folder, state_arrays
from holdfast.runs.training import train_in_folder

ENV = "probe/Speed-v0"


def small_run(epochs):
    return make_run(
        "trpo", env=ENV, steps=200 * epochs, epoch_steps=200, num_envs=2, hidden=(4,), keep=2
    )


def trained(path: Path, epochs: int, stop: int | None = None, after=lambda folder: None):
    """A run in a folder, from wherever it was left; `after` each epoch."""
    env = make_env(ENV, 2)
    if (path / "run.json").exists():
        folder = open_folder(path)
        state = load_state(folder)[0]
    else:
        folder, state = create(path, small_run(epochs), env), None
    for epoch in train_in_folder(folder, env, (), state):
        after(path)
        if epoch.index == stop:
            break
    return path


def learned(path: Path):
    arrays = state_arrays(load_state(open_folder(path))[0])
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setattr(kept, "PAUSE", 0.0)
    MemoryFileSystem.store.clear()
    yield "memory://bucket/runs/a"
    MemoryFileSystem.store.clear()


def places(tmp_path, bucket):
    return [Disk(tmp_path / "there"), Remote(bucket), Remote((tmp_path / "uri").as_uri())]


def test_a_run_that_moves_after_every_checkpoint_learns_the_same_bits(tmp_path, bucket):
    calm = learned(trained(tmp_path / "calm", 6))
    for number, place in enumerate(places(tmp_path, bucket)):
        for stop in range(1, 7):
            here = tmp_path / f"node{number}-{stop}"
            deliver(Disk(here), contents(place))
            box = Outbox.up_to_date(here)
            trained(here, 6, stop=stop)
            box.send(place)
        deliver(Disk(tmp_path / f"end{number}"), contents(place))
        assert learned(tmp_path / f"end{number}") == calm
        assert (tmp_path / f"end{number}" / "progress.csv").read_text().count("\n") == 7


def test_a_reader_never_sees_half_a_checkpoint(tmp_path, bucket):
    """After every single write what lies there is a whole run, and no older than before."""
    box, seen = None, []

    def spread(folder: Path):
        nonlocal box
        box = box or Outbox(folder)
        for name, content in box.take().items():
            deliver(Remote(bucket), {name: content})
            copy = fetch(bucket, tmp_path / f"copy{len(seen)}")
            state, complaints = load_state(open_folder(copy))
            assert not complaints
            seen.append(state.epoch if state else 0)

    trained(tmp_path / "run", 4, after=spread)
    assert seen == sorted(seen) and set(seen) == {0, 1, 2, 3, 4}


def test_the_order_is_what_makes_it_so(tmp_path, bucket):
    """The control: state.json before its arrays is a checkpoint that cannot be read."""
    path = trained(tmp_path / "run", 1)
    files = contents(Disk(path))
    names = list(files)
    assert names == in_order(reversed(names)) and names[-1] == "done.json"
    wrong = {name: files[name] for name in names if not name.endswith("state.safetensors")}
    deliver(Remote(bucket), wrong)
    with pytest.raises(ValueError, match="cannot be read"):
        load_state(open_folder(fetch(bucket, tmp_path / "copy")))


def test_only_what_is_new_travels(tmp_path):
    sizes, box = [], Outbox(tmp_path / "run")
    there = Disk(tmp_path / "there")

    def send(folder: Path):
        new = box.send(there)
        sizes.append({name for name, content in new.items() if content is not None})

    trained(tmp_path / "run", 4, after=send)
    assert "run.json" in sizes[0] and all("run.json" not in names for names in sizes[1:])
    assert all(sum(name.endswith("state.json") for name in names) == 1 for names in sizes)
    kept = {name.split("/")[1] for name in there.names() if name.startswith("checkpoint/")}
    assert kept == {"epoch-000003", "epoch-000004"}  # as many as at home
    assert box.take().keys() == {"done.json"} and box.take() == {}


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "", "a\\..\\x", "C:x"])
def test_names_stay_inside_their_folder(name, tmp_path):
    with pytest.raises(CheckpointError, match="not a path inside a run folder"):
        deliver(Disk(tmp_path / "run"), {name: b""})
    assert confined("checkpoint/epoch-000001/state.json")


class OddError(Exception):
    """As clients of storages raise: no OSError."""


def failing(monkeypatch, error, every):
    """A storage whose writes fail: every one, or each third."""
    count, write = [0], MemoryFileSystem.pipe_file

    def sometimes(self, path, value, **options):
        count[0] += 1
        if count[0] % every == 0:
            raise error
        return write(self, path, value, **options)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", sometimes)
    return count


def test_a_storage_that_fails_every_third_write_loses_nothing(tmp_path, bucket, monkeypatch):
    count = failing(monkeypatch, TimeoutError("slow"), 3)
    box = Outbox(tmp_path / "run")
    trained(tmp_path / "run", 4, after=lambda _: box.send(Remote(bucket)))
    assert count[0] > 12  # some were asked again
    box.send(Remote(bucket))
    assert learned(fetch(bucket, tmp_path / "copy")) == learned(tmp_path / "run")


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), kept.TRIES),
        (PermissionError("Access denied"), 1),  # asking again would not help
        (FileNotFoundError("no space in a bucket that is not there"), 1),
        (OddError("the token was denied"), kept.TRIES),
    ],
)
def test_a_storage_that_always_fails_is_told_of_in_a_sentence(
    error, asked, tmp_path, bucket, monkeypatch
):
    path = trained(tmp_path / "run", 1)
    count = failing(monkeypatch, error, 1)
    with pytest.raises(StorageError, match=r"cannot be written .*(space|denied).*files are kept"):
        deliver(Remote(bucket), contents(Disk(path)))
    assert count[0] == asked and learned(path)


def test_what_failed_to_arrive_goes_the_next_time(tmp_path, bucket, monkeypatch):
    path, box = trained(tmp_path / "run", 2), Outbox(tmp_path / "run")
    with monkeypatch.context() as broken:
        failing(broken, PermissionError("no"), 3)
        with pytest.raises(StorageError):
            box.send(Remote(bucket))
    assert 0 < len(Remote(bucket).names()) < len(Disk(path).names())
    box.send(Remote(bucket))
    assert {*Remote(bucket).names()} == {*Disk(path).names()} and box.send(Remote(bucket)) == {}


def test_a_reader_outlives_a_checkpoint_that_is_replaced_meanwhile(tmp_path, bucket, monkeypatch):
    """Between the list of names and the reading of one the writer drops it for a newer one."""
    path, box = tmp_path / "run", Outbox(tmp_path / "run")
    trained(path, 6, stop=2)
    box.send(Remote(bucket))
    read, moves = MemoryFileSystem.cat_file, [2, 1]

    def meanwhile(self, name, *given, **options):
        if name.endswith("state.safetensors") and moves and moves.pop():
            trained(path, 6, stop=4 if moves else 6)
            box.send(Remote(bucket))
        return read(self, name, *given, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", meanwhile)
    state, complaints = load_state(open_folder(fetch(bucket, tmp_path / "copy")))
    assert state is not None and state.epoch == 6 and not complaints and not moves
    assert learned(tmp_path / "copy") == learned(path)


def test_what_cannot_be_opened_is_told_of():
    with pytest.raises(StorageError, match="not a storage that fsspec supports"):
        Remote("nonsense://x").names()
    if importlib.util.find_spec("s3fs") is None:
        with pytest.raises(StorageError, match="s3fs"):
            Remote("s3://bucket/x").names()


def test_paths_and_uris_are_told_apart(tmp_path, bucket):
    assert is_uri("s3://b/x") and not is_uri(tmp_path) and not is_uri("C:\\runs")
    assert place_of(tmp_path) == Disk(tmp_path) and place_of(bucket) == Remote(bucket)
    deliver(Remote(bucket), {"run.json": b"{}"})
    assert list(runs_under("memory://bucket/runs")) == ["a"]


def test_commands_take_uris(tmp_path, bucket, capsys):
    """Resumed there, judged there, compared there; the control is the same run on a path."""
    calm = trained(tmp_path / "calm", 4)
    begun = trained(tmp_path / "run", 4, stop=2)
    deliver(Remote(bucket), contents(Disk(begun)))
    cli.main(["resume", bucket, "--quiet"])
    assert learned(fetch(bucket, tmp_path / "back")) == learned(calm)
    assert "done.json" in Remote(bucket).names()
    codes = []
    for where in (bucket, str(calm)):
        with pytest.raises(SystemExit) as stop:
            cli.main(["evaluate", where, "--episodes", "4", "--save", "--json"])
        codes.append((stop.value.code, json.loads(capsys.readouterr().out)))
    assert codes[0] == codes[1]
    saved = [name for name in Remote(bucket).names() if "evaluation" in name]
    assert saved and saved == [name for name in Disk(calm).names() if "evaluation" in name]
    agent = Agent.load(bucket)
    assert agent.state.epoch == 4 and agent.predict([0.5]) == Agent.load(calm).predict([0.5])
    cli.main(["report", bucket.rsplit("/", 1)[0], "-o", str(tmp_path / "report"), "--no-figures"])
    assert "trpo" in (tmp_path / "report" / "report.html").read_text()
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "memory://nowhere/x"])
    assert "has no files" in capsys.readouterr().err


def test_what_a_storage_does_not_take_back_is_kept(tmp_path, bucket, monkeypatch, capsys):
    """Resumed from a URI while it fills up: the copy stays, is named, and goes on by itself."""
    calm = trained(tmp_path / "calm", 4)
    deliver(Remote(bucket), contents(Disk(trained(tmp_path / "run", 4, stop=2))))
    before = {name: Remote(bucket).read(name) for name in Remote(bucket).names()}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device"), 1)
    with pytest.raises(SystemExit):
        cli.main(["resume", bucket, "--quiet"])
    said = capsys.readouterr().err
    (copy,) = tmp_path.glob("holdfast-*/a")
    assert "No space left" in said and f"what it lacks is kept in '{copy}'" in said
    assert {name: Remote(bucket).read(name) for name in Remote(bucket).names()} == before
    assert not storage.COPIES.keys() & {copy}  # and so nothing removes it when we end
    cli.main(["resume", str(copy), "--quiet"])
    assert learned(copy) == learned(calm)


def test_a_run_is_resumed_through_a_storage_that_fails_every_third_write(
    tmp_path, bucket, monkeypatch
):
    calm = trained(tmp_path / "calm", 6)
    deliver(Remote(bucket), contents(Disk(trained(tmp_path / "run", 6, stop=1))))
    count = failing(monkeypatch, TimeoutError("slow"), 3)
    cli.main(["resume", bucket, "--quiet"])
    assert count[0] > 15 and learned(fetch(bucket, tmp_path / "back")) == learned(calm)


def test_a_report_that_watches_sees_what_comes(tmp_path, bucket, monkeypatch):
    deliver(Remote(bucket), contents(Disk(trained(tmp_path / "run", 2, stop=1))))
    slept: list[float] = []

    def meanwhile(seconds: float) -> None:
        slept.append(seconds)
        deliver(Remote(bucket), contents(Disk(trained(tmp_path / "run", 2))))

    monkeypatch.setattr("holdfast.report.time.sleep", meanwhile)
    out = tmp_path / "report"
    report([bucket], out, watch=True, figures=False)
    assert len(slept) == 1 and (out / "report.html").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "trpo", ENV, "--steps", "400", "--epoch-steps", "200", "--num-envs", "2"],
        ["bench", "quick"],
        ["report", "."],
    ],
)
def test_folders_to_write_into_are_of_this_machine(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        cli.main([*words, "--out", "memory://bucket/x"])
    assert "is a URI" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_task_whose_storage_fails_hands_all_to_the_driver(tmp_path, bucket, monkeypatch):
    """And the next attempt goes on from there, to the bits of a calm one."""
    calm, config = trained(tmp_path / "calm", 6), to_json(small_run(6))
    attempt = lambda: work(config, contents(Disk(out)), bucket)
    out = tmp_path / "out"
    with monkeypatch.context() as broken:
        failing(broken, TimeoutError("partition"), 1)
        for most in (1, 2):  # each attempt trains one epoch more before it notices
            with pytest.raises(StorageError, match="partition"):
                for files in attempt():
                    deliver(Disk(out), files)
            assert load_state(open_folder(out))[0].epoch == most
    assert not Remote(bucket).names()
    for files in attempt():
        deliver(Disk(out), files)
    assert learned(fetch(bucket, tmp_path / "stored")) == learned(calm)
    assert (out / "done.json").exists() and not (out / "checkpoint").exists()
    assert len(read_rows(out / "progress.csv")) == 6


def test_an_older_epoch_of_a_run_under_a_uri(tmp_path, bucket, capsys):
    """Each kept epoch can be asked for; others get a sentence with the address and the epochs."""
    box = Outbox(trained(tmp_path / "here", 4))
    box.send(Remote(bucket))
    states = {epoch: Agent.load(bucket, which=epoch).state for epoch in (3, 4)}
    assert {epoch: state.epoch for epoch, state in states.items()} == {3: 3, 4: 4}
    assert Agent.load(bucket).state.epoch == 4
    words = f"'{bucket}' has no checkpoint of epoch 1, only of 3, 4: choose one of these"
    with pytest.raises(CheckpointError, match=words):
        Agent.load(bucket, which=1)
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", bucket, "--which", "1"])
    told = capsys.readouterr().err
    assert stop.value.code == 2 and words in told and told.count("\n") == 1


@pytest.mark.parametrize("stored", [False, True])
def test_evaluations_while_training_come_back_from_another_machine(stored, tmp_path, bucket):
    """`evaluate_every` in a task of a cluster: its rows and best/ reach the driver."""
    settings = {"evaluate_every": 2, "evaluate_episodes": 10, "cost_limit": 30.0}
    run = make_run("trpo", env=ENV, steps=800, epoch_steps=200, num_envs=2, hidden=(4,), **settings)
    for files in work(to_json(run), {}, bucket if stored else None):
        deliver(Disk(tmp_path / "out"), files)
    assert [row["epoch"] for row in read_rows(tmp_path / "out" / "evaluations.csv")] == [2, 4]
    where = bucket if stored else tmp_path / "out"
    best = Agent.load(where, which="best")
    assert best.state.epoch in (2, 4) and len(best.evaluations) >= 1
