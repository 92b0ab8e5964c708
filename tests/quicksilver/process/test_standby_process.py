"""A process that stands by to be the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from quicksilver_lab.cluster.ports import free_port
from tests.quicksilver.process.test_supervisor import SERVER, WAIT_S, ask

STANDBY = (
    "import sys; from quicksilver.process.supervisor import Supervisor; "
    "sys.exit(Supervisor(sys.argv[1:], use_standby=True).run())"
)
STANDING_BY = f"from quicksilver.process.standby_process import stand_by\nstand_by(lambda: None)\n{SERVER}"


@contextmanager
def supervisor(*command: str) -> Iterator[psutil.Process]:
    process = subprocess.Popen([sys.executable, "-c", STANDBY, *command], stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(WAIT_S)


def standby_of(supervising: psutil.Process, command: int) -> int:
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        others = [p.pid for p in supervising.children() if p.pid != command]
        if others:
            return others[0]
        time.sleep(0.01)
    raise AssertionError("no standby process")


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def gone(pid: int) -> bool:
    until_s = time.monotonic() + WAIT_S
    while psutil.pid_exists(pid) and time.monotonic() < until_s:
        time.sleep(0.01)
    return not psutil.pid_exists(pid)


def test_the_standby_takes_the_place_with_the_sockets_and_the_next_one_stands_by() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", STANDING_BY, str(port)) as supervising:
        command, _ = ask(port)
        for _ in range(2):
            standby = standby_of(supervising, command)
            os.kill(command, signal.SIGKILL)
            assert gone(command)
            assert ask(port) == (standby, "kept")
            command = standby


def loads(path: Path) -> list[str]:
    return path.read_text().splitlines()


LOADING = """
import os, sys, threading
from quicksilver.process.standby_process import stand_by
def load():
    with open(sys.argv[2], "a") as file:
        file.write(f"{os.getpid()}\\n")
    if len(sys.argv) > 3:
        threading.Thread(target=threading.Event().wait, daemon=True).start()
stand_by(load)
"""


def test_a_forked_standby_has_what_the_command_loaded(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "loads"
    with supervisor(sys.executable, "-c", LOADING + SERVER, str(port), str(path)) as supervising:
        first, _ = ask(port)
        command = first
        for _ in range(3):
            standby = standby_of(supervising, command)
            os.kill(command, signal.SIGKILL)
            assert gone(command)
            assert ask(port) == (standby, "kept")
            command = standby
        assert loads(path) == [str(first)]


def test_a_first_start_that_fails_leaves_no_standby_and_no_traceback() -> None:
    code = "import sys\nfrom quicksilver.process.standby_process import stand_by\nstand_by(lambda: None)\nsys.exit(3)"
    command = [sys.executable, "-c", STANDBY, sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)  # to the end of stderr
    assert (done.returncode, done.stderr) == (3, "")


def test_beside_threads_the_standby_loads_the_program_itself(tmp_path: Path) -> None:
    port, path = free_port(), tmp_path / "loads"
    with supervisor(sys.executable, "-c", LOADING + SERVER, str(port), str(path), "threads") as supervising:
        command, _ = ask(port)
        standby = standby_of(supervising, command)
        wait_for(lambda: loads(path) == [str(command), str(standby)])
        os.kill(command, signal.SIGKILL)
        assert gone(command)
        assert ask(port) == (standby, "kept")


def test_a_standby_does_not_hold_the_sockets_of_the_command() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", STANDING_BY, str(port)) as supervising:
        command, _ = ask(port)
        successor = standby_of(supervising, command)
        os.kill(command, signal.SIGKILL)
        assert gone(command)
        assert ask(port) == (successor, "kept")
        standby = psutil.Process(standby_of(supervising, successor))
        wait_for(lambda: not [c for c in standby.net_connections() if c.laddr and c.laddr[1] == port])


def test_what_the_command_leaves_behind_is_reaped() -> None:
    port = free_port()
    orphan = "import subprocess; left = subprocess.Popen(['sleep', '0.2'])\n"
    with supervisor(sys.executable, "-c", orphan + STANDING_BY, str(port)) as supervising:
        command, _ = ask(port)
        os.kill(command, signal.SIGKILL)
        assert gone(command)
        wait_for(lambda: "sleep" not in [child.name() for child in supervising.children()])


@pytest.mark.long
def test_an_upgrade_loads_the_program_anew() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", STANDING_BY, str(port)) as supervising:
        command, _ = ask(port)
        standby = standby_of(supervising, command)
        supervising.send_signal(signal.SIGUSR2)
        assert gone(standby)
        assert gone(command)
        after, origin = ask(port)
        assert after not in (command, standby)
        assert origin == "kept"


@pytest.mark.long
def test_a_standby_that_died_is_not_waited_for_and_no_process_is_left() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", STANDING_BY, str(port)) as supervising:
        command, _ = ask(port)
        standby = standby_of(supervising, command)
        os.kill(standby, signal.SIGKILL)
        assert gone(standby)
        os.kill(command, signal.SIGKILL)
        assert gone(command)
        after, origin = ask(port)
        assert after not in (command, standby)
        assert origin == "kept"
        left = [after, standby_of(supervising, after)]
    assert all(gone(pid) for pid in left)


def test_a_standby_of_the_proxy_has_loaded_all_of_it() -> None:
    code = "import sys; sys.argv = ['x', 'proxy', 'run']; from quicksilver.cli import load; load(); " + (
        "print('rm_proxy.service.process' in sys.modules, 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True True\n"
