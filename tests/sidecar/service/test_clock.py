"""What the sidecar does each second, and first of all: report to its supervisor that it works."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quicksilver.common.process import watchdog
from sidecar.node.events import Physical
from sidecar.service import server
from tests.sidecar.service.test_server import PATIENCE_S, until, world


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a supervisor, of which the environment says nothing yet."""
    monkeypatch.setattr(watchdog, "_connected", None)
    monkeypatch.setattr(server, "_TICK_S", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE_S)
        yield sock
    if watchdog._connected is not None:
        watchdog._connected.close()


async def test_each_tick_reports_that_the_sidecar_works(
    tmp_path: Path, inbox: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path):
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert [await asyncio.to_thread(inbox.recv, 100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        monkeypatch.delenv("NOTIFY_SOCKET")


async def test_each_tick_does_its_work(tmp_path: Path, inbox: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    done: Counter[str] = Counter()

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            done[name] += 1
            return work(*given)

        return counting

    async with world(tmp_path) as w:
        sidecar, journal = w.sidecar, w.sidecar.dispatcher.journal
        assert journal is not None
        put = sidecar.queue.put
        for name, owner, method in (
            ("report", watchdog, "alive"),
            ("settings", sidecar._reloader, "tick"),
            ("attained", journal, "write_attained"),
        ):
            monkeypatch.setattr(owner, method, counted(name, getattr(owner, method)))

        def watched(event: Any) -> None:
            done["memory"] += isinstance(event, Physical)
            put(event)

        monkeypatch.setattr(sidecar.queue, "put", watched)
        await until(lambda: done["attained"] >= 3)
        assert 10 <= done["settings"] <= 16, "the CPU time is recorded each fifth second"
        assert max(done.values()) == done["report"] <= min(done["settings"], done["memory"]) + 1
