import array
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.common.process import fdstore
from quicksilver.common.process.listening import bound_socket


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What $NOTIFY_SOCKET names."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        sock.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        yield sock


def received(inbox: socket.socket) -> tuple[str, list[int]]:
    data, ancillary, _, _ = inbox.recvmsg(4096, socket.CMSG_SPACE(64))
    numbers = array.array("i")
    for _, kind, payload in ancillary:
        assert kind == socket.SCM_RIGHTS
        numbers.frombytes(payload)
    return data.decode(), list(numbers)


def test_messages_are_those_of_systemd(inbox: socket.socket) -> None:
    assert fdstore.ready()
    assert received(inbox) == ("READY=1", [])
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert fdstore.store("proxy-rest", sock)
        text, (number,) = received(inbox)
        with socket.socket(fileno=number) as copy:
            assert copy.getsockname() == sock.getsockname()
    assert text == "FDSTORE=1\nFDNAME=proxy-rest"
    assert fdstore.forget("proxy-rest")
    assert received(inbox) == ("FDSTOREREMOVE=1\nFDNAME=proxy-rest", [])


def test_without_a_keeper_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    with socket.socket() as sock:
        assert not fdstore.ready() and not fdstore.store("a", sock) and not fdstore.forget("a")


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "é", "x" * 256])
def test_names_are_those_that_systemd_takes(inbox: socket.socket, name: str) -> None:
    with socket.socket() as sock, pytest.raises(ValueError, match="no name of a kept socket"):
        fdstore.store(name, sock)


def in_a_new_process(script: str, sock: socket.socket, names: str, pid: str = "os.getpid()") -> str:
    """Run a script as systemd would start it, with one socket under `names`; returns what it printed."""
    start = f"""
        import os
        os.dup2({sock.fileno()}, 3)
        os.environ |= {{"LISTEN_PID": str({pid}), "LISTEN_FDS": "1", "LISTEN_FDNAMES": {names!r}}}
    """
    code = textwrap.dedent(start) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", code], pass_fds=[sock.fileno()], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


TAKE = """
    from quicksilver.common.process import fdstore
    (sock,) = fdstore.take("rest")
    print(sock.getsockname()[1], sock.get_inheritable(), fdstore.take("rest"), "LISTEN_FDS" in os.environ)
"""
BIND = """
    import sys
    from quicksilver.common.process.listening import bound_socket
    sock = bound_socket("127.0.0.1", int({port}), name="rest")
    print(sock.getsockname()[1], sock.fileno())
"""


def test_kept_sockets_are_taken_once_by_name() -> None:
    with bound_socket("127.0.0.1", 0) as sock:
        assert in_a_new_process(TAKE, sock, "rest") == f"{sock.getsockname()[1]} False [] False"


@pytest.mark.parametrize(("names", "pid"), [("other", "os.getpid()"), ("rest", "1")])
def test_sockets_of_another_name_or_process_are_left_alone(names: str, pid: str) -> None:
    script = 'from quicksilver.common.process import fdstore; print(fdstore.take("rest"), fdstore.names())'
    with bound_socket("127.0.0.1", 0) as sock:
        expected = "[] ['other']" if pid != "1" else "[] []"
        assert in_a_new_process(script, sock, names, pid) == expected


def test_what_is_no_socket_is_left_out() -> None:
    script = 'from quicksilver.common.process import fdstore; os.close(3); print(fdstore.take("rest"))'
    with bound_socket("127.0.0.1", 0) as sock:
        assert in_a_new_process(script, sock, "rest") == "[]"


def test_a_kept_socket_is_taken_over_where_the_address_is_still_the_same() -> None:
    with bound_socket("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        assert in_a_new_process(BIND.format(port=port), sock, "rest") == f"{port} 3"


def test_an_address_that_changed_closes_the_old_socket(inbox: socket.socket) -> None:
    with bound_socket("127.0.0.1", 0) as sock, bound_socket("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        other.close()
        assert in_a_new_process(BIND.format(port=port), sock, "rest").split()[0] == str(port)
    assert received(inbox) == ("FDSTOREREMOVE=1\nFDNAME=rest", [])
    text, (number,) = received(inbox)
    assert text == "FDSTORE=1\nFDNAME=rest"
    with socket.socket(fileno=number) as copy:
        assert copy.getsockname()[1] == port
