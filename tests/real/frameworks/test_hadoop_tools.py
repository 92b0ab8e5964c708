"""Unmodified MapReduce beyond plain jobs: streaming, distcp, jobs within their master, second copies of slow maps.

With QUICKSILVER_COMPATIBILITY in the environment the outcomes become cells of the table in docs/compatibility.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.compatibility import recorded
from quicksilver_lab.frameworks.tools import Tools
from quicksilver_lab.workloads.clients import Clients
from quicksilver_lab.workloads.hdfs import Hdfs
from quicksilver_lab.workloads.mapreduce import (
    JobOptions,
    JobResult,
    RunningJob,
    count_words,
    make_text,
    put_text,
    read_counts,
    start_wordcount,
)
from quicksilver_lab.workloads.records import RecordsWatch, RecordTally
from sidecar.resizer.processes import groups_of
from tests.promise.conftest import CORES, EXTRA, promise_spec, running_cluster
from tests.promise.helpers import alive, by_state, options, running, submitted, taken_back, until
from tests.sidecar.resizer.containers import needs_cgroup1

pytestmark = [pytest.mark.hadoop, pytest.mark.timeout(600)]
VERSION: Final = "3.4.2"
ENDED_S: Final = 240.0
TEXT: Final = make_text(600)
SOURCE: Final = "/tools/input/text"
LONG_TEXT: Final = make_text(24_000)
"""Of which a fourth does not fit into the pipe to a program that sleeps: its map stays below 100 %."""
LONG_SOURCE: Final = "/tools/long/text"
WORDS: Final = r"tr -s " + r'"[:space:]" "\n" | sort | uniq -c | awk "{print \$2 \"\t\" \$1}"'
SUMS: Final = r'awk "{sum[\$1] += \$2} END {for (word in sum) print word \"\t\" sum[word]}"'
COPIES: Final = 4
LATE_MAP, MAPS = 2, 4
SLOW_S: Final = 9.0
RUNNING: Final = 3
"""Maps that run at a time on two nodes of two cores, beside their master."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes, whose NodeManagers have room for containers that give way by shrinking."""
    vcores = 2 * (CORES + EXTRA)
    with running_cluster(promise_spec(tmp_path_factory.mktemp("tools"), nodes=2, vcores=vcores)) as cluster:
        put_text(cluster, SOURCE, TEXT)
        for number in range(COPIES - 1):
            put_text(cluster, f"/tools/input/text-{number}", TEXT)
        yield cluster


@pytest.fixture(scope="module")
def tools(cluster: Cluster) -> Tools:
    return Tools(cluster)


def own(maps: int, **further: str) -> dict[str, str]:
    """Return the properties of a job; further: by their names with underscores in place of dots."""
    base = dict(options().properties or {}) | {"mapreduce.job.maps": str(maps), "mapreduce.job.reduces": "1"}
    return base | {name.replace("_", "."): value for name, value in further.items()}


def ended(cluster: Cluster, job: RunningJob, watch: RecordsWatch) -> tuple[JobResult, RecordTally]:
    """Wait for a job; return it with the containers that YARN recorded."""
    result = job.wait(ENDED_S)
    tally = watch.tally(result.application_id)
    print(f"{job.client.name}: {result.wall_s:.1f} s, {tally}")
    assert tally.disagreeing == ()
    return result, tally


def all_queueable(tally: RecordTally) -> bool:
    """Return whether each container but the master's was granted, and ran, as a queueable one."""
    return tally.granted == tally.rm_opportunistic > 0 and tally.ran == tally.nm_opportunistic


