"""A busy cluster of any size for pages: reports of nodes, rows of the store, an hour of samples."""

from __future__ import annotations

import math
import time
from random import Random
from typing import Any

from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind
from rm_proxy.domain.records import AppRecord, CompletionRecord, GrantRecord
from rm_proxy.history.cluster_sample import Sample
from rm_proxy.history.time_series import TimeSeries
from rm_proxy.store.rows import NodeEvent
from tests.rm_proxy.ui.small_proxy import SmallProxy
from tests.rm_proxy.yarn_messages import cid, node_id, report

RUNNING, SHRUNK, WAITING = ContainerState.RUNNING, ContainerState.SHRUNK, ContainerState.WAITING
APPS = ("application_1700000000000_0001", "application_1700000000000_0002")
QUEUES = ("root.adhoc", "root.batch")


def _containers(rng: Random, first: int, running: int, waiting: int, shrunk: int) -> list[ContainerReport]:
    found = []
    for number in range(running + waiting + shrunk):
        state = RUNNING if number < running else WAITING if number < running + waiting else SHRUNK
        kind = "G" if number < running // 2 else "Q"
        more: dict[str, Any] = {}
        if state is WAITING:
            more = {"why": "cores: 1 wanted, none free", "starts_in_s": rng.uniform(1, 30)}
        if state is SHRUNK:
            more = {"why": "a container with less service took its core", "times_shrunk": 2, "cores": 0.05}
        found.append(
            ContainerReport(
                container_id=cid(first + number),
                app_id=APPS[number % 2],
                kind=kind,
                state=state,
                memory_mb=1024,
                vcores=1,
                since_s=rng.uniform(2, 900),
                am=number == 0 and first % 7 == 1,
                **more,
            )
        )
    return found


def _report(proxy: SmallProxy, rng: Random, number: int, now_s: float) -> None:
    running = min(8, max(0, round(rng.gauss(6, 2))))
    waiting = max(0, round(rng.gauss(2, 3))) if running >= 7 else 0
    containers = _containers(rng, 100 * number, running, waiting, shrunk=rng.choice([0, 0, 0, 1, 2]))
    guaranteed = sum(one.kind == "G" and one.state is RUNNING for one in containers)
    fields: dict[str, Any] = {
        "containers": containers,
        "used_g_mb": 1024 * guaranteed,
        "used_g_vcores": guaranteed,
        "used_q_mb": 1024 * (running - guaranteed),
        "used_q_vcores": running - guaranteed,
        "queue_length": waiting,
        "queued_s": 11.0 * waiting,
        "free_physical_mb": 3000,
        "slots": 12,
        "version": "0.1.0" if number % 20 else "0.0.9",
        "settings_version": proxy.world.policies.version,
        "limits": ["not root: cgroups cannot be written"] if number % 9 == 0 else [],
    }
    if number % 31 == 0:
        fields |= {"draining": True, "drain_reason": "kernel upgrade"}
    if number % 47 == 0:
        fields |= {"nm_down": "connection refused"}
    proxy.world.reports.report(node_id(number), report(number, **fields), now_s)


def wave(series: TimeSeries, cores: float, now_s: float) -> None:
    """Fill an hour: a day's rise and fall in short."""
    for number in range(721):
        at_s = now_s - 5 * (720 - number)
        load = 0.62 + 0.3 * math.sin(number / 90) + 0.05 * math.sin(number / 7)
        g, q = 0.55 * cores * min(1.0, load), 0.45 * cores * min(1.0, load)
        sample = Sample(nodes=1, nodes_usable=1, cores=cores, g=g, q=q, idle=max(0.0, cores - g - q))
        sample.waiting = max(0.0, cores * (load - 0.8))
        sample.shrunk = sample.waiting / 3
        sample.memory_mb, sample.g_mb, sample.q_mb = 2048 * cores, 1800 * g, 1500 * q
        sample.delay_q_p50_s, sample.delay_q_p95_s = 0.01, 0.02 + max(0.0, 9 * (load - 0.7))
        sample.delay_g_p50_s, sample.delay_g_p95_s = 1 + load, 2 + 3 * load
        series.add(at_s, sample.values())


