"""One worker reads YARN's REST, and the others use its answers while they have them."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from quicksilver.common.http.rest_errors import UnreachableError
from rm_proxy.domain.records import AppRecord
from rm_proxy.service.workers import yarn_readings
from rm_proxy.service.workers.yarn_readings import APPS, NODES, Reading, WorkerYarnRest, YarnReadings
from rm_proxy.yarn.client import YarnRest
from tests.rm_proxy.yarn_messages import yarn_node


def app(number: int) -> AppRecord:
    return AppRecord(f"application_17_{number:04d}", "default", "u", "MAPREDUCE", "job", (), 0, float(number))


class Workers:
    """The first worker, another one, and how often each read."""

    def __init__(self) -> None:
        self.sent: list[Reading] = []
        self.other = YarnReadings(1, self.sent.append)
        self.first = YarnReadings(0, self._pass_on)
        self.read = [0, 0]
        self.brought: list[bool] = []

    def _pass_on(self, reading: Reading) -> None:
        self.sent.append(reading)
        self.brought.append(self.other.received(pickle.loads(pickle.dumps(reading))))

    def _reads(self, worker: int, answer: Any) -> Callable[[], Awaitable[Any]]:
        async def read() -> Any:
            self.read[worker] += 1
            if isinstance(answer, Exception):
                raise answer
            return answer

        return read

    async def ask(self, worker: int, name: str, answer: Any, part: bool = False) -> Any:
        return await (self.first, self.other)[worker].answer(name, self._reads(worker, answer), part=part)


async def test_another_worker_reads_until_it_has_an_answer_of_the_first_one() -> None:
    workers = Workers()
    own, nodes = [yarn_node(1)], [yarn_node(1), yarn_node(2)]
    assert await workers.ask(1, NODES, own) == own
    assert not workers.sent, "only the first one's readings are passed on"
    assert await workers.ask(0, NODES, nodes) == nodes
    assert await workers.ask(1, NODES, own) == nodes
    await workers.ask(0, NODES, [replace(node) for node in nodes])
    assert workers.sent[-1] == Reading(NODES), "what did not change is not sent again"
    assert workers.brought == [True, False] and workers.read == [2, 1]


async def test_another_worker_reads_after_a_reading_that_failed_and_after_the_first_one_went() -> None:
    workers = Workers()
    await workers.ask(0, NODES, ["first"])
    with pytest.raises(UnreachableError):
        await workers.ask(0, NODES, UnreachableError("refused"))
    assert await workers.ask(1, NODES, ["own"]) == ["own"]
    await workers.ask(0, NODES, ["first"])
    assert await workers.ask(1, NODES, ["own"]) == ["first"]
    workers.other.forget()
    assert await workers.ask(1, NODES, ["own"]) == ["own"]
    for reading in workers.first.whole():
        workers.other.received(reading)
    assert await workers.ask(1, NODES, ["own"]) == ["first"]
    assert not workers.other.whole()


async def test_an_old_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(yarn_readings, "monotonic", lambda: now_s)
    workers = Workers()
    await workers.ask(0, NODES, ["first"])
    now_s = yarn_readings.FRESH_S + 1
    assert await workers.ask(1, NODES, ["own"]) == ["own"]


async def test_new_applications_are_added_to_the_last_whole_list() -> None:
    workers = Workers()
    await workers.ask(0, APPS, [app(1)], part=True)
    assert await workers.ask(1, APPS, []) == [], "a part alone is no list"
    await workers.ask(0, APPS, [app(1), app(2)])
    await workers.ask(0, APPS, [replace(app(2), priority=7), app(3)], part=True)
    assert await workers.ask(1, APPS, []) == [app(1), replace(app(2), priority=7), app(3)]
    await workers.ask(0, APPS, [app(3)])
    assert await workers.ask(1, APPS, []) == [app(3)]


async def test_a_worker_asks_rest_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    async def apps(self: YarnRest, states: object, since_s: float = 0.0) -> list[AppRecord]:
        calls.append(since_s)
        return [app(1)]

    monkeypatch.setattr(YarnRest, "apps", apps)
    workers = Workers()
    first, other = (WorkerYarnRest(each, "http://127.0.0.1:1") for each in (workers.first, workers.other))
    await first.apps()
    assert await other.apps(since_s=5.0) == [app(1)] and calls == [0.0]
    assert await other.apps(("FINISHED",)) == [app(1)] and len(calls) == 2, "an answer of other states"
    other.begin_anew()
    await other.apps(since_s=5.0)
    assert calls[2:] == [5.0], "another ResourceManager serves"
    for rest in (first, other):
        await rest.close()
