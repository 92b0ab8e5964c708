import threading
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from policies.model import NodeView
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.domain.records import AppRecord, CompletionRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.rows import NodeEvent, NodeSeen, Row
from rm_proxy.store.writer import StoreUnavailableError, Writer


class Fake:
    """A store that can be out, and that can be held up."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.batches: list[int] = []
        self.opened = 0
        self.pruned: list[float] = []
        self.out = False
        self.go = threading.Event()
        self.go.set()

    def open(self) -> None:
        self.opened += 1
        if self.out:
            raise StoreUnavailableError("out", place="db")

    def write(self, rows: Sequence[Row]) -> None:
        self.go.wait(10)
        if self.out:
            raise StoreUnavailableError("out", place="db")
        self.rows += rows
        self.batches.append(len(rows))

    def prune(self, before_s: float) -> int:
        self.pruned.append(before_s)
        return 0


def app(number: int) -> AppRecord:
    return AppRecord(f"application_1_{number:04}", "root.a", "u", "YARN", "n", (), 0, 1.0)


def sample(metrics: ProxyMetrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"quicksilver_proxy_{name}", labels) or 0.0


def test_all_kinds_of_rows_arrive_in_order() -> None:
    store = Fake()
    writer = Writer(store, ProxyMetrics())
    writer.start()
    happened = ContainerEvent(seq=1, container_id="c", kind=EventKind.HELD, at_s=1.0)
    end = CompletionRecord("c", "a", 0, None, "", 1.0)
    writer.application(app(1))
    writer.completion(end)
    writer.event("n:1", "boot", happened)
    writer.node(NodeView("n:1", host="n"), 5.0)
    assert writer.flush()
    view = NodeView("n:1", host="n")
    seen = NodeSeen(view.id, view.host, view.rack, view.label, view.capacity, 5.0)
    assert store.rows == [app(1), end, NodeEvent("n:1", "boot", happened), seen]
    writer.close()


def test_batches_are_bounded() -> None:
    store = Fake()
    store.go.clear()
    writer = Writer(store, ProxyMetrics(), batch_rows=10)
    for number in range(35):
        writer.application(app(number))
    store.go.set()
    writer.start()
    writer.close()
    assert len(store.rows) == 35 and max(store.batches) == 10


def test_a_full_queue_drops_and_counts_and_never_blocks() -> None:
    store, metrics = Fake(), ProxyMetrics()
    writer = Writer(store, metrics, queue_rows=5)
    for number in range(8):
        writer.application(app(number))
    assert writer.backlog == 5
    assert sample(metrics, "store_dropped_total", reason="full") == 3
    writer.start()
    assert writer.flush()
    writer.application(app(9))
    writer.close()
    assert [row.id[-1] for row in store.rows if isinstance(row, AppRecord)] == ["0", "1", "2", "3", "4", "9"]


@pytest.mark.long
def test_an_outage_is_survived_and_told_once() -> None:
    store, metrics = Fake(), ProxyMetrics()
    store.out = True
    writer = Writer(store, metrics)
    with capture_logs() as logs:
        writer.start()
        writer.application(app(1))
        assert not writer.flush(2.0)
        assert writer.outage == "db: out" and sample(metrics, "store_up") == 0
        store.out = False
        assert writer.flush(10)
        writer.close()
    assert store.rows == [app(1)] and store.opened >= 3
    assert writer.outage is None and sample(metrics, "store_up") == 1
    assert [line["event"] for line in logs] == [
        "the store accepts no rows; scheduling continues, rows wait",
        "the store accepts rows again",
    ]


def test_closing_during_an_outage_is_bounded_and_counts_what_is_lost() -> None:
    store, metrics = Fake(), ProxyMetrics()
    store.out = True
    writer = Writer(store, metrics)
    writer.start()
    for number in range(3):
        writer.application(app(number))
    writer.close(timeout_s=0.3)
    assert sample(metrics, "store_dropped_total", reason="closed") == 3
    assert threading.active_count() == len([t for t in threading.enumerate() if t.name != "writer"])


def test_old_rows_are_pruned_once_an_hour() -> None:
    store = Fake()
    clock = [100_000.0]
    writer = Writer(store, ProxyMetrics(), keep_s=1000.0, now=lambda: clock[0])
    writer.start()
    for at_s in (100_000.0, 100_100.0, 103_600.0):
        clock[0] = at_s
        writer.application(app(1))
        assert writer.flush()
    writer.close()
    assert store.pruned == [99_000.0, 102_600.0]


def test_a_row_that_is_written_stays_written_when_pruning_fails() -> None:
    class Unprunable(Fake):
        def prune(self, before_s: float) -> int:
            super().prune(before_s)
            if len(self.pruned) < 3:
                raise StoreUnavailableError("out", place="db")
            return 0

    store, metrics = Unprunable(), ProxyMetrics()
    writer = Writer(store, metrics)
    writer.start()
    for number in range(3):
        writer.application(app(number))
        assert writer.flush()
    writer.close()
    assert store.rows == [app(0), app(1), app(2)] and len(store.pruned) >= 3
    assert sample(metrics, "store_dropped_total", reason="closed") == 0


def test_a_recorder_that_never_started_closes() -> None:
    metrics = ProxyMetrics()
    writer = Writer(Fake(), metrics)
    writer.application(app(1))
    writer.close(0.1)
    assert sample(metrics, "store_dropped_total", reason="closed") == 1
