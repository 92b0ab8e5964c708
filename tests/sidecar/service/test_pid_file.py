"""Which process a container's pid file may name: whoever can write the file must not steer root with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.resizer.cgroup import files
from sidecar.resizer.cgroup.v1_mounts import hierarchies
from sidecar.resizer.processes import look
from sidecar.service.processes.pid_file import PidFile, PrivateFolder, doubt, read_pid_file
from sidecar.service.processes.process_watch import ProcessWatcher
from tests.sidecar.fakes import APP, cid
from tests.sidecar.resizer.containers import needs_cgroup1, wait_until
from tests.sidecar.service.test_server import until

NOBODY, SUBMITTER = 65534, 65533
ID = f"CONTAINER_ID={cid(2)}"
STARTS_AND_ENDS = """
import subprocess, sys
child = subprocess.Popen(sys.argv[2:], start_new_session=True, user=int(sys.argv[1]), stdout=subprocess.DEVNULL)
print(child.pid)
"""
BECOMES_ONE = f"""
import os, sys
sys.stdin.read(1)
os.setuid({SUBMITTER})
os.execve('/bin/sleep', ['sleep', '1000'], {{'CONTAINER_ID': '{cid(2)}'}})
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as other users")


@contextmanager
def process(uid: int, *environment: str, session: bool = True, parent_ends: bool = False) -> Iterator[int]:
    """Run a process of a user; with `parent_ends` it descends from init, as after a restart of its NodeManager."""
    command = ["env", "-i", *environment, "sleep", "1000"]
    if parent_ends:
        pid = int(subprocess.check_output([sys.executable, "-c", STARTS_AND_ENDS, str(uid), *command]))
        end: Callable[[], None] = lambda: os.kill(pid, 9)  # noqa: E731
    else:
        child = subprocess.Popen(command, start_new_session=session, user=uid)
        pid, end = child.pid, lambda: end_session(child)
    try:
        wait_until(lambda: (Path(f"/proc/{pid}/comm").read_text()) == "sleep\n", "the command")
        yield pid
    finally:
        end()


def end_session(child: subprocess.Popen[bytes]) -> None:
    """End a process and take note of its end."""
    child.kill()
    child.communicate()


def why(pid: int, owner: int, sent_s: float = 0.0) -> str:
    """Return why a process is doubted that a file of `owner` names."""
    found = look(pid)
    assert found is not None
    return doubt(PidFile(pid, time.time(), owner), found, cid(2), sent_s)


@needs_root
def test_the_file_of_another_user_does_not_name_processes_of_root() -> None:
    with process(0) as pid:
        assert "another user's" in why(pid, NOBODY)


@needs_root
@pytest.mark.parametrize("parent_ends", [False, True], ids=["child", "after a NodeManager's restart"])
def test_containers_of_every_executor_are_believed(parent_ends: bool) -> None:
    with process(NOBODY, parent_ends=parent_ends) as default_executor:
        assert why(default_executor, NOBODY) == ""
    with process(SUBMITTER, ID, "B=1", parent_ends=parent_ends) as linux_executor:
        assert why(linux_executor, NOBODY) == ""
    with process(0, "A=1", ID, parent_ends=parent_ends) as first_of_docker:
        assert why(first_of_docker, NOBODY) == ""


@needs_root
@pytest.mark.parametrize("said", [f"{ID}9", f"X{ID}", "CONTAINER_ID=", f"A={ID}"])
def test_the_environment_has_to_name_this_very_container(said: str) -> None:
    with process(SUBMITTER, said) as pid:
        assert "another user's" in why(pid, NOBODY)


@pytest.mark.cgroup
@needs_root
def test_the_nodemanager_s_control_group_names_it_too() -> None:
    """A command of LinuxContainerExecutor that has cleared its environment."""
    needs_cgroup1()
    top = hierarchies()["cpu"].mount / f"pid-file-{os.getpid()}"
    with process(SUBMITTER) as pid:
        assert why(pid, NOBODY) != ""
        try:
            for name, believed in ((f"{cid(2)}0", False), (cid(2), True)):
                (top / name).mkdir(parents=True)
                files.write(top / name / "cgroup.procs", str(pid), "")
                assert (why(pid, NOBODY) == "") is believed
        finally:
            files.write(top.parent / "cgroup.procs", str(pid), "")
            files.remove_empty([top / f"{cid(2)}0", top / cid(2), top])


def test_a_process_without_a_session_or_older_than_the_container_is_doubted() -> None:
    me = os.geteuid()
    with process(me, session=False) as pid:
        assert why(pid, me) == "it leads no session"
    with process(me) as pid:
        assert why(pid, me, time.time()) == ""
        assert why(pid, me, time.time() + 60) == "it is older than the container"


