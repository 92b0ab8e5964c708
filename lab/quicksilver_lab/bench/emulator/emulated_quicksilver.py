"""Quicksilver on the emulated cluster: the proxy as a process of its own, a sidecar's machines at each node."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import requests

from policies.config.policy_set import Policies
from policies.model import Resources
from quicksilver_lab.bench.emulator.nodes.node import EmulatedNode
from quicksilver_lab.bench.emulator.nodes.nodes import Accept
from quicksilver_lab.bench.emulator.nodes.tracker import Tracker
from quicksilver_lab.bench.emulator.reports import Traffic
from quicksilver_lab.bench.emulator.rm import NodeShape
from quicksilver_lab.bench.emulator.site import EmulatedSite, Wiring
from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons, LocalDaemonsError
from sidecar.config import SidecarSettings
from sidecar.metrics import SidecarMetrics
from sidecar.tracker.key_sender import EVERY_S, message_of
from sidecar.tracker.relay import NodeKeysSeen, key_of

_OWN_GRANTS: Final = re.compile(r'^quicksilver_proxy_own_grants_total{result="(\w+)"} (\S+)$', re.MULTILINE)
_READY_S: Final = 90.0
_POLL_S: Final = 0.1


@dataclass(slots=True)
class EmulatedQuicksilver:
    """The proxy, which runs, and the sites of all nodes, as they are made."""

    stack: LocalDaemons
    shape: NodeShape
    wiring: Wiring
    own_grants: bool = False
    """Whether the proxy grants queueable containers itself, and gets the nodes' master keys."""
    sites: dict[str, EmulatedSite] = field(default_factory=dict)
    """By node id."""
    trackers: dict[str, Tracker] = field(default_factory=dict)
    """By node id: what knows the master keys."""
    _key_reports: asyncio.Task[None] | None = None

    @property
    def proxy_pid(self) -> int:
        """The proxy's process. Raises LocalDaemonsError when it ended."""
        pid = self.stack.pid("proxy")
        if pid is None:
            raise LocalDaemonsError("ended", place="proxy", remedy=f"read {self.stack.log('proxy')}")
        return pid

    def accept(self, node: EmulatedNode) -> Accept:
        """Put a site before a node; for `Nodes.start`."""
        believed = node.machine.capacity  # as a sidecar reads it in its NodeManager's configuration
        capacity = Resources(believed.memory_mb, self.shape.vcores)
        site = EmulatedSite(node.id, capacity, float(believed.vcores), node, self.wiring)
        node.observer = site
        self.sites[node.id], self.trackers[node.id] = site, node.tracker
        return site.client

    async def start(self, count: int) -> None:
        """Have the sites report; return when the proxy places containers at all of them. Raises LocalDaemonsError."""
        for node_id, site in self.sites.items():
            await site.start(node_id.rpartition(":")[0])
        await asyncio.to_thread(_await, self.stack, count)
        if self.own_grants and self.trackers:
            for node_id in self.trackers:
                await asyncio.to_thread(self._report_keys, node_id)
            self._key_reports = asyncio.create_task(self._report_keys_again(), name="master keys of the nodes")

    async def _report_keys_again(self) -> None:
        """Report each node's keys every EVERY_S: the proxy does not grant with old ones. Failures are counted."""
        while True:
            for node_id in self.trackers:
                await asyncio.sleep(EVERY_S / len(self.trackers))
                try:
                    await asyncio.to_thread(self._report_keys, node_id)
                except requests.RequestException:
                    self.wiring.traffic.refused += 1

    def _report_keys(self, node_id: str) -> None:
        """Send a node's master keys, as its tracker relay does. Raises requests.RequestException."""
        tracker = self.trackers[node_id]
        seen = NodeKeysSeen(node_id, key_of(tracker.container_key), key_of(tracker.nm_token_key), tracker.rm_identifier)
        url = f"{self.stack.url}/v1/nodes/{node_id}/keys"
        self.stack.call("POST", url, json=message_of(seen).model_dump(mode="json")).raise_for_status()

    async def close(self) -> None:
        """End the sites. Raises why the reports of keys ended before their time."""
        reports = self._key_reports
        if reports is not None and not reports.done():
            reports.cancel()
            await asyncio.gather(reports, return_exceptions=True)
        for site in self.sites.values():
            await site.close()
        if reports is not None and not reports.cancelled():
            reports.result()

    def waiting(self) -> int:
        """Return how many starts wait in the sidecars' queues."""
        return sum(len(site.node.state.queue) for site in self.sites.values())

    def counts(self) -> dict[str, int]:
        """Return what the sites' REST came to, how often their sidecars shed by cause and had way made, by how.

        With own grants also what the proxy granted itself. Raises requests.RequestException.
        """
        counts = {f"rest_{name}": value for name, value in asdict(self.wiring.traffic).items()}
        for counter, label in ((self.wiring.metrics.sheds, "cause"), (self.wiring.metrics.preemptions, "way")):
            for sample in next(iter(counter.collect())).samples:
                if sample.name.endswith("_total") and sample.value:
                    name = sample.name.removeprefix("quicksilver_sidecar_").removesuffix("_total")
                    counts[f"{name}_{sample.labels[label]}"] = int(sample.value)
        if self.own_grants:
            text = self.stack.call("GET", f"{self.stack.url}/metrics").text
            counts |= {f"own_grants_{result}": int(float(value)) for result, value in _OWN_GRANTS.findall(text)}
        return counts


@asynccontextmanager
async def quicksilver(
    cluster: Cluster, policies: Mapping[str, Any], proxy: Mapping[str, Any], shape: NodeShape
) -> AsyncIterator[EmulatedQuicksilver]:
    """Run the proxy for the time of an async with block. Raises LocalDaemonsError."""
    stack = LocalDaemons(cluster, policies, proxy, supervised=False)
    stack.folder.mkdir(parents=True, exist_ok=True)
    settings = SidecarSettings(reserve_mb=0)
    address = stack.proxy_rest
    wiring = Wiring(Policies.load(policies), settings, (address.host, address.port), SidecarMetrics(), Traffic())
    instance = EmulatedQuicksilver(stack, shape, wiring, bool(proxy.get("own_grants")))
    try:
        await asyncio.to_thread(stack.start_proxy)
        await asyncio.to_thread(_await, stack, 0)
        yield instance
    finally:
        try:
            await instance.close()
        finally:
            await asyncio.to_thread(stack.stop)


def _await(stack: LocalDaemons, count: int) -> None:
    """Return when the proxy places containers at so many nodes. Raises LocalDaemonsError."""
    until_s = time.monotonic() + _READY_S
    usable = -1
    while usable < count:
        if stack.processes["proxy"].poll() is not None or time.monotonic() > until_s:
            raise LocalDaemonsError(
                f"{max(usable, 0)} of {count} nodes are usable after {_READY_S:.0f} s, or it ended",
                place="proxy",
                remedy=f"read {stack.log('proxy')}",
            )
        time.sleep(_POLL_S)
        with suppress(requests.RequestException):  # not up yet
            usable = sum(node["usable"] for node in stack.get("/v1/nodes?limit=1000")["items"])
