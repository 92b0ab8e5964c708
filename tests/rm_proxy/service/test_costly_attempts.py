"""Attempts that keep the others waiting: which of them passes unread."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_rpc.protos import yarn_pb2 as y
from rm_proxy.attempt.effects import TooLarge
from rm_proxy.attempt.registration.registration import AttemptState
from rm_proxy.coordinator.error_budget import ErrorBudget
from rm_proxy.domain.records import AppRecord
from rm_proxy.service import bypass_control as module
from rm_proxy.service.connections.costly_attempts import LATE_S, CostlyAttempt, CostlyAttempts
from rm_proxy.store.store import Store
from tests.rm_proxy.service.test_bypass_control import Whole
from tests.rm_proxy.yarn_messages import APP, ATTEMPT, Am, row

ADDED_S = 1.0


class Loop:
    """An event loop of which each second is spent as a test says."""

    def __init__(self) -> None:
        self.now_s = self.cpu_s = 0.0
        self.machine = CostlyAttempts(lambda attempt_id: attempt_id[0], ADDED_S, lambda: self.cpu_s)
        self.machine.measure(0.0, 0.0)

    def second(self, late_s: float, cpu_s: float = 1.0, **took_s: float) -> CostlyAttempt | None:
        for attempt_id, spent_s in took_s.items():
            self.machine.spent(attempt_id, spent_s)
        self.now_s, self.cpu_s = self.now_s + 1.0, self.cpu_s + cpu_s
        return self.machine.measure(late_s, self.now_s)

    def seconds(self, count: int, late_s: float, cpu_s: float = 1.0, **took_s: float) -> list[CostlyAttempt]:
        each = [self.second(late_s, cpu_s, **took_s) for _ in range(count)]
        return [costly for costly in each if costly is not None]


def test_an_attempt_that_takes_a_quarter_while_others_wait_passes_unread() -> None:
    (costly,) = Loop().seconds(10, LATE_S, a1=0.3, b1=0.1)
    assert costly.attempt_id == "a1"
    assert costly.why == "its messages took 27% of the proxy's last 10 s, and others waited"


def test_where_nobody_waits_nobody_is_harmed() -> None:
    assert Loop().seconds(30, LATE_S - 0.01, a1=0.9) == []


def test_one_large_request_is_no_flood() -> None:
    loop = Loop()
    assert loop.second(2.0, a1=2.0) is None and loop.seconds(20, LATE_S) == []


def test_a_busy_host_is_nobodys_fault() -> None:
    assert Loop().seconds(30, 3.0, cpu_s=0.4, a1=0.9) == []


def test_a_user_of_many_applications_loses_the_costliest_one_after_the_other() -> None:
    loop = Loop()
    assert loop.seconds(5, ADDED_S, a1=0.2, a2=0.22, a3=0.2, b1=0.23) == [], "as late as the budget allows"
    costly = loop.seconds(5, ADDED_S + 0.5, a1=0.2, a2=0.22, a3=0.2, b1=0.23)
    assert [each.attempt_id for each in costly] == ["a2"], "and then the others are in time"
    assert costly[0].why.startswith("messages of its user's applications took 5")


def test_lateness_that_many_users_cause_is_left_to_the_budget() -> None:
    assert Loop().seconds(30, 5.0, a1=0.2, b1=0.2, c1=0.2, d1=0.2) == []


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 2), st.sampled_from(["a1", "a2", "b1"]), st.floats(0, 3))))
def test_only_who_took_the_time_is_named(seconds: list[tuple[float, float, str, float]]) -> None:
    loop = Loop()
    for late_s, cpu_s, attempt_id, took_s in seconds:
        costly = loop.second(late_s, cpu_s, **{attempt_id: took_s})
        assert costly is None or (late_s >= LATE_S and costly.attempt_id in {each[2] for each in seconds})
    assert len(loop.machine._slices) <= 10


def test_the_attempt_passes_unread_and_the_cluster_is_not_late(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEASURE_S", 0.0)
    whole, measured = Whole(store), list[float]()
    whole.world.inventory.update_app(AppRecord(APP, "default", "ann", "MAPREDUCE", "job", (), 0, 0.0))
    am = Am(whole.world)
    am.asks(row("*", 2))
    am.gets()
    monkeypatch.setattr(whole.bypass.costly, "measure", lambda *_: CostlyAttempt(ATTEMPT, "why"))
    monkeypatch.setattr(ErrorBudget, "measure", lambda _, late_s, *__: measured.append(late_s))

    async def one_measurement() -> None:
        whole.bypass.start()
        await asyncio.sleep(0.01)
        whole.bypass.close()

    asyncio.run(one_measurement())
    assert measured == [] and whole.bypass._user(ATTEMPT) == "ann"
    assert am.asks(row("*", 3, priority=7)) != [], "what is ours is taken back with it"
    assert am.attempt.registration.state is AttemptState.UNTRACKED
    assert [effect.why for effect in am.attempt.take_effects() if isinstance(effect, TooLarge)] == ["why"]
    am.gets()
    assert am.asks(row("*", 1, priority=8)) == [row("*", 1, priority=8)]
    am.gets()
    am.attempt.exchange.pass_from_now("why")  # it still costs most
    monkeypatch.setattr(y.AllocateRequestProto, "FromString", None)  # long ones are not even read
    many = y.AllocateRequestProto(response_id=am.response_id, ask=[row("*", 1, priority=n) for n in range(2000)])
    assert am.attempt.exchange.on_allocate(many.SerializeToString(), 1.0) is None
