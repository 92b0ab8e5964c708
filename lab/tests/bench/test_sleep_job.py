from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from quicksilver_lab.bench import sleep_job


def test_a_resourcemanager_that_never_answers_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleep_job, "_CALL_S", 0.2)

    async def story(address: tuple[str, int]) -> None:
        cluster: Any = SimpleNamespace(spec=SimpleNamespace(rm_client=address, scheduler=address))
        async with sleep_job.job(cluster, "waits"):
            pytest.fail("it was accepted")

    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        asyncio.run(story(silent.getsockname()))
