"""A cluster in the middle of a rolling upgrade: ResourceManager of one version, NodeManagers of the one before."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from quicksilver_lab.cluster.spec import hadoop_version
from quicksilver_lab.compatibility import Disturbance, recorded
from tests.promise.conftest import running_cluster
from tests.promise.helpers import running
from tests.real.versions.jobs import WaitingPi, outlived, ran_pi, restarted_rm, spec_of

pytestmark = [pytest.mark.hadoop, pytest.mark.long, pytest.mark.timeout(1500)]
MAPS: Final = 6
OLD, NEW = "3.3.6", "3.4.2"
MIXED: Final = f"RM {NEW}, NMs {OLD}"


def upgraded(pi: WaitingPi) -> None:
    """Replace one NodeManager after the other by one of the ResourceManager's version, while maps run there."""
    for node in pi.cluster.spec.node_addresses:
        name = f"nodemanager-{node.name}"
        pi.cluster.kill(name)
        pi.cluster.upgrade(name, NEW)
        pi.all_run_on()


def test_node_managers_are_replaced_one_by_one(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "cluster", OLD, {"resourcemanager": NEW})  # clients and HDFS are upgraded last
    with running_cluster(spec) as cluster, running(cluster, {}, "mixed") as stack:
        with recorded(MIXED, "MapReduce", "Q"):
            _, tally = ran_pi(cluster, "mixed", MAPS)
            assert tally.rm_opportunistic == tally.granted > MAPS, tally
        with recorded(MIXED, "MapReduce", "Q", Disturbance.RM):
            outlived(stack, "rm", tmp_path, restarted_rm)
        with recorded(MIXED, "MapReduce", "Q", Disturbance.NM):
            outlived(stack, "upgrade", tmp_path, upgraded)
        versions = {hadoop_version(cluster.spec, f"nodemanager-{node.name}") for node in cluster.spec.node_addresses}
        assert versions == {NEW}
