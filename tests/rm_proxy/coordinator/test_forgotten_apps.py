"""Applications that are over are forgotten, the oldest first, whoever told of their end."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.coordinator import yarn_inventory
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import AppRecord
from tests.rm_proxy.yarn_messages import TIMESTAMP, coordinator, row

LIMIT = 20


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yarn_inventory, "MAX_APPS", LIMIT)


def runs(world: Coordinator, number: int, *, recorded: bool, finishes: bool = True) -> str:
    """Have an application log in, register, ask and finish; recorded: whether YARN's REST tells of it."""
    app_id, now_s = f"application_{TIMESTAMP}_{number:04}", float(number)
    record = AppRecord(app_id, "default", "u", "MAPREDUCE", f"job {number}", (), 0, now_s)
    if recorded:
        world.inventory.update_app(record)
    attempt = world.attempt(f"appattempt_{TIMESTAMP}_{number:04}_000001")
    attempt.on_registered(y.RegisterApplicationMasterResponseProto(queue="default").SerializeToString(), now_s)
    attempt.exchange.on_allocate(y.AllocateRequestProto(ask=[row("*", 2)]).SerializeToString(), now_s)
    attempt.exchange.on_answer(y.AllocateResponseProto(response_id=1).SerializeToString(), now_s)
    if finishes:
        attempt.on_finished()
    world.rounds.all_parts(now_s)
    world.take_effects()
    list(world.takeover.notes())
    return app_id


@pytest.mark.parametrize("recorded", [True, False], ids=["REST answers", "REST is away"])
def test_memory_does_not_grow_with_applications_that_are_over(recorded: bool) -> None:
    world = coordinator()
    for number in range(2, 5 * LIMIT):
        runs(world, number, recorded=recorded)
    gc.collect()
    before = Counter(type(one).__name__ for one in gc.get_objects())
    for number in range(5 * LIMIT, 20 * LIMIT):
        runs(world, number, recorded=recorded)
    gc.collect()
    grown = Counter(type(one).__name__ for one in gc.get_objects()) - before
    assert len(world.attempts) == len(world.attempts.by_app) == LIMIT
    assert len(world.inventory.records) <= LIMIT + 1
    kinds = {kind: count for kind, count in grown.items() if count >= 5 * LIMIT}
    assert not kinds, f"for {15 * LIMIT} applications"


def test_one_that_lives_is_never_forgotten() -> None:
    world = coordinator()
    old = runs(world, 2, recorded=False, finishes=False)
    for number in range(3, 5 * LIMIT):
        runs(world, number, recorded=False)
    assert [attempt.app_id for attempt in world.attempts.living()] == [old]
    assert len(world.attempts) <= LIMIT + 1
