"""The private Docker daemon: it runs containers, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.servers.dockerd import BUSYBOX_IMAGE, Dockerd, missing, running_dockerd

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120), pytest.mark.skipif(missing() != "", reason=missing())]


@pytest.fixture
def folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="quicksilver-docker-"))
    folder.rmdir()
    return folder


def traces(daemon: Dockerd) -> dict[str, list[str]]:
    """Return what there is of a daemon on this machine."""
    name, own = daemon.cgroup_parent.lstrip("/"), str(daemon.folder)
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return {
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if own in line],
        "groups": [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{name}")],
        "processes": [" ".join(command) for command in commands if any(own in word for word in command)],
        "files": [own] if daemon.folder.exists() else [],
    }


def dead_sockets() -> set[str]:
    """Return the sockets of shims at which nobody listens; other daemons of this machine have living ones."""
    listening = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()}
    return {str(path) for path in Path("/run/containerd/s").glob("*")} - listening


@pytest.mark.parametrize("end", ["close", "killed", "live-restore", "error"])
def test_nothing_is_left(folder: Path, end: str) -> None:
    before = dead_sockets()
    try:
        with running_dockerd(folder, live_restore=end == "live-restore") as daemon:
            daemon.import_image()
            daemon.docker("run", "-d", "--network=none", BUSYBOX_IMAGE, "sh", "-c", "trap : TERM; sleep 1000")
            found = traces(daemon)
            assert all(found.values()), found
            if end == "killed":
                daemon.kill()
            if end == "error":
                daemon.docker("run", "no/such:image", "--pull=never")
    except WorkloadError as error:
        assert end == "error" and "docker run" in str(error)
    assert not any(traces(daemon).values()), traces(daemon)
    until_s = time.monotonic() + 5  # a shim of another daemon may begin or end between two looks
    while (new := dead_sockets() - before) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not new


def test_files_of_ones_own_are_in_the_image(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("some words")
    with running_dockerd(folder) as daemon:
        name = daemon.import_image("quicksilver/words", {"data/words": tmp_path / "words"})
        said = daemon.docker("run", "--rm", "--network=none", name, "cat", "/data/words")
    assert said == "some words"


def test_a_daemon_that_does_not_start_says_why(folder: Path) -> None:
    folder.mkdir()
    (folder / "pid").write_text(str(os.getpid()))  # as if another daemon ran there
    with pytest.raises(WorkloadError, match=r"does not run: .+pid file") as caught, running_dockerd(folder):
        pass
    assert str(folder / "dockerd.log") in str(caught.value)
    assert not folder.exists()


def test_a_path_too_long_for_sockets_is_told(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="too long"):
        Dockerd(tmp_path / ("x" * 60))
