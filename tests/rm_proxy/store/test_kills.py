"""Kills by cause, and a node's timeline, of the stored rows."""

from policies.model import Kind
from quicksilver.common.messages import EventKind
from rm_proxy.store.kills import kills
from rm_proxy.store.ledger import Ledger, Scope
from rm_proxy.store.store import Store
from rm_proxy.store.timeline import spans
from tests.rm_proxy.store.test_ledger import ONE, START_S, TWO, end, grant, happened


def test_kills_by_cause_queue_and_kind_are_those_of_the_ledger(store: Store) -> None:
    store.write(
        [
            ONE,
            TWO,
            *(grant(number) for number in range(1, 7)),
            grant(7, TWO, Kind.GUARANTEED),
            happened(1, 1, EventKind.KILLED, cause="room", ran_s=5.0),
            happened(2, 2, EventKind.KILLED, cause="room", ran_s=50.0, attained_s=7.0),
            happened(3, 3, EventKind.KILLED, START_S + 100, cause="memory", ran_s=30.0),
            happened(4, 4, EventKind.ENDED, ran_s=8.0),
            end(4, -100, -102),
            happened(5, 5, EventKind.ENDED, ran_s=9.0),
            end(5, 0),
            happened(6, 6, EventKind.SHED, cause="shed"),
            happened(7, 7, EventKind.ENDED, ran_s=1.0),
            end(7, -108),
        ]
    )
    found = [(row.cause, row.queue, row.kind, row.count, row.lost_s) for row in kills(store, since_s=0, until_s=None)]
    assert found == [
        ("memory", "root.a", "Q", 1, 30.0),
        ("room", "root.a", "Q", 2, 12.0),
        ("resourcemanager", "root.a", "Q", 1, 8.0),
        ("nodemanager", "root.b", "G", 1, 1.0),
    ]
    rows = Ledger(store).rows(Scope("day"), limit=10)
    assert sum(row.kills for row in rows) == 5 and sum(row.lost_s for row in rows) == 51.0
    assert [row.cause for row in kills(store, since_s=START_S + 50, until_s=None)] == ["memory"]
    assert len(kills(store, since_s=0, until_s=START_S + 50)) == 3


def test_a_nodes_timeline(store: Store) -> None:
    master = "container_1700000000000_0001_01_000001"
    store.write(
        [
            ONE,
            grant(1),
            grant(2),
            happened(1, 1, EventKind.HELD, START_S + 1),
            happened(2, 1, EventKind.STARTED, START_S + 5, waited_s=4.0),
            happened(3, 1, EventKind.ENDED, START_S + 9, ran_s=4.0, times_shrunk=2),
            happened(4, 2, EventKind.KILLED, START_S + 20, ran_s=15.0, cause="room", reason="a G came"),
        ]
    )
    started = happened(5, 3, EventKind.STARTED, START_S + 21)
    store.write([started.__class__("n1:1", "b2", started.event.model_copy(update={"container_id": master}))])
    found, truncated = spans(store, "n1:1", START_S)
    assert not truncated and spans(store, "n2:1", 0) == ([], False)
    first, second, third = found
    assert (first.held_s, first.started_s, first.ended_s) == (START_S + 1, START_S + 5, START_S + 9)
    assert (first.end, first.times_shrunk, first.app_id, first.kind) == ("ended", 2, ONE.id, "Q")
    assert (second.started_s, second.end, second.cause, second.reason) == (START_S + 5, "killed", "room", "a G came")
    assert (third.app_id, third.kind, third.end) == ("application_1700000000000_0001", "G", "")
    later, _ = spans(store, "n1:1", START_S + 6)
    assert [one.container_id for one in later] == ["container_1", "container_2", master]
    assert later[0].held_s is None and later[0].started_s == START_S + 5, "by how long it ran"
