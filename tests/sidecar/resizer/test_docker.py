"""The Docker resizer, with a real daemon and real containers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from quicksilver_lab.workloads.servers.dockerd import BUSYBOX_IMAGE, Dockerd
from sidecar.resizer.base import ContainerUsage
from sidecar.resizer.docker.resizer import DockerResizer, undo_docker
from tests.sidecar.resizer.dockers import (
    BURN,
    Run,
    begin,
    beginning,
    cores,
    eventually,
    group,
    in_force,
    new_name,
    refusal,
    throttled,
)

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]
FREE, BOUND = 0.13, 0.1
"""Cores that a burner gets among others on the machine, and at most when it is bounded to 0.05."""


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def resizer(dockerd: Dockerd, records: Path) -> Iterator[DockerResizer]:
    resizer = DockerResizer(dockerd.url, records)
    yield resizer
    resizer.close()
    assert list(records.glob("*")) == []


@pytest.fixture
def run(dockerd: Dockerd) -> Iterator[Run]:
    with beginning(dockerd) as run:
        yield run


@pytest.mark.alone  # a burner beside clusters gets no more than when it is bounded
@pytest.mark.parametrize("options", [(), ("--cpus=0.8",)])
def test_cpu_falls_to_the_bound_and_rises_again(resizer: DockerResizer, run: Run, options: tuple[str, ...]) -> None:
    cid, leader = run(BURN, *options)
    resizer.attach(cid, leader)
    assert eventually(lambda: cores(leader) > FREE)
    resizer.shrink(cid, 0.05)
    before = throttled(leader)
    assert 0 < cores(leader) < BOUND
    assert throttled(leader) > before
    resizer.restore(cid)
    assert eventually(lambda: cores(leader) > FREE)


@pytest.mark.parametrize(
    ("options", "quota_us"),
    [
        ((), 5000),
        (("--cpus=0.5",), 5000),
        (("--cpus=0.03",), 3000),  # never more than it had
        (("--cpus=0.5", "--cpu-shares=700"), 5000),
        (("--cpu-quota=30000", "--cpu-period=50000"), 2500),
        (("--cpu-quota=30000",), 5000),
        (("--cpu-period=20000",), 1000),
        (("--cpu-period=10000",), 1000),  # the kernel takes no less
        (("--cpu-shares=512",), 5000),
        (("--cpu-quota=-1",), 5000),
    ],
)
def test_restore_gives_back_exactly_what_was_there(
    resizer: DockerResizer, run: Run, options: tuple[str, ...], quota_us: int
) -> None:
    cid, leader = run("sleep 1000", *options)
    before, docker = in_force(leader), resizer.engine.find(cid, cid)
    resizer.attach(cid, leader)
    assert in_force(leader) == before
    for _ in range(2):
        resizer.shrink(cid, 0.05)
        assert group(leader).quota_us() == quota_us
        assert group(leader).shares() in (2, None)
        assert resizer.holds(cid)
        resizer.restore(cid)
        assert in_force(leader) == before
        assert resizer.holds(cid)
    resizer.shrink(cid, 0.05)
    resizer.detach(cid)
    assert in_force(leader) == before
    after = resizer.engine.find(cid, cid)
    assert docker is not None and after is not None
    assert (after.limits.nano_cpus, after.limits.cpu_period) == (docker.limits.nano_cpus, docker.limits.cpu_period)
    assert max(after.limits.cpu_quota, 0) == max(docker.limits.cpu_quota, 0)


def test_a_paused_container_stands_still_and_goes_on(resizer: DockerResizer, run: Run) -> None:
    cid, leader = run(BURN)
    resizer.attach(cid, leader)
    resizer.freeze(cid)
    resizer.freeze(cid)
    assert cores(leader, 0.5) == 0
    assert resizer.holds(cid)
    resizer.restore(cid)
    assert eventually(lambda: cores(leader) > FREE)
    resizer.freeze(cid)
    resizer.shrink(cid, 0.05)  # it goes on, within the bound
    assert 0 < cores(leader) < BOUND
    resizer.freeze(cid)
    resizer.detach(cid)
    assert group(leader).frozen() is False
    assert group(leader).quota_us() == -1


def test_what_its_bound_has_stopped_can_be_paused_too(resizer: DockerResizer, run: Run) -> None:
    cid, leader = run(f"for i in 1 2 3; do ({BURN}) & done; wait")
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.05)
    for _ in range(10):
        resizer.freeze(cid)
        assert group(leader).frozen() and group(leader).quota_us() == 5000
        assert cores(leader, 0.1) == 0
        resizer.shrink(cid, 0.05)
        time.sleep(0.2)


def test_forks_are_bounded_and_counted_together(resizer: DockerResizer, run: Run) -> None:
    cid, leader = run(f"for i in 1 2 3 4; do ({BURN}) & done; (sleep 1; for i in 1 2 3; do ({BURN}) & done); wait")
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.2)
    assert eventually(lambda: len(psutil.Process(leader.pid).children(recursive=True)) >= 7)
    began_s, before = time.monotonic(), resizer.usage(cid)
    by_kernel = cores(leader, 2.0)
    after, took_s = resizer.usage(cid), time.monotonic() - began_s
    assert 0 < by_kernel < 0.3
    assert before.cpu_s is not None and after.cpu_s is not None and after.memory_mb is not None
    assert (after.cpu_s - before.cpu_s) / took_s == pytest.approx(by_kernel, abs=0.08)
    assert 0 <= after.memory_mb < 100


def test_usage_counts_from_attaching_and_sees_memory(resizer: DockerResizer, run: Run) -> None:
    cid, leader = run("x=$(yes | head -c 60000000); sleep 1000")
    assert eventually(lambda: (group(leader).memory_mb() or 0) >= 50)
    resizer.attach(cid, leader)
    usage = resizer.usage(cid)
    assert usage.cpu_s is not None and usage.cpu_s < 1
    assert usage.memory_mb is not None and usage.memory_mb >= 50
    resizer.detach(cid)
    assert resizer.usage(cid) == ContainerUsage(None, None)


@pytest.mark.parametrize("paused", [False, True])
def test_a_container_that_is_removed_in_the_middle_is_gone(
    dockerd: Dockerd, resizer: DockerResizer, records: Path, paused: bool
) -> None:
    cid, leader = begin(dockerd, "sleep 1000")
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.1)
    if paused:
        resizer.freeze(cid)
    dockerd.docker("rm", "--force", cid)
    for error in (refusal(resizer.shrink, cid, 0.2), refusal(resizer.restore, cid), refusal(resizer.reassert, cid)):
        assert error.gone
    assert resizer.usage(cid) == ContainerUsage(None, None)
    undo = resizer.undo(cid)
    resizer.detach(cid)
    assert list(records.glob("*")) == []
    undo_docker(undo)


def test_a_container_whose_program_ended_is_gone(dockerd: Dockerd, resizer: DockerResizer, run: Run) -> None:
    cid, leader = run("sleep 1000")
    resizer.attach(cid, leader)
    os.kill(leader.pid, signal.SIGKILL)
    assert eventually(lambda: dockerd.docker("inspect", "--format", "{{.State.Status}}", cid) == "exited")
    assert refusal(resizer.freeze, cid).gone
    assert refusal(resizer.shrink, cid, 0.1).gone
    resizer.detach(cid)
    assert refusal(resizer.attach, cid, leader).gone


def test_one_that_is_still_beginning_may_be_tried_again(dockerd: Dockerd, resizer: DockerResizer, run: Run) -> None:
    _, leader = run("sleep 1000")
    cid = new_name()
    absent = refusal(resizer.attach, cid, leader)
    assert absent.retriable and not absent.gone
    dockerd.docker("create", f"--name={cid}", "--network=none", BUSYBOX_IMAGE, "sleep", "1000")
    try:
        assert refusal(resizer.attach, cid, leader).retriable
        dockerd.docker("start", cid)
        resizer.attach(cid, leader)
        resizer.attach(cid, leader)
        resizer.detach(cid)
    finally:
        dockerd.docker("rm", "--force", cid)


def test_what_somebody_else_paused_is_left_alone(dockerd: Dockerd, resizer: DockerResizer, run: Run) -> None:
    cid, leader = run("sleep 1000")
    dockerd.docker("pause", cid)
    error = refusal(resizer.attach, cid, leader)
    assert error.retriable and "paused" in str(error)
    dockerd.docker("unpause", cid)
    resizer.attach(cid, leader)
    dockerd.docker("pause", cid)
    assert "already paused" in str(refusal(resizer.freeze, cid))
    resizer.shrink(cid, 0.1)
    resizer.detach(cid)
    assert group(leader).frozen()
    assert group(leader).quota_us() == -1
    dockerd.docker("unpause", cid)


def test_what_somebody_else_unpaused_goes_on_and_can_be_paused_again(
    dockerd: Dockerd, resizer: DockerResizer, run: Run
) -> None:
    cid, leader = run("sleep 1000")
    resizer.attach(cid, leader)
    resizer.freeze(cid)
    dockerd.docker("unpause", cid)
    assert not resizer.holds(cid)
    resizer.reassert(cid)
    assert resizer.holds(cid) and group(leader).frozen()
    dockerd.docker("unpause", cid)
    resizer.restore(cid)
    assert not group(leader).frozen()


@pytest.mark.parametrize("options", [(), ("--cpus=0.5",)])
def test_rewritten_limits_are_seen_and_written_again(
    dockerd: Dockerd, resizer: DockerResizer, run: Run, options: tuple[str, ...]
) -> None:
    cid, leader = run("sleep 1000", *options)
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.05)
    dockerd.docker("update", *(["--cpus=0.4"] if options else ["--cpu-quota=40000"]), cid)
    assert not resizer.holds(cid)
    resizer.reassert(cid)
    assert resizer.holds(cid) and group(leader).quota_us() == 5000
    (group(leader).cpu / "cpu.cfs_quota_us").write_text("50000")  # past the daemon
    assert not resizer.holds(cid)
    resizer.shrink(cid, 0.05)
    assert group(leader).quota_us() == 5000


def test_a_group_below_one_of_yarn_is_found(dockerd: Dockerd, resizer: DockerResizer, run: Run) -> None:
    parent = f"{dockerd.cgroup_parent}/hadoop-yarn/{new_name()}"  # as LinuxContainerExecutor asks for
    cid, leader = run(BURN, f"--cgroup-parent={parent}")
    resizer.attach(cid, leader)
    assert group(leader).cpu.parent.name == Path(parent).name
    resizer.shrink(cid, 0.05)
    assert resizer.holds(cid)
    assert 0 < cores(leader) < BOUND
    resizer.detach(cid)
    assert group(leader).quota_us() == -1


def test_many_threads_share_a_resizer(resizer: DockerResizer, run: Run) -> None:
    containers = [run("sleep 1000") for _ in range(8)]

    def to_and_fro(number: int) -> None:
        cid, leader = containers[number]
        resizer.attach(cid, leader)
        for _ in range(5):
            resizer.shrink(cid, 0.05)
            resizer.freeze(cid)
            resizer.restore(cid)
        resizer.shrink(cid, 0.1 + number / 100)

    with ThreadPoolExecutor(len(containers)) as pool:
        list(pool.map(to_and_fro, range(len(containers))))
    quotas = [group(leader).quota_us() for _, leader in containers]
    assert quotas == [10_000 + 1000 * number for number in range(len(containers))]
    assert all(resizer.holds(cid) for cid, _ in containers)
