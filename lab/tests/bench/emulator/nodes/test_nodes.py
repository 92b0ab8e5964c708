"""Many emulated nodes: their addresses, and what goes wrong at the start."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver_lab.bench.emulator.nodes.nm import NmCounts
from quicksilver_lab.bench.emulator.nodes.nodes import EmulatedNodes, NodeFailedError, NodeSettings, host_of


@given(st.lists(st.integers(0, 100_000), unique=True))
def test_each_node_has_a_loopback_address_of_its_own(numbers: list[int]) -> None:
    hosts = [host_of(number) for number in numbers]
    assert len(set(hosts)) == len(hosts)
    for host in hosts:
        parts = [int(part) for part in host.split(".")]
        assert parts[0] == 127 and all(0 <= part <= 255 for part in parts) and 1 <= parts[3] <= 250


def test_a_port_that_is_taken_is_named_and_nothing_stays_open() -> None:
    async def go(tracker: tuple[str, int], port: int) -> None:
        nodes = EmulatedNodes(NodeSettings(port=port))
        with pytest.raises(NodeFailedError, match=rf"127\.64\.0\.2:{port} cannot be listened on .*another port"):
            await nodes.start(3, tracker)
        with socket.create_server((host_of(0), port)):
            pass  # given back
        assert nodes.counts() == NmCounts()

    with socket.create_server(("127.0.0.1", 0)) as tracker, socket.create_server((host_of(1), 0)) as taken:
        asyncio.run(go(tracker.getsockname(), taken.getsockname()[1]))


def test_a_resource_manager_that_is_not_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        tracker = free.getsockname()
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(EmulatedNodes(NodeSettings()).start(2, tracker))
