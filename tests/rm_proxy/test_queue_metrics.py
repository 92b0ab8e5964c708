"""Metrics by queue and type: bounded labels, and each loss of work counted once, however it is reported."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from policies.model import AppView, Kind
from quicksilver.common.messages import ContainerEvent, EventKind
from rm_proxy.domain.records import CompletionRecord
from rm_proxy.queue_metrics import QueueMetrics

P = "quicksilver_proxy_queue_"
TEZ = AppView("application_1_0001", queue="root.a", type="TEZ")


def event(kind: EventKind, **more: object) -> ContainerEvent:
    given = {"seq": 1, "container_id": "c1", "kind": kind, "at_s": 9.0}
    return ContainerEvent.model_validate(given | more)


def completion(status: int, *, original: int | None = None, own: bool = False) -> CompletionRecord:
    return CompletionRecord("c1", TEZ.id, status, original, "", 9.0, own)


class Counted(QueueMetrics):
    def __init__(self, max_queues: int = 2) -> None:
        super().__init__(CollectorRegistry())
        self.max_queues = max_queues

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(P + name, labels)


def test_queues_beyond_the_limit_and_rare_types_are_other() -> None:
    counts = Counted()
    apps = [
        AppView("x", queue=f"root.{name}", type=kind) for name, kind in (("a", "TEZ"), ("b", "FLINK"), ("c", "SPARK"))
    ]
    for app in (*apps, *apps, None):
        counts.granted(app, Kind.QUEUEABLE, 0.3)
    assert counts.value("grants_total", queue="root.a", type="TEZ", kind="Q") == 2
    assert counts.value("grants_total", queue="root.b", type="other", kind="Q") == 2
    assert counts.value("grants_total", queue="other", type="SPARK", kind="Q") == 2
    assert counts.value("grants_total", queue="other", type="other", kind="Q") == 1
    assert counts.value("allocation_delay_seconds_count", queue="other", kind="Q") == 3
    assert Counted(0).labels(TEZ) == ("other", "TEZ")


def test_waits_sheds_kills_and_savings() -> None:
    counts = Counted()
    for one in (
        event(EventKind.STARTED, waited_s=3.0),
        event(EventKind.STARTED),
        event(EventKind.SHED, cause="hold", waited_s=60.0),
        event(EventKind.KILLED, cause="room", ran_s=20.0, attained_s=7.0),
        event(EventKind.KILLED, cause="something new", ran_s=4.0),
        event(EventKind.KILLED, cause="queued", ran_s=1.0),
        event(EventKind.KILLED, cause="admit", ran_s=1.0),
        event(EventKind.ENDED, ran_s=30.0, saved_s=2.5),
    ):
        counts.event(TEZ, one)
    own = {"queue": "root.a", "type": "TEZ"}
    assert counts.value("queueing_seconds_count", **own) == 1
    assert counts.value("sheds_total", **own, cause="hold") == 1
    assert [counts.value("kills_total", **own, cause=cause) for cause in ("room", "queued", "admit")] == [1, 1, 1]
    assert counts.value("lost_seconds_total", **own, cause="room") == 7, "CPU seconds, where they are measured"
    assert counts.value("lost_seconds_total", **own, cause="other") == 4
    assert counts.value("saved_seconds_total", **own) == 2.5


def test_work_of_all_that_ran_is_the_whole_of_what_was_lost() -> None:
    counts = Counted()
    for one in (
        event(EventKind.KILLED, cause="admit", ran_s=20.0, attained_s=7.0),
        event(EventKind.ENDED, ran_s=30.0),
        event(EventKind.ENDED, ran_s=900.0, am=True),
        event(EventKind.SHED, cause="hold", waited_s=60.0),
    ):
        counts.event(TEZ, one)
    own = {"queue": "root.a", "type": "TEZ"}
    assert counts.value("work_seconds_total", **own) == 37, "application masters are not repeated"
    assert counts.value("lost_seconds_total", **own, cause="admit") == 7


def test_kills_by_yarn_count_once_in_either_order() -> None:
    own = {"queue": "root.a", "type": "TEZ", "cause": "yarn"}
    end, killed = event(EventKind.ENDED, ran_s=12.0), completion(-102, original=-108)
    for first_end in (True, False):
        counts = Counted()
        if first_end:
            counts.event(TEZ, end)
        counts.completed(TEZ, killed)
        if not first_end:
            counts.event(TEZ, end)
        assert counts.value("kills_total", **own) == 1
        assert counts.value("lost_seconds_total", **own) == 12


def test_ends_that_are_no_kills_and_statuses_of_our_own_do_not_count() -> None:
    counts = Counted()
    for one in (completion(0), completion(-102, own=True), completion(-102, original=-105)):
        counts.event(TEZ, event(EventKind.ENDED, ran_s=12.0))
        counts.completed(TEZ, one)
    assert counts.value("kills_total", queue="root.a", type="TEZ", cause="yarn") is None


def test_ends_without_a_completion_do_not_pile_up() -> None:
    counts = Counted()
    for number in range(10_100):
        counts.event(TEZ, event(EventKind.ENDED, container_id=f"c{number}", ran_s=1.0))
    assert len(counts._ended) == 10_000
