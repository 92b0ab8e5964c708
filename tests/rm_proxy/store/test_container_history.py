from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policies.model import Kind
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.domain.records import CompletionRecord, GrantRecord
from rm_proxy.store import container_history
from rm_proxy.store.container_history import MAX_BUCKETS, ContainerHistory, fitting_bucket_s
from rm_proxy.store.rows import NodeEvent
from rm_proxy.store.store import Store
from rm_proxy.views.delays import OpenWaits, delays
from tests.rm_proxy.api.test_app import APP, grant

OTHER = "application_1_0002"


def span(number: int, asked_s: float, granted_s: float, **changes: Any) -> GrantRecord:
    return grant(number, asked_s=asked_s, granted_s=granted_s, **changes)


def happened(seq: int, number: int, kind: EventKind, at_s: float, node: str = "n1:1", **more: Any) -> NodeEvent:
    return NodeEvent(
        node, "boot", ContainerEvent(seq=seq, container_id=grant(number).container_id, kind=kind, at_s=at_s, **more)
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'p.db'}")
    store.open()
    store.write(
        [
            span(1, 100.0, 100.5),
            span(2, 100.0, 103.0, kind=Kind.GUARANTEED),
            span(3, 100.0, 101.0, retries=1, follows=grant(1).container_id),
            span(4, 160.0, 162.0),
            span(9, 100.0, 100.1, app_id=OTHER),
            happened(1, 1, EventKind.HELD, 100.6),
            happened(2, 1, EventKind.STARTED, 104.6, waited_s=4.0),
            happened(3, 1, EventKind.KILLED, 110.0, cause="room", reason="for G", ran_s=5.4, times_shrunk=1),
            happened(4, 3, EventKind.SHED, 105.0, cause="steal", reason="idle elsewhere"),
            happened(5, 2, EventKind.STARTED, 103.5),
            happened(6, 9, EventKind.SHED, 106.0, node="n2:1", cause="hold"),
            CompletionRecord(grant(1).container_id, APP, -102, None, "", 110.5),
            CompletionRecord(grant(4).container_id, APP, 0, None, "", 170.0),
        ]
    )
    yield store
    store.close()


@pytest.fixture
def history(store: Store) -> ContainerHistory:
    return ContainerHistory(store)


def test_spans(history: ContainerHistory) -> None:
    page = history.spans(APP, limit=3)
    assert [one.container_id[-1] for one in page.items] == ["4", "2", "3"] and page.more
    ended, running, moved = page.items
    assert (ended.end, ended.ended_s, ended.exit_status, ended.started_s) == ("ended", 170.0, 0, None)
    assert (running.kind, running.started_s, running.end) == ("G", 103.5, "")
    assert (moved.end, moved.cause, moved.follows[-1], moved.retries) == ("moved", "steal", "1", 1)
    (killed,) = history.spans(APP, limit=3, offset=3).items
    assert (killed.end, killed.cause, killed.reason, killed.waited_s) == ("killed", "room", "for G", 4.0)
    assert (killed.ran_s, killed.times_shrunk, killed.exit_status, killed.ended_s) == (5.4, 1, -102, 110.0)
    assert [one.container_id[-1] for one in history.spans(APP, kind="G", limit=9).items] == ["2"]
    assert history.spans("application_9", limit=9).items == []


def test_events(history: ContainerHistory) -> None:
    def seen(**wanted: Any) -> list[tuple[str, str, str]]:
        return [(e.kind, e.container_id[-1], e.app_id) for e in history.events(limit=50, **wanted).items]

    assert seen(kinds=["killed", "shed"]) == [("killed", "1", APP), ("shed", "9", OTHER), ("shed", "3", APP)]
    assert seen(app_id=OTHER) == [("shed", "9", OTHER)] == seen(node_id="n2:1")
    assert [kind for kind, _, _ in seen(container_id=grant(1).container_id)] == ["killed", "started", "held"]
    assert seen(since_s=103.5, until_s=105.0) == [("started", "1", APP), ("started", "2", APP)]
    first = history.events(limit=2)
    assert first.more and [e.kind for e in history.events(limit=9, offset=2).items][:1] == ["shed"]


def test_waits_over_time(history: ContainerHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    known = history.waits(APP, 60.0)
    assert [bucket.from_s for bucket in known.buckets] == [60.0, 120.0] and known.complete
    early, late = known.buckets
    assert (early.allocation_q.count, early.allocation_q.p50_s, early.allocation_q.max_s) == (2, 0.5, 1.0)
    assert (early.allocation_g.max_s, early.queueing.p95_s) == (3.0, 4.0)
    assert (late.allocation_q.max_s, late.queueing.count) == (2.0, 0)
    assert (known.all.allocation_q.count, known.all.allocation_q.p95_s, known.all.queueing.count) == (3, 2.0, 1)
    assert history.waits("application_9").buckets == []
    now = history.waits(APP, 60.0, waiting=OpenWaits(q=[(47.0, 6)]), now_s=190.0)
    assert [bucket.from_s for bucket in now.buckets] == [60.0, 120.0, 180.0]
    still = now.buckets[-1].allocation_q
    assert (still.count, still.waiting, still.p95_s, now.all.allocation_q.max_s) == (6, 6, 47.0, 47.0)
    monkeypatch.setattr(container_history, "MAX_WAITS", 2)
    newest = history.waits(APP)
    assert not newest.complete and newest.all.allocation_g.count + newest.all.allocation_q.count == 2


@pytest.mark.parametrize("whole_s", [0.0, 1.0, 119.0, 121.0, 3600.0, 86400.0, 30 * 86400.0])
def test_a_fitting_bucket(whole_s: float) -> None:
    assert whole_s / fitting_bucket_s(whole_s) <= MAX_BUCKETS


def test_percentiles_are_nearest_ranks() -> None:
    known = delays([float(one) for one in range(1, 101)])
    assert (known.p50_s, known.p95_s, known.max_s) == (50.0, 95.0, 100.0)
    assert delays([7.0]).p50_s == 7.0 and delays([]).count == 0
