"""Reports to a supervisor that a process does its work, and the units that expect them."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from quicksilver.common.process import watchdog
from quicksilver_apps.server import server as app_server
from sidecar.tracker.supervisor import Keeper
from tests.paths import ROOT
from tests.small_disk import no_descriptors


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a supervisor."""
    monkeypatch.setattr(watchdog, "_connected", None)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(30)
        yield sock
    if watchdog._connected is not None:
        watchdog._connected.close()


def test_a_report_needs_no_descriptor_after_the_first(inbox: socket.socket) -> None:
    assert watchdog.alive()
    with no_descriptors():
        assert watchdog.alive()
    assert [inbox.recv(100) for _ in range(2)] == [b"WATCHDOG=1"] * 2


def test_a_supervisor_that_does_not_read_blocks_nobody(inbox: socket.socket) -> None:
    while watchdog.alive():
        continue
    assert inbox.recv(100) == b"WATCHDOG=1" and watchdog.alive()


def test_a_supervisor_that_began_anew_is_found(inbox: socket.socket, tmp_path: Path) -> None:
    assert watchdog.alive()
    inbox.close()
    assert not watchdog.alive()
    (tmp_path / "notify").unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        assert watchdog.alive() and sock.recv(100) == b"WATCHDOG=1"


def test_without_one_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not watchdog.alive()


def test_the_app_server_reports(inbox: socket.socket) -> None:
    async def work() -> bytes:
        task = asyncio.create_task(app_server._report_alive())
        try:
            return await asyncio.to_thread(inbox.recv, 100)
        finally:
            task.cancel()

    assert asyncio.run(work()) == b"WATCHDOG=1"


def test_the_tracker_relay_reports(inbox: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper([], lambda life: None, 30.0)
    monkeypatch.setattr("sidecar.tracker.supervisor.os.waitpid", lambda pid, flags: (pid, 0))
    ours, theirs = socket.socketpair()
    theirs.close()
    assert keeper._keep(0, ours) == 0 and inbox.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("unit", sorted((ROOT / "hadoop-conf" / "systemd").glob("*.service")), ids=lambda p: p.stem)
def test_each_unit_expects_reports_and_leaves_no_core(unit: Path) -> None:
    text = unit.read_text()
    assert re.findall(r"^(?:Type|WatchdogSec|LimitCORE)=(.*)$", text, re.MULTILINE) == [
        "notify",
        f"{watchdog.SILENT_S:.0f}",
        "0",
    ]
