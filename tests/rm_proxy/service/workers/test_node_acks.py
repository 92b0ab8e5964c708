"""A sidecar forgets an event once the worker of its container has settled it."""

from quicksilver.common.messages import ContainerEvent, EventKind, Report
from rm_proxy.coordinator.workers.spread import Spread
from rm_proxy.service.workers.node_acks import NodeAcks


def report(*apps: int, boot: str = "b") -> Report:
    """A report with one event for each of these applications, numbered from 1."""
    events = [
        ContainerEvent(seq=seq, container_id=f"container_17_{app:04d}_01_000001", kind=EventKind.ENDED, at_s=0.0)
        for seq, app in enumerate(apps, 1)
    ]
    return Report(node_id="n:1", boot=boot, seq=1, sidecar_url="", memory_mb=1, vcores=1, events=events)


def test_events_of_other_workers_wait_for_them() -> None:
    acks = NodeAcks(Spread(0, 3))
    known = report(3, 1, 0, 2)
    assert acks.up_to("n:1", known, 4) == 1
    acks.settled(1, "n:1", "b", 4)
    assert acks.up_to("n:1", known, 4) == 3
    acks.settled(2, "n:1", "b", 3)
    assert acks.up_to("n:1", known, 4) == 3
    acks.settled(2, "n:1", "b", 4)
    assert acks.up_to("n:1", known, 4) == 4
    assert acks.up_to("n:1", known, 2) == 2, "this worker itself has not settled more"


def test_a_new_boot_of_the_sidecar_and_a_new_worker_begin_anew() -> None:
    acks = NodeAcks(Spread(0, 2))
    acks.settled(1, "n:1", "b", 9)
    assert acks.up_to("n:1", report(0, 1), 2) == 2
    assert acks.up_to("n:1", report(0, 1, boot="c"), 2) == 1
    acks.forget(1)
    assert acks.up_to("n:1", report(0, 1), 2) == 1


def test_nodes_that_left_are_forgotten() -> None:
    acks = NodeAcks(Spread(0, 2))
    acks.settled(1, "n:1", "b", 9)
    acks.forget_other_nodes({"n:2"})
    assert acks.up_to("n:1", report(1), 1) == 0
