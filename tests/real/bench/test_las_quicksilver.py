"""The masters of bench-las through the proxy and the sidecar, with real containers."""

import asyncio
from collections.abc import Iterator

import pytest

from quicksilver_lab.bench.las import gstart, modes, workload
from quicksilver_lab.bench.las.jobs import JobStage, LasJob, LasScale
from quicksilver_lab.bench.las.modes import EXTRA, Mode
from quicksilver_lab.bench.las.umbilical import opened
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.ports import free_base_port

pytestmark = [pytest.mark.hadoop, pytest.mark.cgroup, pytest.mark.long, pytest.mark.timeout(300)]

SCALE = LasScale()
SIDE_BY_SIDE = {"kill": SCALE.cores, "las": SCALE.cores + EXTRA}
"""Queueable tasks that run side by side on the full node."""


@pytest.fixture(scope="module", params=["kill", "las"])
def way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Mode, Cluster]]:
    mode = gstart.modes_of(SCALE)[request.param]
    folder = tmp_path_factory.mktemp("las")
    with modes.running(mode, folder, free_base_port(1), lambda _: None, gstart.QUEUES) as cluster:
        yield request.param, mode, cluster


def test_jobs_finish_and_nothing_is_lost(way: tuple[str, Mode, Cluster]) -> None:
    _, mode, cluster = way
    stages = (JobStage(20, 3, 0.5), JobStage(10, 1, 0.2))
    jobs = [LasJob(number, "small", 0.2 * number, stages) for number in range(4)]
    run = workload.measure(cluster, mode, jobs, workload.Pace(0.5, 1.0, 120.0), lambda _: None)
    for one in run.outcomes:
        lost = {key: one.counts[key] for key in ("killed", "failed", "refused")}
        assert (one.broken, one.counts["granted"], lost) == ("", 4, {"killed": 0, "failed": 0, "refused": 0})
        assert one.counts["opportunistic"] == 4 and one.completion_s is not None


def test_guaranteed_starts_on_a_node_full_of_queueable_ones(way: tuple[str, Mode, Cluster]) -> None:
    name, mode, cluster = way

    async def main() -> gstart.LasStarts:
        with opened(cluster.spec.workdir / "tasks.pipe") as umbilical:
            where = workload.site(cluster, mode, umbilical, workload.Pace(0.2))
            return await gstart.starts(where, 2, SIDE_BY_SIDE[name], SCALE.cores + EXTRA)

    found = asyncio.run(main())
    assert len(found.ms) == 2 and min(found.running) == SIDE_BY_SIDE[name]
    assert (found.killed > 0) == (name == "kill")
