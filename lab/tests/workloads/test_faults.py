"""The campaign's own parts: what is drawn, relays that cut, hold and slow down, what logs say of starts."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quicksilver_lab.cluster.spec import HostPort
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import JobFailedError
from quicksilver_lab.workloads.faults import causes, checks, jobs, plan
from quicksilver_lab.workloads.faults.jobs import FaultJobs, FaultOutcome, Lane, started
from quicksilver_lab.workloads.faults.toxic import Between, Toxics

NODES, LINKS = ["node1", "node2"], ["AM-proxy", "proxy-RM"]


def test_a_seed_draws_the_same_faults_and_every_kind() -> None:
    one, again, other = (list(islice(plan.faults(seed, NODES, LINKS, 5.0), 400)) for seed in (1, 1, 2))
    assert one == again != other
    assert {fault.kind for fault in one} == set(plan.KINDS)
    assert {fault.target for fault in one if fault.kind in plan.NEEDS_NODE} == set(NODES)
    assert {fault.target for fault in one if fault.kind in plan.NETWORK} == set(LINKS)
    assert all((fault.for_s > 0) == (fault.kind in plan.NETWORK) for fault in one)
    assert 4 < sum(fault.pause_s for fault in one) / len(one) < 6


def test_each_kind_comes_once_before_any_comes_twice() -> None:
    count = len(plan.KINDS)
    dealt = list(islice(plan.faults(7, NODES, LINKS, 5.0, each_first=True), 3 * count))
    assert {fault.kind for fault in dealt[:count]} == set(plan.KINDS)
    assert len({fault.kind for fault in dealt[count:]}) > 1
    assert dealt != list(islice(plan.faults(8, NODES, LINKS, 5.0, each_first=True), 3 * count))


def test_without_links_nothing_happens_to_the_network() -> None:
    kinds = Counter(fault.kind for fault in islice(plan.faults(1, NODES, [], 5.0), 300))
    assert not plan.NETWORK & kinds.keys()


@pytest.fixture
def echo() -> Iterator[HostPort]:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=_echo, args=(connection,)).start()

    thread = threading.Thread(target=serve)
    thread.start()
    yield HostPort(*server.getsockname())
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def _echo(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
        except ConnectionError:
            return


def free() -> HostPort:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return HostPort(*found.getsockname())


def asked(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return connection.recv(4096)


def test_a_relay_passes_cuts_holds_and_slows_down(echo: HostPort) -> None:
    listen = free()
    with Toxics({"link": Between(listen, echo)}) as toxics:
        with socket.create_connection(listen, timeout=10) as connection:
            assert asked(connection, b"one") == b"one"
            toxics.hold("link", 0.4)
            begun_s = time.monotonic()
            assert asked(connection, b"two") == b"two"
            assert time.monotonic() - begun_s >= 0.2
            toxics.slow("link", 0.01, 5.0)
            assert asked(connection, b"three") == b"three"
            assert toxics.cut("link", 60.0) == 1
            with pytest.raises(ConnectionResetError):
                while connection.recv(4096):
                    pytest.fail("nothing was sent")
                raise ConnectionResetError("closed in order")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listen, timeout=10)


def test_a_cut_is_mended(echo: HostPort) -> None:
    listen = free()
    with Toxics({"link": Between(listen, echo)}) as toxics:
        toxics.cut("link", 0.1)
        end_s = time.monotonic() + 10
        while True:
            try:
                with socket.create_connection(listen, timeout=10) as connection:
                    assert asked(connection, b"again") == b"again"
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end_s


def test_who_comes_while_nobody_is_there_waits(echo: HostPort) -> None:
    listen, later = free(), free()
    with Toxics({"one": Between(listen, later)}), socket.create_connection(listen, timeout=10) as connection:
        connection.sendall(b"early")
        with Toxics({"two": Between(later, echo)}):
            assert connection.recv(4096) == b"early"


LAUNCH = "INFO DefaultContainerExecutor: launchContainer: [bash, /l/n1/{0}/default_container_executor.sh]\n"


def test_a_second_start_is_found_in_the_logs(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(LAUNCH.format("container_1_0001_01_000002") + LAUNCH.format("container_1_0001_01_000003"))
    two.write_text(LAUNCH.format("container_1_0001_01_000003") + "Container container_1_0001_01_000002 succeeded\n")
    assert checks.launches([one, two]) == 3
    assert checks.launched_twice([one, two]) == ["container_1_0001_01_000003"]
    assert checks.launched_twice([one]) == []


def test_what_a_nodemanager_lost_when_it_was_restarted_is_found_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    words = (
        "a.b.ContainerImpl: Can't handle this event at current state: Current: [{}], eventType: [{}], container: [{}]"
    )
    lost = words.format("NEW", "CONTAINER_EXITED_WITH_FAILURE", "container_e02_1_0001_01_000003")
    log.write_text(
        f"2026-11-22 09:05:06,754 ERROR {lost}\norg.apache.hadoop.yarn.state.InvalidStateTransitionException: x\n"
        + words.format("NEW", "KILL_CONTAINER", "container_e02_1_0001_01_000004")
        + words.format("RUNNING", "CONTAINER_EXITED_WITH_FAILURE", "container_e02_1_0001_01_000005")
    )
    assert checks.never_launched([log, log]) == ["container_e02_1_0001_01_000003"]


def test_what_a_nodemanager_lost_counts_at_its_node_and_nothing_beside_it() -> None:
    node = {"id": "127.0.0.11:21100", "state": "RUNNING", "numContainers": 1, "usedMemoryMB": 512}
    lost = {"id": "container_e02_1_0001_01_000003", "totalMemoryNeededMB": 512}
    assert checks.left_at_node(node, [lost]) == []
    assert checks.left_at_node(node, []) == [
        "the ResourceManager counts numContainers=1 at 127.0.0.11:21100",
        "the ResourceManager counts usedMemoryMB=512 at 127.0.0.11:21100",
    ]
    more = node | {"state": "LOST", "usedMemoryMB": 1024, "numQueuedContainers": -1}
    assert checks.left_at_node(more, [lost]) == [
        "127.0.0.11:21100 is LOST",
        "the ResourceManager counts usedMemoryMB=1024 at 127.0.0.11:21100",
    ]


def test_marks_tell_how_often_each_container_started(tmp_path: Path) -> None:
    assert started(tmp_path / "none") == Counter()
    (tmp_path / "marks").write_text("container_1\ncontainer_2\ncontainer_1\n")
    assert started(tmp_path / "marks") == Counter(container_1=2, container_2=1)


def test_a_lane_ends_with_the_job_that_runs_and_keeps_what_failed() -> None:
    stop = threading.Event()

    def job(outcome: FaultOutcome) -> None:
        if len(lane.outcomes) == 1:
            stop.set()
            raise OSError("broken")
        outcome.ok = True

    lane = Lane("mapreduce", job, stop)
    lane.start()
    lane.join(10)
    assert [(one.name, one.ok, one.why) for one in lane.outcomes] == [
        ("mapreduce-1", True, ""),
        ("mapreduce-2", False, "OSError: broken"),
    ]


LOST = "[2026-11-21 20:04:57.299]Container exited with a non-zero exit code 154\n"
AT_NEW = "[2026-11-22 08:50:36.488]Unable to get local resources when Container container_1_0001_01_000006 is at NEW\n"
BROKEN = (
    "Container launch failed for container_1 : java.io.IOException: Failed on local exception: java.io.EOFException"
)


def because(text: str, *faults: tuple[str, str, float], node: str = "node1") -> str:
    """Return what explains an attempt that ended at second 100. faults: kind, target, when."""
    failure = causes.FailureCause("attempt_1", "container_1", node, 90.0, 100.0, text)
    return causes.as_on_stock(failure, [{"kind": k, "target": t, "at_s": at} for k, t, at in faults])


def test_a_launch_lost_with_its_nodemanager_is_as_on_stock() -> None:
    assert because(LOST, (plan.KILL_NM, "node1", 92.0)) == "kill NodeManager node1, 8.0 s before"
    assert because(AT_NEW, (plan.KILL_NM, "node1", 92.0)) == "kill NodeManager node1, 8.0 s before"
    assert because(AT_NEW.replace("NEW", "SCHEDULED"), (plan.KILL_NM, "node1", 92.0)) == ""
    assert because(LOST, (plan.KILL_NM, "node2", 92.0)) == ""
    assert because(LOST, (plan.KILL_NM, "node1", 101.0)) == ""
    assert because(LOST, (plan.KILL_NM, "node1", 40.0)) == ""
    assert because(LOST, (plan.KILL_SIDECAR, "node1", 92.0)) == ""
    assert because("exit code 1", (plan.KILL_NM, "node1", 92.0)) == ""


def test_what_is_launched_at_a_recovery_without_its_resources_fails_as_on_stock(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    recovering = "a.b.ContainerManagerImpl: Recovering {} in state {} with exit code -1000\n"
    log.write_text(recovering.format("container_1", "QUEUED") + recovering.format("container_2", "LAUNCHED"))
    queued = checks.recovered_in_queue([log])
    assert queued == {"container_1"}
    kill = [{"kind": plan.KILL_NM, "target": "node1", "at_s": 92.0}]
    failure = causes.FailureCause(
        "attempt_1", "container_1", "node1", 90.0, 100.0, "Error: java.lang.ClassCastException"
    )
    assert causes.explained(failure, kill, queued).as_stock == "kill NodeManager node1, 8.0 s before"
    assert causes.explained(failure, [], queued).as_stock == causes.explained(failure, kill, ()).as_stock == ""


def test_a_handshake_that_the_network_cut_is_as_on_stock_unless_a_sidecar_died_too() -> None:
    cut = (plan.CUT, "AM-node1", 98.0)
    assert because(BROKEN, cut) == "cut AM-node1, 2.0 s before"
    assert because(BROKEN, (plan.CUT, "node1-NM", 99.0)) == "cut node1-NM, 1.0 s before"
    assert because(BROKEN, (plan.KILL_NM, "node1", 99.0)) == "kill NodeManager node1, 1.0 s before"
    assert because(BROKEN, cut, (plan.KILL_SIDECAR, "node1", 97.0)) == ""
    assert because(BROKEN, cut, (plan.KILL_BOTH, "node1", 97.0)) == ""
    assert because(BROKEN, cut, node="node2") == because(BROKEN, cut, node="") == ""
    assert because(BROKEN, (plan.CUT, "AM-node1", 80.0)) == ""
    assert because("Error: Java heap space", cut) == ""


SHELL_ENDS = """Application Failure: desired = 10, completed = 10, allocated = 10, failed = {failed}, diagnostics =
[{0}.439]Container exited with a non-zero exit code 154
[{0}.439]Container exited with a non-zero exit code 154
[{0}.015]Unable to get local resources when Container container_e04_1_0006_06_000007 is at NEW
Not started by quicksilver: Container container_e04_1_0006_06_000009 rejected as it is allocated by a previous RM
Not started by quicksilver: the session with the NodeManager was lost"""


def test_a_start_before_the_nodemanager_has_registered_is_as_on_stock() -> None:
    killed_s = time.mktime(time.strptime("2026-11-22 01:35:36", "%Y-%m-%d %H:%M:%S"))
    kill = {"kind": plan.KILL_NM, "target": "node1", "at_s": killed_s}
    log = (
        "2026-11-22 01:35:39,681 INFO a.b.ApplicationMaster: Setting up container launch\n"
        "2026-11-22 01:35:48,050 ERROR a.b.Master: Failed to start Container container_e01_1_0002_02_000014\n"
        "org.apache.hadoop.yarn.exceptions.InvalidContainerException: \n"
        "Container container_e01_1_0002_02_000014 rejected as it is allocated by a previous RM\n\tat java.base/a\n"
    )
    why = causes.failed_starts(log)
    assert why.startswith("[2026-11-22 01:35:48,050] container_e01_1_0002_02_000014: Container container_e01")
    assert why.count("\n") == 1
    text = f"desired = 10, completed = 10, allocated = 10, failed = 1, diagnostics =\n{why}"
    assert causes.shell_as_on_stock(text, [kill]).startswith("1 containers were lost in their launch")
    assert causes.shell_as_on_stock(text, [kill | {"at_s": killed_s - 60}]) == ""
    said = f"Container launch failed for container_e01_1_0002_02_000014 : {why}"
    attempt = causes.FailureCause("a", "c", "node1", killed_s, killed_s + 12, said)
    assert causes.as_on_stock(attempt, [kill]).startswith("kill NodeManager node1, 12.0 s before")
    assert causes.as_on_stock(attempt, [kill | {"target": "node2"}]) == ""


def test_a_start_of_a_distributed_shell_that_broke_with_its_nodemanager_is_as_on_stock() -> None:
    killed_s = time.mktime(time.strptime("2026-11-22 01:35:36", "%Y-%m-%d %H:%M:%S"))
    kill = {"kind": plan.KILL_NM, "target": "node1", "at_s": killed_s}
    log = (
        "2026-11-22 01:35:37,050 ERROR a.b.Master: Failed to start Container container_e01_1_0002_02_000014\n"
        "java.io.EOFException: End of File Exception between local host is: a and destination host is: b\n\tat c\n"
    )
    why = causes.failed_starts(log)
    assert "EOFException" in why
    text = f"desired = 10, completed = 10, allocated = 10, failed = 1, diagnostics =\n{why}"
    assert causes.shell_as_on_stock(text, [kill]).startswith("1 containers were lost")
    assert causes.shell_as_on_stock(text, [kill | {"at_s": killed_s - 10}]) == ""
    assert causes.shell_as_on_stock(text, [kill, kill | {"kind": plan.KILL_SIDECAR}]) == ""
    assert causes.shell_as_on_stock(text.replace("failed = 1", "failed = 2"), [kill]) == ""


def test_a_distributed_shell_that_lost_containers_in_their_launch_fails_as_on_stock() -> None:
    killed_s = 1_795_301_087.0
    text = SHELL_ENDS.format(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(killed_s + 9)), failed=2)
    kill = {"kind": plan.KILL_NM, "target": "node3", "at_s": killed_s}
    assert causes.shell_as_on_stock(text, [kill]).startswith("2 containers were lost in their launch")
    assert causes.shell_as_on_stock(text.replace("failed = 2", "failed = 3"), [kill]) == ""
    assert causes.shell_as_on_stock(text, [kill | {"kind": plan.KILL_SIDECAR}]) == ""
    assert causes.shell_as_on_stock(text, [kill | {"at_s": killed_s - 60}]) == ""
    assert causes.shell_as_on_stock("it did not end", [kill]) == ""


def test_of_a_distributed_shell_that_fails_all_that_was_said_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "client.log"
    ends = "Application Failure: desired = 10, completed = 10, allocated = 10, failed = 1, diagnostics =\n"
    log.write_text("Submitted application application_1_0004\n" + ends + "Container killed on request\n" * 40)
    starts = "2026-11-22 01:35:48,050 ERROR a.Master: Failed to start Container container_1_0004_01_000002\nno room\n"
    starts += "End of LogType:AppMaster.stderr\n"
    cluster: Any = SimpleNamespace(
        artifact=lambda name: tmp_path / name, hadoop=lambda *_, check: SimpleNamespace(stdout=starts)
    )
    monkeypatch.setattr(jobs.mapreduce, "put_text", lambda *_: None)
    monkeypatch.setattr(
        jobs.clients, "start", lambda *_: Client("shell-1", subprocess.Popen(["false"], text=True), log)
    )
    outcome = FaultOutcome(jobs.SHELL, "shell-1")
    with pytest.raises(JobFailedError, match="the end of its output"):
        FaultJobs(cluster, tmp_path / "marks", None).shell(outcome)
    assert "failed = 1" in outcome.said
    assert outcome.said.endswith("[2026-11-22 01:35:48,050] container_1_0004_01_000002: no room\n")
    assert outcome.application == "application_1_0004"
