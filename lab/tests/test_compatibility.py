"""Results of versions and frameworks: written by runs, shown in docs/compatibility.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from quicksilver_lab.compatibility import VARIABLE, Cell, Disturbance, load, recorded, rows, save, with_table

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_a_later_run_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    failed = Cell(version="3.1.1", framework="MapReduce", mode="Q", outcome="failed", cause="no grant")
    other = Cell(version="3.1.1", framework="MapReduce", mode="Q", event=Disturbance.RM)
    for cell in (failed, other, failed.model_copy(update={"outcome": "passed", "cause": ""})):
        save(cell, tmp_path)
    assert [(cell.event, cell.outcome) for cell in load(tmp_path)] == [
        (Disturbance.NONE, "passed"),
        (Disturbance.RM, "passed"),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["3.1.1-mapreduce.json"]


def test_how_a_block_ends_is_recorded_where_results_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with recorded("3.4.2", "Tez", "G"):
        pass
    assert not load(tmp_path), "without the variable nothing is written"
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with recorded("3.4.2", "Tez", "G"):
        pass
    with pytest.raises(RuntimeError), recorded("3.4.2", "Tez", "Q", Disturbance.PROXY):
        raise RuntimeError("a task ran twice\nand more")
    good, bad = load(tmp_path)
    assert (good.outcome, good.cause, len(good.commit) >= 8, good.date[:2]) == ("passed", "", True, "20")
    assert (bad.mode, bad.event, bad.outcome, bad.cause) == ("Q", Disturbance.PROXY, "failed", "a task ran twice")


def test_the_table_says_what_ran_and_what_did_not() -> None:
    cells = [
        Cell(version="3.1.1", framework="Tez", mode="Q", commit="abc", date="2026-11-26"),
        Cell(
            version="3.1.1",
            framework="Tez",
            mode="Q",
            event=Disturbance.NM,
            outcome="failed",
            cause="a|b",
            commit="def",
        ),
    ]
    (row,) = list(rows(cells))[2:]
    assert row == (
        "| 3.1.1 | Tez | Q | **passed** | not run | not run | not run | **failed**: a\\|b | not run | "
        "not run | not run | abc, 2026-11-26 |"
    )


def test_a_result_with_an_unknown_outcome_is_refused() -> None:
    with pytest.raises(ValidationError, match="outcome"):
        Cell.model_validate({"version": "3", "framework": "Tez", "mode": "Q", "outcome": "perhaps"})


def test_the_page_has_the_table_of_the_results() -> None:
    assert with_table(PAGE.read_text(), load()) == PAGE.read_text()
