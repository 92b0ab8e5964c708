import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from quicksilver.process.supervisor import FIRST_PAUSE_S, MAX_PAUSE_S, pause_s
from quicksilver_lab.cluster.ports import free_port

SERVER = """
import os, signal, socket, sys
from quicksilver.common.process import fdstore
port = int(sys.argv[1])
kept = fdstore.take("words")
if kept:
    listen = kept[0]
else:
    listen = socket.create_server(("127.0.0.1", port))
    fdstore.store("words", listen)
listen.setblocking(True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
signal.signal(signal.SIGHUP, lambda *_: print("hung up", flush=True))
fdstore.ready()
while True:
    connection, _ = listen.accept()
    with connection:
        word = connection.recv(100)
        connection.sendall(f"{os.getpid()} {'kept' if kept else 'new'}".encode())
    if word == b"die":
        os._exit(3)
"""
SUPERVISE = (
    "import sys; from quicksilver.process.supervisor import Supervisor; sys.exit(Supervisor(sys.argv[1:]).run())"
)
WAIT_S = 60.0


@contextmanager
def supervisor(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)


def child(process: subprocess.Popen[str]) -> int:
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        children = psutil.Process(process.pid).children()
        if children:
            return children[0].pid
        time.sleep(0.01)
    raise AssertionError("no child")


def ask(port: int, word: str = "hello") -> tuple[int, str]:
    """Say a word to the server, once it is there; returns its pid, and where its socket is from."""
    until_s = time.monotonic() + WAIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
                sock.sendall(word.encode())
                pid, origin = sock.recv(100).decode().split()
                return int(pid), origin
        except ConnectionRefusedError:
            assert time.monotonic() < until_s
            time.sleep(0.01)


def connect(port: int) -> socket.socket:
    """Connect, which must not be refused."""
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until_s = time.monotonic() + WAIT_S
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_pauses_grow_from_the_second_failure() -> None:
    assert [pause_s(n) for n in range(5)] == [0, 0, FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pause_s(1000) == MAX_PAUSE_S


def test_who_connects_while_nobody_serves_waits() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        first, origin = ask(port)
        assert origin == "new" and first == child(process)
        for _ in range(3):
            stop(child(process))  # connections are taken by the kernel alone now
            with connect(port) as sock:
                os.kill(child(process), signal.SIGKILL)
                sock.sendall(b"hello")
                pid, origin = sock.recv(100).decode().split()
            assert origin == "kept" and int(pid) != first


def test_a_command_that_ends_by_itself_is_started_again() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        first, _ = ask(port, "die")
        second, origin = ask(port)
        assert second != first and origin == "kept"
        process.terminate()
        assert process.wait(WAIT_S) == 0
        assert "ended with 3; restarting it" in process.communicate()[1]
    with pytest.raises(ConnectionRefusedError):
        connect(port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_being_asked_to_end_ends_both(number: signal.Signals) -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        pid, _ = ask(port)
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        assert not psutil.pid_exists(pid)


def test_an_upgrade_brings_a_new_process_with_the_same_socket() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        first, _ = ask(port)
        process.send_signal(signal.SIGUSR2)
        psutil.wait_procs([psutil.Process(first)], timeout=WAIT_S) if psutil.pid_exists(first) else None
        second, origin = ask(port)
        assert second != first and origin == "kept" and process.poll() is None


def test_hangups_go_to_the_command() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        ask(port)
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None and process.stdout.readline() == "hung up\n"


def test_a_first_start_that_fails_ends_the_supervisor_with_its_code() -> None:
    with supervisor(sys.executable, "-c", "import sys; sys.exit('no such address')") as process:
        assert process.wait(WAIT_S) == 1
        assert process.communicate()[1] == "no such address\n"
    with supervisor("/no/such/program") as process:
        assert process.wait(WAIT_S) == 127
        assert "/no/such/program: cannot be started" in process.communicate()[1]


def test_a_killed_supervisor_takes_its_command_with_it_and_the_address_is_free() -> None:
    port = free_port()
    with supervisor(sys.executable, "-c", SERVER, str(port)) as process:
        pid, _ = ask(port)
        gone = psutil.Process(pid)
        process.kill()
        assert not psutil.wait_procs([gone], timeout=WAIT_S)[1]
    with supervisor(sys.executable, "-c", SERVER, str(port)):
        assert ask(port)[1] == "new"


def test_sockets_of_others_are_not_kept(tmp_path: Path) -> None:
    meddler = f"""
import os, socket, subprocess, sys, time
from quicksilver.common.process import fdstore
kept = fdstore.names()
print(kept, flush=True)
if not kept:
    fdstore.store("mine", socket.create_server(("127.0.0.1", 0)))
    code = "import socket; from quicksilver.common.process.fdstore import store\\n"
    code += "store('theirs', socket.create_server(('127.0.0.1', 0)))"
    subprocess.run([sys.executable, "-c", code], check=True)
    fdstore.ready()
    os._exit(1)
fdstore.ready()
time.sleep({WAIT_S})
"""
    with supervisor(sys.executable, "-c", meddler) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["[]\n", "['mine']\n"]


HANGING = """
import sys
from quicksilver.common.process import fdstore, watchdog
fdstore.ready()
assert watchdog.alive()
print("up", flush=True)
def policy_without_end():
    while True:
        pass
policy_without_end() if sys.argv[1] == "loops" else sys.stdin.read()
"""
IMPATIENT = f"import quicksilver.process.supervisor as s; s.HANG_S, s.ABORT_S, s.LOOK_S = 2.0, 1.0, 0.2; {SUPERVISE}"


@pytest.mark.long
@pytest.mark.parametrize("how", ["loops", "is stopped"])
def test_a_command_that_hangs_is_ended_and_restarted(how: str) -> None:
    command = [sys.executable, "-c", IMPATIENT, sys.executable, "-c", HANGING, how]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
            (first,) = psutil.Process(process.pid).children()
            if how == "is stopped":
                first.suspend()
            assert process.stdout.readline() == "up\n", "another one began"
            assert not first.is_running()
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=WAIT_S)
    assert "hangs, silent for" in errors
    assert ("policy_without_end" in errors) == (how == "loops"), "its stack names what it hung in"


@pytest.mark.long
def test_a_command_that_never_reported_is_left_alone() -> None:
    silent = "import time; from quicksilver.common.process import fdstore; fdstore.ready(); time.sleep(4); print('up')"
    command = [sys.executable, "-c", IMPATIENT, sys.executable, "-c", silent]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "up\n"
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=WAIT_S)
    assert "hangs" not in errors