def _history(proxy: SmallProxy, rng: Random, node: str, now_s: float) -> None:
    """Write an hour of containers of one node, and a day's kills."""
    rows: list[Any] = [
        AppRecord(app, queue, "ann", "MAPREDUCE", "wordcount", (), 0, now_s - 4000, None)
        for app, queue in zip(APPS, QUEUES, strict=True)
    ]
    seq = 0

    def event(container: str, kind: EventKind, at_s: float, **more: Any) -> None:
        nonlocal seq
        seq += 1
        rows.append(
            NodeEvent(node, "old", ContainerEvent(seq=seq, container_id=container, kind=kind, at_s=at_s, **more))
        )

    for number in range(90):
        container, begin_s = cid(20_000 + number), now_s - rng.uniform(30, 3000)
        queueable = number % 3 > 0
        waited_s = rng.uniform(0, 90) if queueable else 0.0
        rows.append(_grant(container, APPS[number % 2], queueable, node, begin_s))
        if waited_s > 60:
            event(container, EventKind.HELD, begin_s)
            event(container, EventKind.SHED, begin_s + waited_s, reason="it would start after 90 s", cause="shed")
            continue
        if waited_s:
            event(container, EventKind.HELD, begin_s)
        ran_s = rng.uniform(20, 400)
        event(container, EventKind.STARTED, begin_s + waited_s, waited_s=waited_s)
        end_s = min(begin_s + waited_s + ran_s, now_s - 1)
        if number % 11 == 0 and queueable:
            event(container, EventKind.KILLED, end_s, reason="room for a guaranteed one", cause="room", ran_s=ran_s)
        elif number % 13 == 0:
            event(container, EventKind.ENDED, end_s, ran_s=ran_s, attained_s=ran_s / 2)
            rows.append(CompletionRecord(container, APPS[number % 2], -102, -102, "preempted", end_s))
        else:
            shrunk = number % 4 == 0
            event(
                container,
                EventKind.ENDED,
                end_s,
                ran_s=ran_s,
                attained_s=ran_s * 0.8,
                times_shrunk=3 * shrunk,
                saved_s=ran_s * shrunk,
            )
    proxy.store.write(rows)


def _grant(container: str, app: str, queueable: bool, node: str, at_s: float) -> GrantRecord:
    return GrantRecord(
        container_id=container,
        app_id=app,
        attempt_id=app.replace("application", "appattempt") + "_000001",
        kind=Kind.QUEUEABLE if queueable else Kind.GUARANTEED,
        route_reason="rule 1: queue root.adhoc",
        node_id=node,
        wanted_node=node,
        place_reason="least wait",
        scores=(),
        unit="s",
        priority=20,
        resources=Resources(1024, 1),
        expected_s=60.0,
        asked_s=at_s - 0.1,
        granted_s=at_s,
    )


def busy(proxy: SmallProxy, nodes: int, seed: int = 7) -> None:
    """Fill a proxy that has so many nodes."""
    rng, now_s = Random(seed), time.time()
    for number in range(1, nodes + 1):
        _report(proxy, rng, number, now_s)
    wave(proxy.series, 8.0 * nodes, now_s)
    present = Sample()
    for node in proxy.world.nodes.values():
        present.add(node)
        proxy.shrinks.add(node)
    proxy.shrinks.end_round()
    present.add_pending(proxy.world)
    proxy.series.add(now_s, present.values())
    _history(proxy, rng, node_id(1), now_s)
    off = [node for node in proxy.world.nodes.values() if not node.view.usable]
    proxy.notices = [f"node {node.id} takes no queueable containers: {node.why_not(now_s, 5)}" for node in off[:5]]
