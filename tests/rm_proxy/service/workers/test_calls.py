"""The worker of a REST call, by its first line."""

import pytest

from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.workers.front import worker_of_call

SPREAD = Spread(0, 2)
NODE = SPREAD.of_node("host1:8041")


@pytest.mark.parametrize(
    ("line", "worker"),
    [
        (b"GET /v1/nodes/host1:8041/reports HTTP/1.1", NODE),
        (b"POST /v1/nodes/host1%3A8041/report HTTP/1.1", NODE),
        (b"GET /gateway/v1/nodes/host1:8041?x=1 HTTP/1.1", NODE),
        (b"GET /v1/nodes?limit=3 HTTP/1.1", 0),
        (b"GET /v1/applications/application_17_0003 HTTP/1.1", 1),
        (b"GET /v1/containers/container_e04_17_0005_01_000002 HTTP/1.1", 1),
        (b"GET /v1/decisions?app=application_17_0004 HTTP/1.1", 0),
        (b"GET /metrics HTTP/1.1", 0),
        (b"GET /metrics?worker=1 HTTP/1.1", 1),
        (b"GET /v1/health?worker=7 HTTP/1.1", 1),
        (b"\x16\x03\x01 nonsense", 0),
    ],
)
def test_worker(line: bytes, worker: int) -> None:
    assert worker_of_call(line, SPREAD) == worker
