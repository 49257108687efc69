# SPDX-License-Identifier: Apache-2.0
"""Damaged files through every reader: its own sentence, or the data, and nothing else."""

import pytest
import targets
from hypothesis import given, settings
from hypothesis import strategies as st
from targets import TARGETS, Defect, judged, picture, run


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_one_sentence(name):
    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(st.binary(min_size=40, max_size=80))
    def through(data: bytes) -> None:
        run(name, data)

    through()


def test_an_undamaged_export_is_read(monkeypatch):
    """The control: what is fuzzed is a policy that acts before it is damaged."""
    acted = []
    monkeypatch.setattr(targets, "judged", lambda read: acted.append(read()))
    monkeypatch.setattr(targets, "damaged", lambda document, choose: document)
    targets.exported(b"", lambda n: {2: 1, 4: 3}.get(n, 0))
    assert [action.shape for action in acted] == [(2,)]


def test_a_record_without_its_columns_is_no_picture():
    with_header = lambda n: 0 if n == 8 else n // 2
    picture(b"epoch,env_steps\n1,20\n", with_header)


@pytest.mark.parametrize(
    "read", [lambda: {}["x"], lambda: [][1], lambda: int("x" * 3000), lambda: bytearray(-1)]
)
def test_the_judge_knows_a_defect(read):
    """The negative control: what is not a sentence of a reader's own does not pass."""
    with pytest.raises(Defect):
        judged(read)
