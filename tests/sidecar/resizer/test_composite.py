"""Docker containers and others on one node, with a real daemon."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from quicksilver_lab.workloads.servers.dockerd import BUSYBOX_IMAGE, Dockerd
from sidecar.resizer.base import ContainerUsage, Leader
from sidecar.resizer.cgroup.v1 import Cgroup1
from sidecar.resizer.composite import DockerOr
from sidecar.resizer.docker.resizer import DockerResizer
from sidecar.resizer.processes import groups_of
from tests.sidecar.resizer.containers import PARENT, needs_cgroup1
from tests.sidecar.resizer.dockers import Run, begin, beginning, eventually, group, leader_of, new_name, refusal
from tests.sidecar.resizer.fake_resizer import Fake

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]
DOCKER_RUN = f"exec docker run --network=none --name $CONTAINER_ID {BUSYBOX_IMAGE} sleep 1000"


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Launched:
    """A launch script that waits for a line before it does anything."""

    process: subprocess.Popen[bytes]

    @property
    def leader(self) -> Leader:
        return Leader(self.process.pid, psutil.Process(self.process.pid).create_time())

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def either(dockerd: Dockerd, tmp_path: Path, clock: Clock) -> Iterator[DockerOr]:
    either = DockerOr(DockerResizer(dockerd.url, tmp_path / "records"), Fake(), clock)
    yield either
    assert either.parents() == []
    either.close()
    assert list((tmp_path / "records").glob("*")) == []


@pytest.fixture
def run(dockerd: Dockerd) -> Iterator[Run]:
    with beginning(dockerd) as run:
        yield run


@contextmanager
def launched(dockerd: Dockerd, script: str, name: str) -> Iterator[Launched]:
    """Run a script as DefaultContainerExecutor does, as the leader of a session."""
    env = {**os.environ, **dockerd.docker_cli_env, "CONTAINER_ID": name}
    command = ["bash", "-c", f"read go; {script}"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield Launched(process)
        finally:
            if name in dockerd.docker("ps", "--all", "--format", "{{.Names}}").split():
                dockerd.docker("rm", "--force", name)
            process.kill()


def test_docker_containers_go_to_docker_and_others_elsewhere(dockerd: Dockerd, either: DockerOr, run: Run) -> None:
    inside, leader = run("sleep 1000")
    either.attach(inside, leader)
    either.shrink(inside, 0.05)
    assert group(leader).quota_us() == 5000
    assert either.of(inside) is either.docker
    assert either.undo(inside)["resizer"] == "docker"
    outside = new_name()
    with launched(dockerd, "true", outside) as plain:
        either.attach(outside, plain.leader)
        either.shrink(outside, 0.05)
        assert either.of(outside) is either.fallback
        assert isinstance(either.fallback, Fake) and either.fallback.cores == {outside: 0.05}
        either.detach(outside)
    assert either.fallback.leaders == {}
    either.restore(inside)
    assert group(leader).quota_us() == -1
    either.detach(inside)
    assert either.usage(inside) == ContainerUsage(None, None) and not either.holds(inside)
    assert "not attached" in str(refusal(either.shrink, inside, 0.1))


def test_a_docker_run_without_its_container_is_waited_for(dockerd: Dockerd, either: DockerOr, tmp_path: Path) -> None:
    """The client is a stand-in that does nothing at first, so that the moment before is seen."""
    client = tmp_path / "docker"
    client.write_text("#!/bin/bash\nread go\n")
    client.chmod(0o755)
    cid = new_name()
    stand_in = f"exec -a docker bash {client} run --name $CONTAINER_ID image"
    with launched(dockerd, stand_in, cid) as script:
        script.go()
        assert eventually(lambda: psutil.Process(script.process.pid).cmdline()[:1] == ["docker"])
        error = refusal(either.attach, cid, script.leader)
        assert error.retriable and "docker run" in str(error)


def test_a_real_docker_run_ends_up_with_docker(dockerd: Dockerd, either: DockerOr) -> None:
    cid = new_name()
    with launched(dockerd, DOCKER_RUN, cid) as script:
        script.go()
        assert eventually(lambda: dockerd.docker("ps", "--quiet", "--filter", f"name={cid}") != "")
        either.attach(cid, script.leader)
        assert either.of(cid) is either.docker
        either.freeze(cid)
        assert group(leader_of(dockerd, cid)).frozen()
        either.detach(cid)
        assert not group(leader_of(dockerd, cid)).frozen()


@pytest.mark.parametrize("call", ["shrink", "freeze", "restore", ""])
def test_a_docker_container_that_appears_late_is_taken_over(
    dockerd: Dockerd, either: DockerOr, clock: Clock, call: str
) -> None:
    cid = new_name()
    with launched(dockerd, DOCKER_RUN, cid) as script:
        either.attach(cid, script.leader)  # the launch script has not come to its command
        assert either.of(cid) is either.fallback
        if call:
            getattr(either, call)(cid, *([0.05] if call == "shrink" else []))
        assert either.holds(cid)
        script.go()
        assert eventually(lambda: dockerd.docker("ps", "--quiet", "--filter", f"name={cid}") != "")
        assert not either.holds(cid)
        clock.now_s += 61
        assert either.holds(cid)  # nobody asks for ever
        clock.now_s -= 61
        either.reassert(cid)
        assert either.of(cid) is either.docker and either.holds(cid)
        assert isinstance(either.fallback, Fake) and either.fallback.leaders == {}
        limits = group(leader_of(dockerd, cid))
        assert limits.quota_us() == (5000 if call == "shrink" else -1)
        assert limits.frozen() is (call == "freeze")
        either.detach(cid)
        assert (limits.quota_us(), limits.frozen()) == (-1, False)


@pytest.mark.cgroup
def test_a_client_in_a_group_of_ours_leaves_it_when_docker_takes_over(dockerd: Dockerd, tmp_path: Path) -> None:
    needs_cgroup1()
    other = Cgroup1(f"{PARENT}-docker/node1")
    either = DockerOr(DockerResizer(dockerd.url, tmp_path / "records"), other)
    cid = new_name()
    with launched(dockerd, DOCKER_RUN, cid) as script:
        came_from = groups_of(script.process.pid)
        either.attach(cid, script.leader)
        assert either.of(cid) is other
        either.shrink(cid, 0.2)
        script.go()  # the client begins within the bound
        assert eventually(lambda: dockerd.docker("ps", "--quiet", "--filter", f"name={cid}") != "")
        assert not either.holds(cid)
        either.reassert(cid)
        assert groups_of(script.process.pid) == came_from
        assert group(leader_of(dockerd, cid)).quota_us() == 20_000
        assert either.holds(cid)
        either.close()
        assert group(leader_of(dockerd, cid)).quota_us() == -1
    assert list(Path("/sys/fs/cgroup").glob(f"*/{PARENT}-docker")) == []


def test_a_container_that_is_launched_again_is_taken_anew(dockerd: Dockerd, either: DockerOr, run: Run) -> None:
    cid, leader = run("sleep 1000")
    either.attach(cid, leader)
    either.attach(cid, leader)
    either.shrink(cid, 0.05)
    dockerd.docker("rm", "--force", cid)
    _, again = begin(dockerd, "sleep 1000", name=cid)
    either.attach(cid, again)
    assert either.holds(cid) and group(again).quota_us() == -1
    either.shrink(cid, 0.05)
    assert group(again).quota_us() == 5000


def test_without_a_daemon_only_docker_clients_are_refused(dockerd: Dockerd, tmp_path: Path) -> None:
    either = DockerOr(DockerResizer(f"unix://{tmp_path / 'nobody.sock'}", tmp_path / "records"), Fake())
    plain, client = new_name(), new_name()
    with launched(dockerd, "true", plain) as script:
        either.attach(plain, script.leader)
        assert either.of(plain) is either.fallback and either.holds(plain)
    with launched(dockerd, "exec -a docker bash -c 'read go; true' run --name $CONTAINER_ID", client) as script:
        script.go()
        assert eventually(lambda: psutil.Process(script.process.pid).cmdline()[:1] == ["docker"])
        error = refusal(either.attach, client, script.leader)
        assert error.retriable and "does not answer" in str(error)