def processes_of(container: str) -> list[psutil.Process]:
    """Return the processes in whose environment a container is named."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("CONTAINER_ID") == container:
                processes.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return processes


def limits(container: str) -> dict[str, int]:
    """Return the CPU quota of each process of a container, by its command; -1 where it has none."""
    quotas: dict[str, int] = {}
    for process in processes_of(container):
        try:
            name = process.name()
            group = (groups_of(process.pid) or {})["cpu"]
            quotas[name] = int(Path(f"/sys/fs/cgroup/cpu{group}/cpu.cfs_quota_us").read_text())
        except (psutil.NoSuchProcess, KeyError, FileNotFoundError):
            continue  # it ended meanwhile
    return quotas


@pytest.mark.cgroup
def test_a_streaming_task_gives_way_with_its_child(cluster: Cluster, tools: Tools, tmp_path: Path) -> None:
    """Under `kairos`, six maps and their master on four cores: one that gives way is limited with its shell."""
    needs_cgroup1()
    gate = tmp_path / "gate"
    mapper = f"until [ -e {gate} ]; do sleep 0.1; done; cat"
    with running(cluster, {"preset": "kairos"}, "tools-las", supervised=False) as las:
        with recorded(VERSION, "Hadoop streaming", "LAS"), RecordsWatch(cluster) as watch, Clients() as started:
            job = tools.streaming("streaming-las", SOURCE, "/tools/streaming-las", mapper, own=own(6))
            started.add(job.client)
            app = until("an application", lambda: submitted(job.client))

            def whole() -> dict[str, int]:
                for container in by_state(las, app).get("shrunk", set()):
                    quotas = limits(container)
                    if {"java", "sh"} <= quotas.keys() and container in by_state(las, app).get("shrunk", set()):
                        return quotas
                return {}

            quotas = until("a container that gives way, its shell in it", whole, seen=lambda: by_state(las, app))
            assert all(quota > 0 for quota in quotas.values()), quotas
            print("limits", quotas, "alive", len(alive(las, app)))
            gate.touch()
            result, tally = ended(cluster, job, watch)
            assert result.failed_attempts == 0 and all_queueable(tally), (result, tally)
        with recorded(VERSION, "distcp", "LAS"), RecordsWatch(cluster) as watch:
            job = tools.copy("distcp-las", "/tools/input", "/tools/copy-las", own(COPIES))
            result, tally = ended(cluster, job, watch)
            assert result.failed_attempts == 0 and all_queueable(tally), (result, tally)


def longest_wait_s(stack: LocalDaemons, app: str) -> float:
    """Return how long a started container of an application waited at its node at most, by the proxy's store."""
    decisions = stack.get(f"/v1/decisions?app={app}&limit=1000")["items"]
    waits = [0.0]
    for container in (decision["container_id"] for decision in decisions if decision["kind"] == "Q"):
        at_s = {event["kind"]: event["at_s"] for event in stack.get(f"/v1/containers/{container}")["events"]}
        if at_s.keys() >= {"held", "started"}:
            waits.append(at_s["started"] - at_s["held"])
    return max(waits)


@pytest.mark.long
@pytest.mark.alone  # beside others a place comes free late, and what is bound to it waits at the node
@pytest.mark.parametrize("preset", ["mercury", "kairos", "default"])
def test_which_waits_mapreduce_takes_for_slow_tasks(cluster: Cluster, tools: Tools, preset: str) -> None:
    """Three maps run at a time, and MapReduce makes second copies of those that show no progress after SLOW_S.

    Under `mercury` the others wait at nodes, started for their master; under `default` they wait at the proxy. How many
    copies there are depends on when MapReduce looks, so it is printed only: a map that runs may have one, too.
    """
    with running(cluster, {"preset": preset}, f"tools-{preset}", supervised=False) as stack:
        with RecordsWatch(cluster) as watch:
            properties = own(2 * RUNNING, mapreduce_map_speculative="true")
            job = tools.streaming(f"waits-{preset}", SOURCE, f"/tools/waits-{preset}", "sleep 15; cat", own=properties)
            result, tally = ended(cluster, job, watch)
        copies = tally.granted - 2 * RUNNING - taken_back(stack, watch.granted(), result.application_id)
        print(f"{preset}: {copies} second copies, {result.killed_attempts} attempts killed, job {result.job_s:.1f} s")
        assert result.failed_attempts == 0 and all_queueable(tally), (result, tally)
        wait_s = longest_wait_s(stack, result.application_id)
        print(f"{preset}: a started map waited {wait_s:.1f} s at most")
        assert preset == "kairos" or (wait_s >= SLOW_S) == (preset == "mercury")


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[LocalDaemons]:
    """Proxy and sidecars as installed, for the tests from here on."""
    with running(cluster, {}, "tools", supervised=False) as stack:
        yield stack


