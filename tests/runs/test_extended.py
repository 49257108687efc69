# SPDX-License-Identifier: Apache-2.0
"""A run that was extended: run.json keeps the earlier totals, `--config` says what they mean."""

import pytest

from holdfast.cli import main
from holdfast.files import CheckpointError, read_json, write_json
from holdfast.runs.folder import create, open_folder, write_config
from holdfast.runs.training import extended
from holdfast.train.environment import open_env
from small_runs import small


def test_the_earlier_totals_are_kept_and_told(tmp_path, capsys):
    run = small(epochs=1)
    folder = create(tmp_path / "run", run, open_env(run))
    write_config(folder)
    assert "extended_from" not in read_json(folder.path / "run.json"), "the control: written again"
    for total in (400, 800):
        write_config(extended(open_folder(folder.path), None, total))
    kept = read_json(folder.path / "run.json")
    assert kept["extended_from"] == [200, 400] and open_folder(folder.path).run.steps == 800
    again = ["train", "--config", str(folder.path), "--quiet", "--out", str(tmp_path / "again")]
    main([*again, "--steps", "200"])
    said = " ".join(capsys.readouterr().err.split())
    assert "was extended from 200, 400 steps" in said and "other numbers" in said
    assert "extended_from" not in read_json(tmp_path / "again" / "run.json")


@pytest.mark.parametrize(
    "damage",
    [
        {"run": 3},
        {"run": {}},
        {"run": {"steps": "many"}},
        {"extended_from": 7},
        {"extended_from": [""]},
    ],
)
def test_totals_that_are_no_numbers_are_named(tmp_path, damage):
    run = small(epochs=1)
    folder = create(tmp_path / "run", run, open_env(run))
    file = folder.path / "run.json"
    write_json(file, read_json(file) | damage)
    with pytest.raises(CheckpointError, match="extended_from must be whole numbers"):
        write_config(folder)
