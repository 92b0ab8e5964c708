"""MapReduce's own classes read the notices that the proxy writes into an answer; no cluster runs."""

from __future__ import annotations

import subprocess
from typing import Final

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from quicksilver_lab.cluster.runtime.jars import hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from rm_proxy.attempt.delivery.notices import NodeNotice, Notices
from rm_proxy.attempt.held_containers import HeldContainer, HeldContainers
from tests.paths import DATA
from tests.rm_proxy.yarn_messages import cid, container_proto

pytestmark = pytest.mark.hadoop
PREEMPTION: Final = "org.apache.hadoop.mapreduce.v2.app.rm.preemption"


def running() -> HeldContainers:
    """Return four queueable containers, each of which runs a reduce."""
    containers = HeldContainers()
    for number in range(1, 5):
        containers.add(
            HeldContainer(
                id=cid(number),
                proto=container_proto(number),
                node_id="host1:8041",
                kind=Kind.QUEUEABLE,
                priority=10,
                resources=Resources(1024, 1),
                expected_s=60.0,
                granted_s=1.0,
            )
        )
    return containers


def read(notices: Notices) -> list[str]:
    """Return what MapReduce's policies make of an answer with these notices."""
    answer = y.AllocateResponseProto(response_id=7)
    assert notices.write(answer, 10.0)
    java = find_java()
    argv = [str(java.executable), "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1", "-cp", hadoop_jars(java).classpath]
    names = [f"{PREEMPTION}.{name}AMPreemptionPolicy" for name in ("Noop", "Kill", "Checkpoint")]
    done = subprocess.run(
        [*argv, str(DATA / "preemption" / "MessageReader.java"), *names],
        input=answer.SerializeToString(),
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode().splitlines()


def test_a_strict_contract_and_a_node_that_is_emptied() -> None:
    report = y.NodeReportProto(node_state=y.NS_DECOMMISSIONING, node_update_type=y.NODE_DECOMMISSIONING)
    report.nodeId.host, report.nodeId.port = "host1", 8041
    notices = Notices(running(), strict={cid(2): None, cid(9): None}, nodes={"host1:8041": NodeNotice(report, 610.0)})
    assert read(notices) == [
        "host1:8041 DECOMMISSIONING 600 NODE_DECOMMISSIONING unusable false",
        "NoopAMPreemptionPolicy preempts [] events []",
        "KillAMPreemptionPolicy preempts [] events [TA_KILL, JOB_COUNTER_UPDATE]",
        "CheckpointAMPreemptionPolicy preempts [2] events [JOB_COUNTER_UPDATE]",
    ]


def test_a_negotiable_contract() -> None:
    notices = Notices(running(), negotiable={cid(1): None, cid(2): None})
    assert read(notices) == [
        "NoopAMPreemptionPolicy preempts [] events []",
        "KillAMPreemptionPolicy preempts [] events [TA_KILL, JOB_COUNTER_UPDATE, TA_KILL, JOB_COUNTER_UPDATE]",
        "CheckpointAMPreemptionPolicy preempts [3, 4] events [JOB_COUNTER_UPDATE, JOB_COUNTER_UPDATE]",
    ]
