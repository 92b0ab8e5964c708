"""Clusters on hosts of their own: three racks of four nodes, 20 ms and 1 % loss between racks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
import requests

from quicksilver_lab.cluster.hosts.cli import INSECURE
from quicksilver_lab.cluster.hosts.host_cluster import HostCluster, HostDaemons
from quicksilver_lab.cluster.hosts.host_spec import HostSpec

T = TypeVar("T")
CORES: Final = 2
"""Of each node."""
MARKS: Final = (pytest.mark.hadoop, pytest.mark.netns, pytest.mark.long, pytest.mark.timeout(590))
"""And `alone`: twelve NodeManagers, twelve sidecars and the way between racks want the whole machine."""
_POLL_S: Final = 0.2


def host_spec(workdir: Path, yarn: Mapping[str, str] | None = None, **settings: Any) -> HostSpec:
    """Return a cluster of three racks; `yarn`: properties of yarn-site.xml besides."""
    extra = {
        "yarn": dict(yarn or {}),
        "capacity-scheduler": {"yarn.scheduler.capacity.maximum-am-resource-percent": "1"},
    }
    return HostSpec(
        workdir=workdir,
        base_port=8000,
        node_vcores=CORES,
        node_memory_mb=2048,
        min_allocation_mb=256,
        resource_calculator="dominant",
        queues={"default": 100},
        extra_site=extra,
        **settings,
    )


@contextmanager
def host_daemons(cluster: HostCluster, **arguments: Any) -> Iterator[HostDaemons]:
    """Run proxies and sidecars of the default preset for the time of a with block."""
    sidecar = {"resizer": "none"} | arguments.pop("sidecar", {})
    sections = {**INSECURE, **arguments.pop("sections", {})}
    stack = HostDaemons(cluster, policies={}, sidecar=sidecar, sections=sections, supervised=False, **arguments)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()


def until(what: str, answer: Callable[[], T], within_s: float = 120.0) -> T:
    """Return the first true answer; an HTTP error counts as none. Raises AssertionError after `within_s`."""
    end_s = time.monotonic() + within_s
    last: object = None
    while True:
        try:
            if last := answer():
                return last
        except requests.RequestException as error:
            last = error
        assert time.monotonic() < end_s, f"{what}: not within {within_s:g} s; instead: {last}"
        time.sleep(_POLL_S)


def rack_of(cluster: HostCluster, node: str) -> str:
    """Return the rack of a node by its name."""
    assert isinstance(cluster.spec, HostSpec)
    return cluster.spec.network.hosts[node].rack_name


def sidecar_counts(stack: HostDaemons, metric: str) -> Counter[str]:
    """Return a counter of all sidecars by its labels."""
    counts = Counter[str]()
    for node in stack.cluster.spec.node_addresses:
        for line in requests.get(f"{stack.sidecar_rest(node).url}/metrics", timeout=10).text.splitlines():
            if line.startswith(f"{metric}{{"):
                name, value = line.rsplit(" ", 1)
                counts[name.removeprefix(metric)] += int(float(value))
    return counts
