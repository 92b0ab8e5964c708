"""Figure 1 live: the room is exact, the requests are those of the paper, and the verdict is a tenth."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner

from quicksilver.simulator.model import ApplicationJob, ClusterModel
from quicksilver_lab.bench.zoe.figure1 import (
    CORE,
    ENDS_S,
    MASTER_MB,
    PAPER_S,
    REQUESTS,
    UNIT_MB,
    UNITS,
    FigureOutcome,
    application,
    cluster_spec,
    figure1,
    judged,
)
from quicksilver_lab.papers.systems.zoe import SYSTEM, ZoeSettings


@pytest.mark.parametrize("masters", range(5))
def test_the_node_never_holds_an_eleventh_unit(masters: int) -> None:
    spec = cluster_spec(Path("run"), 18000, overlay=True)
    left_mb = spec.node_memory_mb - masters * MASTER_MB
    assert spec.node_memory_mb % spec.min_allocation_mb == UNIT_MB % spec.min_allocation_mb == 0
    assert left_mb // UNIT_MB == UNITS if masters else left_mb // UNIT_MB <= UNITS + 1
    assert spec.node_vcores > UNITS + len(REQUESTS)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_are_described_as_in_the_paper(name: str) -> None:
    elastic = REQUESTS[name]
    described = application(name, elastic, 2.0)
    assert described.tags() == ("core:10=1/11=1/12=1", "runtime_s:20")
    assert sum(each.core for each in described.services) == CORE
    assert sum(each.elastic for each in described.services) == elastic
    assert {each.resources.memory_mb for each in described.services} == {UNIT_MB}
    served, unit_s = described.services[0].command.split()[-2:]
    assert int(served) * float(unit_s) == pytest.approx(20 * (1 + elastic)), "W = T (C - 2 + E)"
    assert described.services[2].command.endswith(unit_s)


@pytest.mark.parametrize("discipline", PAPER_S)
def test_the_figure_is_that_of_the_simulator(discipline: str) -> None:
    apps = [ApplicationJob(n, 0.0, (10.0,) * (CORE + e), 10.0, core=CORE) for n, e in enumerate(REQUESTS.values())]
    found = SYSTEM.run(apps, ClusterModel(nodes=UNITS), ZoeSettings.model_validate({"discipline": discipline}), 0)
    assert tuple(one.ended_s for one in sorted(found.jobs, key=lambda one: one.number)) == ENDS_S[discipline]
    assert fmean(ENDS_S[discipline]) == PAPER_S[discipline]


@pytest.mark.parametrize(("longer", "met"), ((1.0, True), (1.09, True), (1.11, False), (0.89, False)))
def test_an_average_within_a_tenth_is_met(longer: float, met: bool) -> None:
    outcome = FigureOutcome(dict(zip(REQUESTS, (2 * longer * end for end in ENDS_S["rigid"]), strict=True)))
    found = judged("rigid", outcome, 2.0)
    assert found["met"] is met
    assert found["mean_scaled_s"] == pytest.approx(25 * longer)
    assert "met" not in judged("stock", outcome, 2.0)


def test_an_unknown_system_is_an_error_of_usage() -> None:
    done = CliRunner().invoke(figure1, ["--systems", "rigid,nothing"])
    assert (done.exit_code, "nothing: choose from" in done.stderr) == (2, True)
