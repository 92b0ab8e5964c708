"""What makes a cell of Tez pass, and that its policies are valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver_lab.frameworks.cells import EVENTS, MODES, mistake
from quicksilver_lab.workloads.records import RecordTally

DONE = "DAG: State: SUCCEEDED Progress: 100% TotalTasks: 13 Succeeded: 13 Running: 0 Failed: 0 Killed: 0"


def tally(ran: int, queueable: int) -> RecordTally:
    return RecordTally(ran, queueable, ran, queueable, {}, ())


@pytest.mark.parametrize(
    ("text", "mode", "event", "ran", "queueable", "what"),
    [
        (DONE, "Q", "none", 5, 5, ""),
        (DONE, "G", "none", 5, 0, ""),
        (f"{DONE} KilledTaskAttempts: 3", "LAS", "master killed", 5, 5, ""),
        (f"{DONE} FailedTaskAttempts: 2", "Q", "node lost", 5, 5, ""),
        (f"{DONE} FailedTaskAttempts: 2", "Q", "proxy restart", 5, 5, "2 attempts failed"),
        (DONE, "Q", "none", 5, 4, "4 of 5 containers were queueable"),
        (DONE, "G", "none", 5, 1, "1 of 5 containers were queueable"),
        (DONE, "Q", "none", 0, 0, "0 of 0 containers were queueable"),
        ("State: FAILED", "Q", "none", 5, 5, "the DAG did not succeed"),
    ],
)
def test_a_cell_passes_with_right_containers_and_no_failed_attempt(
    text: str, mode: str, event: str, ran: int, queueable: int, what: str
) -> None:
    assert event in EVENTS
    assert mistake(text, tally(ran, queueable), mode, event) == what


@pytest.mark.parametrize("mode", MODES)
def test_the_policies_of_a_mode_are_valid(mode: str, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    with file.open("w") as target:
        YAML().dump({"policies": dict(MODES[mode])}, target)
    result = CliRunner().invoke(cli, ["policy", "check", str(file)])
    assert result.exit_code == 0, result.output
