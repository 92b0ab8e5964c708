"""`python -m quicksilver_lab.bench.recovery`: how long a SIGKILL of the proxy or of a sidecar is felt, on a real local
cluster.

Masters over the real protocols heartbeat once a second and connect again at once when their connection breaks (Hadoop's
clients wait for yarn.resourcemanager.connect.retry-interval before they do, where they were refused).
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from hadoop_rpc.errors import HadoopRpcError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, ContainerRefusedError, NmClient, RemoteCallError, RmClient
from quicksilver_lab.bench import results
from quicksilver_lab.bench.las.master import APP_TYPE, USER, rows, title, unregister
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster import Cluster, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.environment import Progresses, interruptible, one_line_errors

BEAT_S: Final = 1.0
AGAIN_S: Final = 0.02
GUARANTEED_PRIORITY, QUEUEABLE_PRIORITY = 10, 20
POLICIES: Final = {
    "queues": "*",
    "routes": [{"match": {"priority": GUARANTEED_PRIORITY}, "policy": "only_g"}, {"policy": "only_q"}],
    "quota": {"policy": "none"},
}
_PATIENCE_S: Final = 60.0
_SPREAD: Final = (0.75, 1.25)
_BROKEN: Final = (ConnectionError, OSError, HadoopRpcError, TimeoutError)


@dataclass(eq=False, slots=True)
class Beater:
    """A master that heartbeats and starts a container when it is told to."""

    cluster: Cluster
    token: TokenProto
    answered_s: list[float] = field(default_factory=list)
    """When its allocates were answered (monotonic)."""
    late_s: list[float] = field(default_factory=list)
    """By how much each came later than it was due."""
    resyncs: int = 0
    granted: asyncio.Queue[y.ContainerProto] = field(default_factory=asyncio.Queue)
    tokens: dict[tuple[str, int], TokenProto] = field(default_factory=dict)
    ask: list[y.ResourceRequestProto] = field(default_factory=list)
    response_id: int = 0
    stop: bool = False

    async def live(self) -> None:
        """Register, heartbeat until `stop`, unregister."""
        due_s, registered = time.monotonic() + random.uniform(0, BEAT_S), False
        while True:
            try:
                async with AmClient(*self.cluster.spec.scheduler, self.token) as am:
                    am.response_id = self.response_id
                    while not self.stop:
                        if not registered:
                            await am.register()
                            registered = True
                        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                        registered = await self._beat(am, due_s)
                        due_s = time.monotonic() + BEAT_S if registered else due_s
                    await unregister(am, y.APP_SUCCEEDED)
                    return
            except _BROKEN:
                await asyncio.sleep(AGAIN_S)

    async def _beat(self, am: AmClient, due_s: float) -> bool:
        """Send one heartbeat; False when the application master is to register again."""
        ask = list(self.ask)
        try:
            answer = await am.allocate(y.AllocateRequestProto(progress=0.5, ask=ask))
        except RemoteCallError as error:
            if "ApplicationMasterNotRegistered" not in error.exception_class:
                raise
            self.resyncs += 1
            return False
        del self.ask[: len(ask)]
        self.response_id = am.response_id
        for token in answer.nm_tokens:
            self.tokens[token.nodeId.host, token.nodeId.port] = token.token
        for container in answer.allocated_containers:
            self.granted.put_nowait(container)
        now_s = time.monotonic()
        self.answered_s.append(now_s)
        self.late_s.append(now_s - due_s)
        return True


async def beaters(cluster: Cluster, count: int) -> list[Beater]:
    """Submit `count` unmanaged applications."""
    result = []
    async with RmClient(*cluster.spec.rm_client, user=USER) as rm:
        apps = [await rm.submit_unmanaged(name=title(f"beater {n}"), app_type=APP_TYPE) for n in range(count)]
        for app in apps:
            result.append(Beater(cluster, await rm.am_rm_token(app, timeout_s=60)))
    return result


async def kill_proxy(stack: LocalDaemons, masters: list[Beater], rounds: int, between_s: float) -> dict[str, Any]:
    """SIGKILL the proxy `rounds` times; return how long until each master had an answer again."""
    felt_s: list[float] = []
    late_s: list[float] = []
    for _ in range(rounds):
        await asyncio.sleep(between_s * random.uniform(*_SPREAD))
        killed_s = time.monotonic()
        await asyncio.to_thread(stack.kill, "proxy")
        for master in masters:
            first = await _after(master, killed_s)
            felt_s.append(master.answered_s[first] - killed_s)
            late_s.append(master.late_s[first])
    return {**_figures("proxy_to_allocate", felt_s), **_figures("proxy_heartbeat_late", late_s)}


async def _after(master: Beater, since_s: float) -> int:
    """Return the index of the first answer after `since_s`. Raises TimeoutError."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            for index, at_s in enumerate(master.answered_s):
                if at_s > since_s:
                    return index
            await asyncio.sleep(0.01)


