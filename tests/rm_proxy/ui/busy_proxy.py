"""A small proxy with queues, applications that run and wait, finished ones in its store, and changed settings."""

from __future__ import annotations

import time
from random import Random
from typing import Any, Final

from policies.config.policy_set import Policies
from policies.model import Kind, Resources
from quicksilver.common.messages import ContainerEvent, ContainerReport, ContainerState, EventKind
from rm_proxy.domain.records import AppRecord, ChangeRecord, CompletionRecord, DecisionRecord, GrantRecord
from rm_proxy.history.queue_counts import QueueHistory, QueueSample
from rm_proxy.store.rows import NodeEvent, Row
from rm_proxy.yarn.models import YarnQueue
from tests.rm_proxy.records import grant_record
from tests.rm_proxy.ui.small_proxy import SmallProxy
from tests.rm_proxy.yarn_messages import APP, Am, cid, node_id, report, row

SETTINGS: Final[dict[str, Any]] = {
    "preset": "default",
    "queues": ["root.batch", "root.adhoc", "root.default"],
    "order": {"policy": "hrrn"},
    "alternatives": {"wide": {"place": {"policy": "random"}}, "night": {"routes": [{"policy": "only_g"}]}},
    "rollout": [{"queue": ["root.batch"], "percent": 25, "use": "wide"}],
    "windows": [{"name": "backup", "cron": "0 2 * * *", "length_s": 7200, "use": "night", "queue": ["root.batch"]}],
    "shadow": ["wide"],
}
NAMES: Final = ("word count", "tpcds q19", "etl hourly", "sessions", "join <b>clicks</b>", "report")
RUNNING: Final = APP


def make_busy(proxy: SmallProxy, seed: int = 1, now_s: float | None = None) -> QueueHistory:
    """Fill a proxy of three nodes; returns the history of its queues."""
    now_s, rng = time.time() if now_s is None else now_s, Random(seed)
    world = proxy.world
    world.use(Policies.load(SETTINGS), now_s)
    size = Resources(24576, 24)
    half, most = Resources(12288, 12), Resources(18432, 18)
    world.inventory.update_queues(
        [
            _queue("root", False, size, size),
            _queue("root.default", True, Resources(4096, 4), size),
            _queue("root.prod", False, half, most),
            _queue("root.prod.etl", True, half, most),
            _queue("root.batch", True, Resources(8192, 8), size),
            _queue("root.adhoc", True, Resources(4096, 4), half),
        ]
    )
    record: dict[str, Any] = {"queue": "root.batch", "user": "ann", "name": "join <b>clicks</b>", "tags": ()}
    world.inventory.update_app(AppRecord(id=APP, type="MAPREDUCE", priority=0, submitted_s=now_s - 240, **record))
    am = Am(world)
    am.now_s = now_s - 4
    am.asks(row(count=4), row(count=2, priority=5))
    for number in (1, 2, 3):
        held = [_held(rng, 20 + 3 * number + n, ContainerState.WAITING) for n in range(2)]
        runs = _held(rng, 40 + number, ContainerState.RUNNING)
        use = {"used_g_mb": 6144, "used_g_vcores": 6, "used_q_mb": 2048, "used_q_vcores": 2, "queue_length": 2}
        world.reports.report(node_id(number), report(number, containers=[*held, runs], **use), now_s)
    am.now_s = now_s
    am.asks(row(count=9), row(count=2, priority=5))
    proxy.store.write([*_stored(rng, now_s), *_changes(now_s)])
    return _history(rng, now_s)


def _queue(path: str, leaf: bool, capacity: Resources, limit: Resources) -> YarnQueue:
    return YarnQueue(path, leaf, "RUNNING", limit, Resources(), frozenset(), "", capacity=capacity)


def _held(rng: Random, number: int, state: ContainerState) -> ContainerReport:
    why = "cores: 8 of 8 are used by guaranteed containers" if state is ContainerState.WAITING else ""
    return ContainerReport(
        container_id=cid(number), app_id=APP, kind="Q", state=state, memory_mb=1024, vcores=1,
        since_s=round(rng.uniform(1, 9), 1), why=why, starts_in_s=4.0 if why else None,
    )  # fmt: skip


