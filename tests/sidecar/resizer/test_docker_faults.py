"""What goes wrong around the Docker resizer: sidecars that die or meet, daemons that stop or hang, bad records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver_lab.workloads.servers.dockerd import Dockerd
from sidecar.resizer.docker.resizer import DockerResizer, undo_all, undo_docker
from tests.dockerd import private_dockerd
from tests.paths import ROOT
from tests.sidecar.resizer.dockers import (
    Run,
    begin,
    beginning,
    eventually,
    group,
    in_force,
    refusal,
)

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]


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


def test_two_sidecars_do_not_resize_one_container(
    dockerd: Dockerd, resizer: DockerResizer, records: Path, run: Run
) -> None:
    cid, leader = run("sleep 1000")
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.05)
    second = DockerResizer(dockerd.url, records)
    error = refusal(second.attach, cid, leader)
    assert error.retriable and "another sidecar" in str(error)
    undo_docker(resizer.undo(cid))  # a guardian does nothing either
    assert undo_all(records) == []
    assert group(leader).quota_us() == 5000
    resizer.detach(cid)
    second.attach(cid, leader)
    second.close()


_SIDECAR = """
import sys, time
from pathlib import Path
from sidecar.resizer.base import Leader
from sidecar.resizer.docker.resizer import DockerResizer
url, records, cid, pid = sys.argv[1:]
resizer = DockerResizer(url, Path(records))
resizer.attach(cid, Leader(int(pid), 0.0))
resizer.shrink(cid, 0.05)
resizer.freeze(cid)
print("shrunk", flush=True)
time.sleep(1000)
"""


def shrink_and_die(dockerd: Dockerd, records: Path, cid: str, pid: int) -> None:
    command = [sys.executable, "-c", _SIDECAR, dockerd.url, str(records), cid, str(pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "shrunk\n"
        process.kill()


@pytest.mark.parametrize("options", [(), ("--cpus=0.5", "--cpu-shares=300")])
@pytest.mark.parametrize("heir", ["guardian", "guardian's process", "next sidecar", "start"])
def test_a_killed_sidecar_leaves_what_to_give_back(
    dockerd: Dockerd, resizer: DockerResizer, records: Path, run: Run, options: tuple[str, ...], heir: str
) -> None:
    cid, leader = run("sleep 1000", *options)
    before = in_force(leader)
    shrink_and_die(dockerd, records, cid, leader.pid)
    assert group(leader).quota_us() == 5000 and group(leader).frozen()
    (record,) = records.glob("*")
    if heir == "guardian":
        undo_docker({"resizer": "docker", "record": str(record)})
    elif heir == "guardian's process":
        line = json.dumps({"put": cid, "undo": {"resizer": "docker", "record": str(record)}}) + "\n"
        command = [sys.executable, "-m", "sidecar.service.guardian", "test"]
        subprocess.run(command, input=line, text=True, cwd=ROOT, timeout=60, check=True)
    elif heir == "start":
        assert undo_all(records) == []
    else:
        resizer.attach(cid, leader)
        assert in_force(leader) == before and not group(leader).frozen()
        resizer.shrink(cid, 0.05)
        resizer.detach(cid)
    assert in_force(leader) == before and not group(leader).frozen()
    assert list(records.glob("*")) == []


def test_a_daemon_that_is_stopped_in_the_middle_refuses_and_says_so(records: Path) -> None:
    with private_dockerd() as daemon:
        resizer = DockerResizer(daemon.url, records)
        cid, leader = begin(daemon, "sleep 1000", "--stop-timeout=1")
        resizer.attach(cid, leader)
        resizer.shrink(cid, 0.1)
        daemon.stop()
        error = refusal(resizer.restore, cid)
        assert error.retriable and not error.gone
        assert f"{cid}: docker update CpuQuota=-1" in str(error) and daemon.url in str(error)
        assert refusal(resizer.detach, cid).retriable
        assert refusal(DockerResizer(daemon.url, records).attach, cid, leader).retriable
        daemon.start()
        assert refusal(resizer.restore, cid).gone  # it ended with the daemon
        resizer.close()
        assert list(records.glob("*")) == []


def test_containers_outlive_a_restart_of_the_daemon_and_stay_in_hand(records: Path) -> None:
    with private_dockerd(live_restore=True) as daemon:
        resizer = DockerResizer(daemon.url, records)
        cid, leader = begin(daemon, "sleep 1000", "--cpus=0.5")
        before = in_force(leader)
        resizer.attach(cid, leader)
        resizer.shrink(cid, 0.1)
        daemon.stop()
        assert resizer.holds(cid)
        assert resizer.usage(cid).cpu_s is not None
        assert refusal(resizer.freeze, cid).retriable
        daemon.start()
        resizer.freeze(cid)
        assert group(leader).frozen()
        resizer.close()
        assert in_force(leader) == before and not group(leader).frozen()


def test_a_daemon_that_hangs_refuses_in_time_and_what_it_did_late_is_seen(records: Path) -> None:
    with private_dockerd() as daemon:
        assert daemon.pid is not None
        resizer = DockerResizer(daemon.url, records, timeout_s=1.0)
        cid, leader = begin(daemon, "sleep 1000")
        resizer.attach(cid, leader)
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            for call in (lambda: resizer.shrink(cid, 0.05), lambda: resizer.freeze(cid)):
                error = refusal(call)
                assert error.retriable and "does not answer" in str(error)
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        assert eventually(lambda: group(leader).quota_us() == 5000 and bool(group(leader).frozen()))
        assert not resizer.holds(cid)
        resizer.engine.timeout_s = 30.0
        resizer.freeze(cid)  # it is paused, and by nobody else
        resizer.restore(cid)
        assert resizer.holds(cid)
        assert group(leader).quota_us() == -1 and not group(leader).frozen()
        resizer.close()


def test_a_folder_for_records_that_cannot_be_written_is_told(dockerd: Dockerd, tmp_path: Path, run: Run) -> None:
    (tmp_path / "file").write_text("")
    cid, leader = run("sleep 1000")
    resizer = DockerResizer(dockerd.url, tmp_path / "file" / "records")
    error = refusal(resizer.attach, cid, leader)
    assert "records" in str(error) and not error.retriable
    resizer.close()


def test_a_record_that_was_never_finished_is_no_record(resizer: DockerResizer, records: Path, run: Run) -> None:
    cid, leader = run("sleep 1000")
    docker = resizer.engine.find(cid, cid)
    assert docker is not None
    records.mkdir()
    (records / f"{docker.docker_id}.json").write_text('{"container_id": "cont')
    assert undo_all(records) == []
    assert list(records.glob("*")) == []
    (records / f"{docker.docker_id}.json").write_text("")
    resizer.attach(cid, leader)
    resizer.shrink(cid, 0.1)
    resizer.restore(cid)
    assert group(leader).quota_us() == -1


def test_the_sdk_is_not_loaded_before_it_is_used() -> None:
    code = "import sys, sidecar.resizer.docker.resizer as d; d.DockerResizer(); sys.exit('docker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