async def kill_sidecars(
    stack: LocalDaemons, cluster: Cluster, master: Beater, rounds: int, between_s: float
) -> dict[str, Any]:
    """SIGKILL a sidecar `rounds` times for G and for Q; return how long until a start at its node was answered."""
    felt_s: dict[int, list[float]] = {GUARANTEED_PRIORITY: [], QUEUEABLE_PRIORITY: []}
    refused: list[str] = []
    nodes = cluster.spec.node_addresses
    for number in range(rounds):
        for priority, samples in felt_s.items():
            node = nodes[number % len(nodes)]
            master.ask += rows(priority, 1, (node.host,), False)
            async with asyncio.timeout(_PATIENCE_S):
                container = await master.granted.get()
            name = next(n.name for n in nodes if n.rpc == (container.nodeId.host, container.nodeId.port))
            await asyncio.sleep(random.uniform(0.2, 0.6))
            killed_s = time.monotonic()
            await asyncio.to_thread(stack.kill, name)
            try:
                await _start(master, container)
                samples.append(time.monotonic() - killed_s)
            except ContainerRefusedError as error:
                refused.append(str(error))
            await asyncio.sleep(between_s * random.uniform(*_SPREAD))
    return {
        **_figures("sidecar_to_g_start", felt_s[GUARANTEED_PRIORITY]),
        **_figures("sidecar_to_q_start", felt_s[QUEUEABLE_PRIORITY]),
        "starts_refused": refused,
    }


async def _start(master: Beater, container: y.ContainerProto) -> None:
    address = container.nodeId.host, container.nodeId.port
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            try:
                async with NmClient(*address, master.tokens[address]) as node:
                    await node.start(container, "exec sleep 1")
                    return
            except ContainerRefusedError:
                raise
            except _BROKEN:
                await asyncio.sleep(AGAIN_S)


def _figures(name: str, seconds: list[float]) -> dict[str, Any]:
    if not seconds:
        return {f"{name}_samples": 0}
    return {
        f"{name}_p50_s": round(percentile(seconds, 50), 3),
        f"{name}_max_s": round(max(seconds), 3),
        f"{name}_samples": len(seconds),
    }


async def run(stack: LocalDaemons, cluster: Cluster, count: int, rounds: int, between_s: float) -> dict[str, Any]:
    """Run both parts; return the figures."""
    masters = await beaters(cluster, count)
    living = [asyncio.create_task(master.live()) for master in masters]
    for master in masters:
        await _after(master, 0.0)
    result = await kill_proxy(stack, masters, rounds, between_s)
    result |= await kill_sidecars(stack, cluster, masters[0], rounds, between_s)
    for master in masters:
        master.stop = True
    await asyncio.gather(*living)
    return result | {
        "masters": count,
        "rounds": rounds,
        "between_s": between_s,
        "resyncs": sum(master.resyncs for master in masters),
    }


@click.command()
@click.option("--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run/recovery"))
@click.option("--base-port", default=18000, show_default=True)
@click.option("--masters", type=click.IntRange(1, 200), default=20, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True, help="Kills of each.")
@click.option("--between-s", type=click.FloatRange(0.5), default=6.0, show_default=True, help="On average.")
@one_line_errors
def main(workdir: Path, base_port: int, masters: int, rounds: int, between_s: float) -> None:
    """Kill the proxy and sidecars, and print JSON with what their users felt."""
    machine, progress = results.machine(), Progresses()
    cluster = Cluster(ClusterSpec(workdir=workdir, base_port=base_port, nodes=2))
    stack = LocalDaemons(cluster, POLICIES, standby=True)
    with interruptible():
        try:
            cluster.start(progress)
            stack.start(progress)
            result = asyncio.run(run(stack, cluster, masters, rounds, between_s))
        finally:
            stack.stop()
            cluster.stop(progress)
    result = {"benchmark": "recovery", **result, "machine": machine, "commit": results.commit()}
    results.write("recovery", result, {})
    click.echo(json.dumps(result))


if __name__ == "__main__":
    main()
