"""The port of one server is free, and no connection of another process takes it in the meantime."""

import socket
from pathlib import Path

import pytest

from quicksilver_lab.cluster import ports
from quicksilver_lab.cluster.errors import PortInUseError


def test_a_port_is_none_that_linux_gives_to_whoever_connects() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    drawn = [ports.free_port() for _ in range(100)]
    assert len(set(drawn)) == 100
    assert max(drawn) < lowest


def test_processes_of_one_run_never_draw_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    drawn = {}
    for worker in ("gw0", "gw1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        drawn[worker] = {ports.free_port() for _ in range(200)}
    assert drawn["gw0"].isdisjoint(drawn["gw1"])


def test_one_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    first = ports.free_port()
    monkeypatch.setattr(ports, "_SINGLE_PORTS", range(first, first + 1))
    with socket.create_server(("127.0.0.1", first)), pytest.raises(PortInUseError, match="no free port between"):
        ports.free_port()
    assert ports.free_port() == first