def _stored(rng: Random, now_s: float) -> list[Row]:
    rows: list[Row] = []
    for number in range(2, 62):
        app_id = APP.replace("_0001", f"_{number:04}")
        begun_s = now_s - 60 * number - rng.uniform(0, 50)
        app = AppRecord(
            app_id, rng.choice(["root.batch", "root.adhoc", "root.prod.etl"]), rng.choice(["ann", "bob", "cy"]),
            rng.choice(["MAPREDUCE", "SPARK", "TEZ"]), rng.choice(NAMES), (), 0, begun_s, begun_s + rng.uniform(9, 300),
            rng.choice(["SUCCEEDED", "SUCCEEDED", "FAILED", "KILLED"]),
        )  # fmt: skip
        rows.append(app)
    for number in range(1, 45):
        rows += _container(rng, number, now_s - 236 + 5 * number)
    return rows


def _container(rng: Random, number: int, asked_s: float) -> list[Row]:
    """Return a delivered container of the running application, with its events."""
    kind = Kind.QUEUEABLE if number % 4 else Kind.GUARANTEED
    node, name = node_id(1 + number % 3), cid(number)
    granted_s = asked_s + (rng.uniform(0.002, 0.02) if kind is Kind.QUEUEABLE else rng.uniform(0.8, 3))
    made: GrantRecord = grant_record(
        name, app_id=APP, attempt_id=APP.replace("application", "appattempt") + "_000001",
        place_reason="least wait of 50 drawn",
        kind=kind, node_id=node, wanted_node=node, asked_s=asked_s, granted_s=granted_s,
        route_reason="rule 1 (everything): only_q: everything is queueable" if kind is Kind.QUEUEABLE else
        "quota: queue root.batch is at its share",
        scores=(("host1:8041", 0.4), ("host2:8041", 1.8), ("host3:8041", float("inf"))), version="2-ab12+backup",
    )  # fmt: skip
    if number > 20:
        return [made]  # those are at nodes now
    waited_s, ran_s = rng.uniform(0.1, 6) if kind is Kind.QUEUEABLE else 0.0, rng.uniform(10, 60)
    started_s = granted_s + waited_s + 0.1

    def event(seq: int, what: EventKind, at_s: float, **more: Any) -> NodeEvent:
        made = ContainerEvent(seq=100 * number + seq, container_id=name, kind=what, at_s=at_s, **more)
        return NodeEvent(node, "boot", made)

    if number % 7 == 0:
        cause = "steal" if number % 2 else "hold"
        return [made, event(1, EventKind.SHED, granted_s + 4, cause=cause, reason="host3:8041 is idle")]
    started = event(1, EventKind.STARTED, started_s, waited_s=waited_s)
    if number % 9 == 0:
        why = {"cause": "room", "reason": "a guaranteed container needs 1024 MB"}
        killed = event(2, EventKind.KILLED, started_s + ran_s, ran_s=ran_s, attained_s=ran_s * 0.9, **why)
        return [made, started, killed, CompletionRecord(name, APP, -102, None, "made room", started_s + ran_s)]
    ended = event(2, EventKind.ENDED, started_s + ran_s, ran_s=ran_s, attained_s=ran_s * 0.9, times_shrunk=number % 3)
    quota = DecisionRecord(
        id=f"d{number}", at_s=granted_s, slot="quota", policy="queue_share", app_id=APP, chosen="G", reason="full"
    )
    return [made, started, ended, CompletionRecord(name, APP, 0, None, "", started_s + ran_s), quota]


def _changes(now_s: float) -> list[Row]:
    bad = "quicksilver.yaml:3:5: policies.order.policy: unknown policy hrn; did you mean hrrn?"
    return [
        ChangeRecord("c1", now_s - 9000, "uid 0", "start", True, "version", "", "1-1f00ba5e9c"),
        ChangeRecord("c2", now_s - 5000, "ann@10.0.0.7", "command", True, "policies.order.policy", '"srpt"', '"hrrn"'),
        ChangeRecord("c3", now_s - 4000, "ann@10.0.0.7", "rest", False, "", "", "", bad),
        ChangeRecord("c4", now_s - 3000, "bob@10.0.0.8", "rest", True, "policies.rollout", "[]", '[{"percent": 25}]'),
    ]


def _history(rng: Random, now_s: float) -> QueueHistory:
    history = QueueHistory()
    g, q = 8.0, 4.0
    for step in range(120):
        g, q = min(18.0, max(0.0, g + rng.choice((-1, 0, 1)))), min(6.0, max(0.0, q + rng.choice((-1, 0, 1))))
        sample = QueueSample(
            g,
            q,
            1024 * g,
            1024 * q,
            wanted_g=rng.randrange(9),
            wanted_q=rng.randrange(30),
            held=rng.randrange(9),
            apps=2,
        )
        history.add(now_s - 1200 + 10 * step, {"root": sample, "root.batch": sample})
    return history
