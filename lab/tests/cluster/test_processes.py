"""Processes are ended by what they are, not by a number that may belong to another one by now."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quicksilver_lab.cluster.processes import ProcessId, containers_below, is_alive, kill, spawn, stop

SLEEP = ["/bin/sleep", "60"]


def start(tmp_path: Path, argv: list[str], **env: str) -> ProcessId:
    return spawn(argv, tmp_path, {"PATH": os.environ["PATH"], **env}, tmp_path / "log")


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_runs_in_its_session_and_folder_logs_and_ends(tmp_path: Path) -> None:
    process = start(tmp_path, ["/bin/sh", "-c", "pwd; echo complaint >&2; exec sleep 60"])
    assert is_alive(process)
    assert os.getsid(process.pid) == process.pid
    wait_for(lambda: (tmp_path / "log").read_text() == f"{tmp_path}\ncomplaint\n")
    stop([process], grace_s=5)
    assert not is_alive(process)


def test_one_that_ignores_the_request_is_killed_after_the_grace(tmp_path: Path) -> None:
    process = start(tmp_path, ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"])
    wait_for(lambda: "ready" in (tmp_path / "log").read_text())
    stop([process], grace_s=0.3)
    assert not is_alive(process)


def test_one_that_is_killed_gets_no_chance_and_is_gone_at_return(tmp_path: Path) -> None:
    process = start(tmp_path, ["/bin/sh", "-c", "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done"])
    wait_for(lambda: "ready" in (tmp_path / "log").read_text())
    kill(process)
    assert not is_alive(process)
    assert (tmp_path / "log").read_text() == "ready\n"
    kill(process)


def test_a_recycled_pid_is_left_alone(tmp_path: Path) -> None:
    process = start(tmp_path, SLEEP)
    earlier = process._replace(start_ticks=process.start_ticks - 1)
    before_boot = process._replace(boot_id="another")
    stop([earlier, before_boot], grace_s=0.1)
    assert not is_alive(earlier)
    assert not is_alive(before_boot)
    assert is_alive(process)
    stop([process], grace_s=5)


@pytest.mark.parametrize("known_by", ["folder", "environment"])
def test_containers_are_found_with_their_whole_session(tmp_path: Path, known_by: str) -> None:
    local, elsewhere = tmp_path / "local" / "node1" / "usercache", tmp_path / "elsewhere"
    local.mkdir(parents=True)
    elsewhere.mkdir()
    script = ["/bin/sh", "-c", "cd / && sleep 61 & exec sleep 60"]
    env = {"LOCAL_DIRS": f"{local},/other"} if known_by == "environment" else {}
    container = start(elsewhere if env else local, script, **env)
    stranger = start(elsewhere, SLEEP)
    wait_for(lambda: len(containers_below(tmp_path / "local")) == 2)
    found = containers_below(tmp_path / "local")
    assert container in found
    assert stranger not in found
    stop([*found, stranger], grace_s=5)
    assert containers_below(tmp_path / "local") == []


def test_a_process_whose_first_thread_ended_is_alive_as_long_as_the_others(tmp_path: Path) -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(1.0))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    started = spawn([sys.executable, "-c", program], tmp_path, dict(os.environ), tmp_path / "log")
    deadline = time.monotonic() + 60
    while Path(f"/proc/{started.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert is_alive(started)
    while is_alive(started):
        assert time.monotonic() < deadline
        time.sleep(0.01)
