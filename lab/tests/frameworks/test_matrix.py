"""What makes a cell pass, and that the policies of its modes are valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from quicksilver.cli import cli
from quicksilver_lab.compatibility import Mode
from quicksilver_lab.frameworks.matrix.__main__ import MODES, policies_of, thrown, type_mistake
from quicksilver_lab.frameworks.matrix.cell_jobs import dag_mistake
from quicksilver_lab.workloads.records import RecordTally

DONE = "DAG: State: SUCCEEDED Progress: 100% TotalTasks: 13 Succeeded: 13 Running: 0 Failed: 0 Killed: 0"


@pytest.mark.parametrize(
    ("text", "may_fail", "mistake"),
    [
        (DONE, False, ""),
        (f"{DONE} KilledTaskAttempts: 3", False, ""),
        (f"{DONE} FailedTaskAttempts: 2", True, ""),
        (f"{DONE} FailedTaskAttempts: 2", False, "2 attempts failed"),
        ("State: FAILED", True, "the DAG did not succeed"),
    ],
)
def test_a_dag_has_to_succeed_without_failed_attempts(text: str, may_fail: bool, mistake: str) -> None:
    assert dag_mistake(text, may_fail) == mistake


@pytest.mark.parametrize(
    ("mode", "ran", "queueable", "mistake"),
    [
        ("Q", 5, 5, ""),
        ("LAS", 5, 5, ""),
        ("KILL", 5, 5, ""),
        ("G", 5, 0, ""),
        ("Q", 5, 4, "4 of 5 containers were queueable"),
        ("G", 5, 1, "1 of 5 containers were queueable"),
        ("Q", 0, 0, "0 of 0 containers were queueable"),
    ],
)
def test_containers_have_to_be_of_the_modes_type(mode: Mode, ran: int, queueable: int, mistake: str) -> None:
    assert type_mistake(RecordTally(ran, queueable, ran, queueable, {}, ()), mode) == mistake


def test_what_the_deadlock_guard_made_guaranteed_is_no_mistake() -> None:
    tally = RecordTally(9, 7, 9, 7, {}, ())
    assert type_mistake(tally, "Q", guarded=2) == ""
    assert type_mistake(tally, "Q", guarded=1) == "7 of 9 containers were queueable"


def test_the_cause_is_the_last_exception_that_a_client_printed() -> None:
    text = (
        'Exception in thread "main" java.lang.NoClassDefFoundError: com/google/A\n\tat x.Y.z(Y.java:1)\n'
        "Caused by: java.lang.ClassNotFoundException: com.google.A\n\tat java.base/x\n"
    )
    assert thrown(text) == "java.lang.ClassNotFoundException: com.google.A"
    code = "Container exited with a non-zero exit code 154"
    assert thrown(f"[2026-11-27 22:37:20.865]{code}\n, appMasterHost=vm\n") == code
    assert thrown("done\n") == ""


@pytest.mark.parametrize("mode", MODES)
def test_the_policies_of_a_mode_are_valid(mode: Mode, tmp_path: Path) -> None:
    file = tmp_path / "quicksilver.yaml"
    with file.open("w") as target:
        YAML().dump({"policies": dict(policies_of(mode, "TEZ"))}, target)
    result = CliRunner().invoke(cli, ["policy", "check", str(file)])
    assert result.exit_code == 0, result.output