def test_streaming(stack: LocalDaemons, tools: Tools) -> None:
    with recorded(VERSION, "Hadoop streaming", "Q"), RecordsWatch(stack.cluster) as watch:
        job = tools.streaming("streaming", SOURCE, "/tools/streaming", WORDS, SUMS, own(3))
        result, tally = ended(stack.cluster, job, watch)
        assert read_counts(stack.cluster, "/tools/streaming") == count_words(TEXT)
        assert result.failed_attempts == 0 and all_queueable(tally), (result, tally)


def test_distcp(stack: LocalDaemons, tools: Tools) -> None:
    with recorded(VERSION, "distcp", "Q"), RecordsWatch(stack.cluster) as watch:
        job = tools.copy("distcp", "/tools/input", "/tools/copy", own(COPIES))
        result, tally = ended(stack.cluster, job, watch)
        hdfs = Hdfs(stack.cluster)
        copies = [hdfs.read(path) for path in hdfs.files("/tools/copy")]
        assert copies == [TEXT.encode()] * COPIES
        assert (result.reduces, result.failed_attempts) == (0, 0) and all_queueable(tally), (result, tally)


def test_a_job_within_its_master_has_nothing_to_route(stack: LocalDaemons) -> None:
    uber = JobOptions(properties=own(2, mapreduce_job_ubertask_enable="true"))
    with recorded(VERSION, "MapReduce, uber job", "Q"), RecordsWatch(stack.cluster) as watch:
        job = start_wordcount(stack.cluster, SOURCE, "/tools/uber", maps=2, options=uber)
        result, tally = ended(stack.cluster, job, watch)
        assert "running in uber mode : true" in result.text
        assert read_counts(stack.cluster, "/tools/uber") == count_words(TEXT)
        assert (tally.granted, tally.ran) == (0, 0), tally
        assert stack.get(f"/v1/decisions?app={result.application_id}")["items"] == []


@pytest.mark.alone  # as above
def test_the_slow_one_of_two_copies_is_stopped_by_the_master(stack: LocalDaemons, tools: Tools) -> None:
    """The first attempt of a map sleeps until it is killed, when the second one has ended."""
    mapper = f"case $mapreduce_task_attempt_id in *_m_00000{LATE_MAP}_0) sleep 600;; esac; cat"
    properties = own(MAPS, mapreduce_map_speculative="true")
    with recorded(VERSION, "MapReduce, speculative maps", "Q"), RecordsWatch(stack.cluster) as watch:
        put_text(stack.cluster, LONG_SOURCE, LONG_TEXT)
        job = tools.streaming("speculative", LONG_SOURCE, "/tools/speculative", mapper, own=properties)
        result, tally = ended(stack.cluster, job, watch)
        assert (result.maps, result.failed_attempts, result.killed_attempts) == (MAPS, 0, 1), result
        assert tally.granted == MAPS + 1 and all_queueable(tally), tally
        hdfs = Hdfs(stack.cluster)
        lines = "".join(hdfs.read(path).decode() for path in hdfs.files("/tools/speculative"))
        assert sorted(line.strip() for line in lines.splitlines()) == sorted(LONG_TEXT.splitlines())
        assert stack.get("/v1/kills")["items"] == [], "its end is the master's own doing"
        decisions = stack.get(f"/v1/decisions?app={result.application_id}&limit=100")["items"]
        assert [decision["kind"] for decision in decisions] == ["Q"] * (MAPS + 1), decisions
