"""A file of runs that grows by whole lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.simulator.checkpoint import CheckpointError, opened

ABOUT = {"trace": "abc", "cluster": {"nodes": 4}, "cutoff_s": 1.5}


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "runs.jsonl"
    with opened(path, ABOUT) as kept:
        kept.add("a", {"x": 1 / 3})
        kept.add("b", {"y": [1, 2]})
    with opened(path, ABOUT) as kept:
        assert kept.rows == {"a": {"x": 1 / 3}, "b": {"y": [1, 2]}}
        kept.add("c", {})
    assert len(path.read_text().splitlines()) == 4


@settings(max_examples=25)
@given(data=st.data())
def test_a_kill_at_any_byte_loses_no_more_than_the_last_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "runs.jsonl"
    with opened(path, ABOUT) as kept:
        for number in range(3):
            kept.add(str(number), {"n": number})
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    with opened(path, ABOUT) as kept:
        assert list(kept.rows) == ["0", "1", "2"][: max(0, whole[:cut].count(b"\n") - 1)]
        for number in range(len(kept.rows), 3):
            kept.add(str(number), {"n": number})
    assert path.read_bytes() == whole


def test_another_study_is_refused_with_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with opened(path, ABOUT) as kept:
        kept.add("a", {})
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"runs\.jsonl:1: .* trace was abc, is xyz; .*another folder"):
        opened(path, ABOUT | {"trace": "xyz"}).__enter__()
    assert path.read_bytes() == before


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"key": "a"}', '{"run": {}}'])
def test_a_line_that_is_none_of_ours_is_told(tmp_path: Path, line: str) -> None:
    path = tmp_path / "runs.jsonl"
    with opened(path, ABOUT):
        pass
    path.write_text(f"{path.read_text()}{line}\n{json.dumps({'key': 'b', 'run': {}})}\n")
    with pytest.raises(CheckpointError, match=r"runs\.jsonl:2: is no line of runs"):
        opened(path, ABOUT).__enter__()


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with opened(path, ABOUT), pytest.raises(CheckpointError, match="another study writes to it"):
        opened(path, ABOUT).__enter__()
    with opened(path, ABOUT):
        pass
