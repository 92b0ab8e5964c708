"""A whole proxy measures what its policies take: without a clock a slow one would never be off."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest

from rm_proxy.service import server
from tests.rm_proxy.service.test_estimates_kept import close, proxy


def test_calls_of_policies_are_measured_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class MeasuredError(Exception):
        """Ends the start."""

    def measured(clock: object) -> None:
        assert clock is time.monotonic
        raise MeasuredError

    async def start() -> None:
        process = proxy(tmp_path)
        try:
            with socket.socket() as listen, socket.socket() as rest:
                await process.start(listen, rest)
        finally:
            close(process)

    monkeypatch.setattr(server, "measure_calls", measured)
    with pytest.raises(MeasuredError):
        asyncio.run(start())
