"""Emulated nodes report their master keys again and again, as tracker relays do."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from hadoop_rpc.protos.yarn_server_pb2 import MasterKeyProto
from quicksilver_lab.bench.emulator import emulated_quicksilver
from quicksilver_lab.bench.emulator.emulated_quicksilver import EmulatedQuicksilver
from quicksilver_lab.bench.emulator.reports import Traffic
from quicksilver_lab.bench.emulator.rm import NodeShape

EVERY_S = 0.05


class Stack:
    """The proxy's REST; it takes keys, but for those of one node at one time."""

    url = "http://proxy"

    def __init__(self) -> None:
        self.processes = {"proxy": SimpleNamespace(poll=lambda: None)}
        self.calls: Counter[str] = Counter()

    def get(self, _path: str) -> dict[str, Any]:
        return {"items": [{"usable": True}] * 2}

    def call(self, method: str, url: str, json: dict[str, Any]) -> Any:
        assert method == "POST" and json["container"]["key_id"] == 7 and json["rm_identifier"] == 5
        self.calls[url] += 1
        if self.calls[url] == 2:
            raise requests.ConnectionError("gone for a moment")
        return SimpleNamespace(raise_for_status=lambda: None)


@pytest.mark.parametrize("own_grants", [True, False])
def test_keys_are_reported_at_the_start_and_again_until_the_end(
    own_grants: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated_quicksilver, "EVERY_S", EVERY_S)
    stack: Any = Stack()
    key = MasterKeyProto(key_id=7, bytes=b"8 bytes.")
    wiring: Any = SimpleNamespace(traffic=Traffic())
    tracker: Any = SimpleNamespace(container_key=key, nm_token_key=key, rm_identifier=5)
    instance = EmulatedQuicksilver(
        stack, NodeShape(), wiring, own_grants, trackers={"one:1": tracker, "two:1": tracker}
    )

    async def story() -> None:
        await instance.start(2)
        assert sum(stack.calls.values()) == (2 if own_grants else 0)
        await asyncio.sleep(5 * EVERY_S)
        await instance.close()

    asyncio.run(story())
    if own_grants:
        assert set(stack.calls) == {f"http://proxy/v1/nodes/{node}/keys" for node in ("one:1", "two:1")}
        assert min(stack.calls.values()) > 2, "also after one that failed"
        assert wiring.traffic.refused == 2
    else:
        assert not stack.calls