def written(folder: Path, text: str = "1\n") -> Path:
    """Write a container's pid file."""
    path = folder / "nmPrivate" / APP / cid(2) / f"{cid(2)}.pid"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def content(local_dir: Path) -> PidFile | None:
    """Return what a container's pid file says."""
    with PrivateFolder(local_dir) as private:
        return read_pid_file(private, APP, cid(2))


def test_a_pid_file_is_read(tmp_path: Path) -> None:
    assert content(tmp_path) is None
    path = written(tmp_path, "4711\n")
    assert content(tmp_path) == PidFile(4711, path.stat().st_mtime, os.geteuid())
    path.write_text("47x\n")
    assert content(tmp_path) is None


def test_the_files_of_several_applications_are_read_and_no_descriptor_is_left(tmp_path: Path) -> None:
    written(tmp_path, "4711\n")
    own = tmp_path / "nmPrivate" / "application_2" / "container_2"
    own.mkdir(parents=True)
    (own / "container_2.pid").write_text("12\n")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with PrivateFolder(tmp_path) as private:
        files = [
            read_pid_file(private, app, name) for app, name in ((APP, cid(2)), ("application_2", "container_2")) * 2
        ]
        assert [file and file.pid for file in files] == [4711, 12, 4711, 12]
        assert read_pid_file(private, "application_3", cid(2)) is None
        assert read_pid_file(private, APP, cid(3)) is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("level", range(4))
def test_no_symbolic_link_is_followed(tmp_path: Path, level: int) -> None:
    path = written(tmp_path / "real")
    link = (path, *path.parents)[level]
    link.rename(tmp_path / "moved")
    link.symlink_to(tmp_path / "moved")
    assert path.read_text() == "1\n"
    assert content(tmp_path / "real") is None


def test_a_pipe_does_not_stop_the_sidecar_and_a_hard_link_is_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    os.link(path, tmp_path / "other")
    assert content(tmp_path) is None
    path.unlink()
    os.mkfifo(path)
    assert content(tmp_path) is None


NUMBERS = ("0", "00", "-1", "4194305", "2147483648", "9" * 20, "9" * 64, "\u00b2", "1 2", "")


@pytest.mark.parametrize("text", NUMBERS)
def test_a_number_that_no_process_has_names_none(tmp_path: Path, text: str) -> None:
    written(tmp_path, f"{text}\n")
    assert content(tmp_path) is None


@pytest.mark.parametrize("text", [*NUMBERS, "link"])
async def test_one_container_s_pid_file_hides_no_other_container(tmp_path: Path, text: str) -> None:
    """It ended the look at all that were looked at after it, or had the sidecar believe that none can be read."""
    bad, found = written(tmp_path, f"{text}\n"), list[str]()
    if text == "link":
        bad.unlink()
        bad.symlink_to(tmp_path)

    with process(os.geteuid()) as pid:
        good = bad.parents[1] / cid(3) / f"{cid(3)}.pid"
        good.parent.mkdir()
        good.write_text(f"{pid}\n")
        watcher = ProcessWatcher((tmp_path,), 0.01, lambda name: None, lambda name, pid, began_s: found.append(name))
        watcher.watch(cid(2), APP)
        watcher.watch(cid(3), APP)
        await until(lambda: bool(found))
        assert (found, watcher.unseen(), watcher.blind) == ([cid(3)], 1, "")
        watcher.close()


@needs_root
async def test_a_leader_is_found_when_it_becomes_one_and_a_stranger_never(tmp_path: Path) -> None:
    """The executor writes the number first, and changes user and program afterwards."""
    found: list[str] = []
    command = [sys.executable, "-c", BECOMES_ONE]
    child = subprocess.Popen(command, start_new_session=True, stdin=subprocess.PIPE)  # noqa: ASYNC220 nobody waits yet
    os.chown(written(tmp_path, f"{child.pid}\n"), NOBODY, NOBODY)

    try:
        watcher = ProcessWatcher((tmp_path,), 0.01, lambda name: None, lambda name, pid, began_s: found.append(name))
        watcher.watch(cid(2), APP)
        watched = watcher._watched[cid(2)]
        await until(lambda: watched.doubted_s is not None)
        assert (found, watcher.unseen(), watcher.blind) == ([], 1, "")
        assert child.stdin is not None
        child.stdin.write(b"1")
        child.stdin.flush()
        await until(lambda: bool(found))
        assert watcher.pid(cid(2)) == child.pid
        watcher.close()
    finally:
        end_session(child)
