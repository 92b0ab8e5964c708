"""The registry of systems, the words they share, and what is checked of every run."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from lab.tests.papers.checks import wrong
from policies.settings_model import descriptions
from quicksilver.cli import cli
from quicksilver.simulator import systems
from quicksilver.simulator.errors import BrokenSystemError, UnknownSystemError
from quicksilver.simulator.model import ClusterModel, JobOutcome, SimResult, SimulatedJob
from quicksilver.simulator.systems import SYSTEMS, SystemSettings, load

JOB = SimulatedJob(1, 5.0, (1.0, 3.0), estimate_s=2.0)
CLUSTER = ClusterModel(nodes=1, slots=2)


def result() -> SimResult:
    outcome = JobOutcome(1, 5.0, 8.0, tasks=2, work_s=4.0)
    return SimResult("one", 0, [outcome], [(5.0, 1.0), (6.5, 0.5)], {"tasks": 2, "started": 2, "ended": 2})


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_loads_and_its_defaults_are_settings(name: str) -> None:
    system = load(name)
    assert system.name == name
    assert isinstance(system.Settings(), SystemSettings)
    assert all(descriptions(system.Settings).values())
    assert system.about.endswith(".")


def test_an_unknown_system_is_refused_with_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "SYSTEMS", {"eagle": "a:S", "hawk": "b:S"})
    with pytest.raises(UnknownSystemError, match=r"no system is named 'eagel'; did you mean 'eagle'\?"):
        load("eagel")
    with pytest.raises(UnknownSystemError, match="use one of eagle, hawk"):
        load("x")


def test_a_package_that_is_broken_is_one_clear_error_and_disturbs_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (("moon", "no_such_package:SYSTEM"), ("sun", "json:SYSTEM")):
        monkeypatch.setitem(systems.SYSTEMS, name, place)
        with pytest.raises(
            BrokenSystemError, match=rf"system {name} cannot be loaded from {place}: .*; mend or remove"
        ):
            load(name)
    result = CliRunner().invoke(cli, ["simulate", "--list"])
    assert result.exit_code == 0
    assert "system moon cannot be loaded" in result.output and "Stock YARN" in result.output
    described = CliRunner().invoke(cli, ["simulate", "--describe", "sun"])
    assert described.exit_code == 2 and "system sun cannot be loaded" in described.output


@pytest.mark.parametrize("bad", ({"nodes": 0}, {"nodes": 1, "slots": 0}, {"nodes": 1, "delay_s": -1.0}))
def test_a_cluster_that_cannot_be_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least one|below 0"):
        ClusterModel(**bad)  # type: ignore[arg-type]


def test_a_run_that_is_right_is_right() -> None:
    assert wrong(result(), [JOB], CLUSTER) == []


def test_what_must_not_be_is_told() -> None:
    lost = replace(result(), counts={"tasks": 2, "started": 1, "ended": 1, "lost": 1})
    assert wrong(lost, [JOB], CLUSTER) == [
        "counts: ended=1, not 2",
        "counts: lost=1, not 0",
        "counts: started=1, below 2 tasks",
    ]
    assert len(wrong(replace(result(), jobs=[]), [JOB], CLUSTER)) == 1
    assert len(wrong(replace(result(), busy=[(2.0, 1.5), (1.0, 0.0)]), [JOB], CLUSTER)) == 2
    assert len(wrong(result(), [JOB], ClusterModel(1))) == 1
    early = replace(result(), jobs=[JobOutcome(1, 5.0, 7.0, tasks=2, work_s=3.0, wait_s=9.0)])
    assert [text.split()[2] for text in wrong(early, [JOB], CLUSTER)] == ["3.0", "ended", "tasks"]
