"""MapReduce on each version of Hadoop through proxy and sidecars: guaranteed, queueable, shrinking, and restarts.

With QUICKSILVER_COMPATIBILITY in the environment the outcomes become the table of docs/compatibility.md.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.cluster.runtime.releases import RELEASES, release
from quicksilver_lab.compatibility import recorded
from quicksilver_lab.workloads.clients import application_id
from quicksilver_lab.workloads.mapreduce import pi_estimate, start_pi
from quicksilver_lab.workloads.records import RecordsWatch
from tests.promise.conftest import promise_spec, running_cluster
from tests.promise.helpers import options, running
from tests.real.versions.jobs import ENDED_S, RESTARTS, outlived, ran_pi, spec_of

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(1500)]
MAPS: Final = 6
NODES_USED: Final = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used"
MODES: Final[dict[Literal["G", "LAS"], dict[str, Any]]] = {
    "G": {"routes": [{"policy": "only_g"}]},
    "LAS": {"preset": "kairos"},
}
FRAMEWORK: Final = "MapReduce"
USUAL_JAVA, NEWEST_JAVA = 17, 25


@pytest.mark.parametrize("version", RELEASES)
def test_mapreduce(version: str, tmp_path: Path) -> None:
    with running_cluster(spec_of(tmp_path / "cluster", version)) as cluster:
        with running(cluster, {}, "versions") as stack:
            with recorded(version, FRAMEWORK, "Q"):
                _, tally = ran_pi(cluster, "queueable", MAPS)
                assert tally.rm_opportunistic == tally.granted > MAPS and tally.nm_opportunistic == tally.ran, tally
            for disturbance, restart in RESTARTS.items():
                with recorded(version, FRAMEWORK, "Q", disturbance):
                    outlived(stack, disturbance.replace(" ", "-"), tmp_path, restart)
            assert stack.get("/v1/health")["problems"] == []
        for mode, policies in MODES.items():
            with running(cluster, policies, f"versions-{mode}", supervised=False), recorded(version, FRAMEWORK, mode):
                _, tally = ran_pi(cluster, f"mode-{mode}", MAPS)
                assert (tally.rm_opportunistic > 0) == (mode != "G"), tally


@pytest.mark.parametrize("version", RELEASES)
def test_the_java_at_hand(version: str, tmp_path: Path) -> None:
    """With JAVA_HOME in the environment: daemons, clients and tasks on that Java."""
    oldest, newest = release(version).oldest_java, release(version).newest_java
    java = find_java(newest=NEWEST_JAVA).version
    if java == USUAL_JAVA or not oldest <= java <= newest:
        pytest.skip(f"Java {java}: the others run on {USUAL_JAVA}, and {version} takes {oldest} to {newest}")
    spec = promise_spec(tmp_path / "cluster", nodes=1, yarn_only=True, hadoop=version)
    with running_cluster(spec) as cluster, running(cluster, {}, "versions-java", supervised=False):
        assert cluster.launcher.java.version == java
        with recorded(f"{version} on Java {java}", FRAMEWORK, "Q"), RecordsWatch(cluster) as watch:
            client = start_pi(cluster, "java", 2, 1000, options()).client
            text = client.wait(ENDED_S)
            tally = watch.tally(application_id(text))
            assert abs(pi_estimate(text) - math.pi) < 0.3
            assert tally.rm_opportunistic == tally.granted > 2, tally


def test_an_older_allocator_without_nodes_is_not_waited_for(tmp_path: Path) -> None:
    """What the overlay of later versions does to Hadoop 3.1: nothing is granted, and the proxy knows it at once."""
    spec = spec_of(tmp_path / "cluster", "3.1.1")
    spec = spec.model_copy(update={"extra_site": {**spec.extra_site, "yarn": {NODES_USED: "0"}}})
    with running_cluster(spec) as cluster, running(cluster, {}, "versions-none", supervised=False) as stack:
        _, tally = ran_pi(cluster, "none", MAPS)
        assert tally.granted > MAPS and tally.rm_opportunistic == tally.nm_opportunistic == 0, tally
        (problem,) = stack.get("/v1/health")["problems"]
        assert problem.endswith(f"Hadoop 3.1.1 grants none with {NODES_USED}=0; set it to -1")
        log = stack.log("proxy").read_text()
        assert log.count("no container is queueable") == 1 and "did not grant it" not in log
        decisions = stack.get("/v1/decisions?limit=1000")["items"]
        assert "did not grant it" not in json.dumps(decisions)
