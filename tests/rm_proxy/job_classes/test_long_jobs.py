"""A long job through the whole proxy: names on the blacklist for guaranteed asks, other nodes for queueable ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.snapshot import Snapshot
from rm_proxy.coordinator.coordinator import Coordinator
from tests.rm_proxy.yarn_messages import ALL_Q, Am, coordinator, granted_rows, row

KEPT: Mapping[str, Any] = {
    "classify": {"policy": "task_time", "settings": {"cutoff_s": 30.0}},
    "partition": {"policy": "short_only", "settings": {"ratio": 0.5}},
}


def listed(am: Am) -> tuple[list[str], list[str]]:
    """Return additions and removals of the last request."""
    lists = am.sent.blacklist_request
    return list(lists.blacklist_additions), list(lists.blacklist_removals)


def world(expected_s: float = 100.0, **policies: Any) -> Coordinator:
    """Return a cluster of four nodes of which two are kept for short jobs."""
    estimate = {"rules": [{"expected_s": expected_s}]}
    made = coordinator({**ALL_Q, **KEPT, "estimate": estimate, **policies}, nodes=4)
    made.rounds.all_parts(0.0)
    return made


def heartbeat(am: Am, *rows: Any, **more: Any) -> None:
    am.now_s += 3
    am.world.rounds.all_parts(am.now_s)
    am.asks(*rows, **more)


def test_the_guaranteed_containers_of_a_long_job_are_kept_off() -> None:
    am = Am(world(routes=[{"policy": "only_g"}]))
    kept = sorted(am.world.features.classes.partition.hosts)
    assert len(kept) == 2
    am.asks(row("*", 4))
    assert listed(am) == (kept, []), "with the first ask"
    am.gets()
    heartbeat(am)
    assert listed(am) == ([], []), "once is enough"


def test_those_of_a_short_job_go_anywhere() -> None:
    am = Am(world(expected_s=5.0, routes=[{"policy": "only_g"}]))
    am.asks(row("*", 4))
    am.gets()
    heartbeat(am)
    assert listed(am) == ([], [])


def test_the_queueable_containers_of_a_long_job_go_to_other_nodes() -> None:
    am = Am(world())
    am.asks(row("*", 1))
    am.gets()
    kept = am.world.features.classes.partition.hosts
    heartbeat(am, row("*", 30))
    chosen = {one.resource_name for one in granted_rows(am.sent.ask).values()}
    assert chosen and not chosen & kept


def test_a_partition_that_ends_frees_the_job() -> None:
    am = Am(world(routes=[{"policy": "only_g"}]))
    am.asks(row("*", 4))
    kept = listed(am)[0]
    am.gets()
    new = world(routes=[{"policy": "only_g"}], partition={"policy": "none"}).policies
    am.world.use(new, am.now_s)
    heartbeat(am)
    assert listed(am) == ([], kept)


def test_the_masters_own_list_is_kept_and_a_refused_request_is_made_good() -> None:
    am = Am(world(routes=[{"policy": "only_g"}]))
    kept = sorted(am.world.features.classes.partition.hosts)
    heartbeat(am, row("*", 4), blacklist=["other"])
    assert listed(am) == (["other", *kept], [])
    am.attempt.exchange.on_refused("InvalidResourceRequestException")
    heartbeat(am, row("*", 4))
    assert listed(am) == (kept, []), "the master says its own again itself"
    am.gets()
    assert am.attempt.exchange.at_rest


@pytest.mark.parametrize("mode", ["shadow", "bypass"])
def test_an_application_that_is_left_alone_goes_anywhere(mode: str) -> None:
    am = Am(world(mode=mode))
    am.asks(row("*", 4))
    am.gets()
    heartbeat(am)
    assert listed(am) == ([], [])


def test_a_successor_frees_what_its_predecessor_kept_off() -> None:
    """The process that comes next has no partition: what the journal names is removed."""
    am = Am(world(routes=[{"policy": "only_g"}]))
    registered = y.RegisterApplicationMasterResponseProto(queue="default")
    am.attempt.on_registered(registered.SerializeToString(), 0.0)
    am.asks(row("*", 4))
    kept, snapshot = listed(am)[0], Snapshot()
    am.gets()
    note = am.attempt.take_note()
    assert note is not None
    snapshot.take(json.loads(json.dumps(note)))
    whole = am.attempt.whole_note()
    assert whole is not None and whole["kept_off"] == note["kept_off"] == kept
    after = Am(coordinator(ALL_Q, nodes=4))
    after.attempt.restore(snapshot)
    after.attempt.registration.resync = None
    after.asks()
    assert listed(after) == ([], kept)
    after.gets()
    assert not after.attempt.exchange.exclusions.maybe
