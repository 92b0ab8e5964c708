"""Numbers of a report: one that is none, or is beyond all bounds, is refused; within them no number stops the proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from quicksilver.common.messages import Comparison, ContainerState, EventKind, Report, WaitBySize
from rm_proxy.api.received_report import MAX_NUMBER, read_report
from tests.rm_proxy.api.test_report_route import JSON
from tests.rm_proxy.ui.small_proxy import small_proxy
from tests.rm_proxy.yarn_messages import (
    Am,
    cid,
    container,
    container_report,
    coordinator,
    event,
    granted_rows,
    node_id,
    report,
    row,
)

MARK = "number"
BEYOND = ("NaN", "Infinity", "-Infinity", "9" * 400, f"-{'9' * 400}", "1e300", str(10 * MAX_NUMBER))
WITHIN = ("0", "-1", str(MAX_NUMBER), str(-MAX_NUMBER), str(2**63 - 1), str(2**63))
Steps = tuple[str | int, ...]


def whole() -> Report:
    """Return a report that has a number in each field."""
    states = ContainerState.RUNNING, ContainerState.WAITING
    return report(
        1,
        containers=[
            container_report(
                n, state=state, memory_mb=512, starts_in_s=1.0, attained_s=1.0, cores=0.5, shrunk_ago_s=1.0
            )
            for n, state in enumerate(states, 8)
        ],
        events=[event(9, EventKind.ENDED, ran_s=1.0).model_copy(update={"attained_s": 1.0})],
        compared=[Comparison(alternative="x", slot="order")],
        waits=[WaitBySize(memory_mb=1, vcores=1, wait_s=1)],
        slots=9,
    )


def numbers(data: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Yield where the numbers of JSON data are."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from numbers(value, (*steps, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield *steps, name


DATA: dict[str, Any] = json.loads(whole().model_dump_json())
PLACES = list(numbers(DATA))


def with_number(place: Steps, number: str) -> bytes:
    """Return the report as JSON with another number at one place."""
    data = json.loads(json.dumps(DATA))
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = MARK
    return json.dumps(data).replace(f'"{MARK}"', number).encode()


def test_the_places_are_found() -> None:
    names = {place[-1] for place in PLACES}
    assert {"memory_mb", "vcores", "since_s", "seq", "ran_s", "wait_s", "decisions", "slots", "starts_in_s"} <= names
    assert read_report(whole().model_dump_json().encode()).model_dump() == whole().model_dump()


@pytest.mark.parametrize("number", BEYOND)
def test_a_number_beyond_the_bounds_is_refused_at_each_place(number: str) -> None:
    for place in PLACES:
        with pytest.raises(ValidationError):
            read_report(with_number(place, number))


@pytest.mark.parametrize("number", WITHIN)
def test_no_number_within_the_bounds_stops_a_round_or_an_application(number: str) -> None:
    """Each would have failed for all nodes and applications, round by round."""
    for place in PLACES:
        try:
            received = read_report(with_number(place, number))
        except ValidationError:
            continue
        world = coordinator(nodes=2)
        am = Am(world)
        am.asks(row("*", 4))
        am.gets(*(container(n, 1, one) for n, one in zip((8, 9), granted_rows(am.sent.ask).values(), strict=False)))
        assert am.attempt.live.get(cid(9)) is not None
        for now_s in (1.0, 2.0, 9.0):
            world.reports.report(node_id(1), received, now_s)
            world.reports.report(node_id(2), report(2), now_s)
            world.rounds.all_parts(now_s)
            am.now_s = now_s
            am.asks(row("*", 2))
            am.gets()
            world.inventory.queue("root.default")
            world.take_effects()


@pytest.mark.parametrize("headers", [JSON, {"content-type": "application/json; charset=utf-8"}])
def test_the_call_is_answered_with_what_is_wrong(tmp_path: Path, headers: dict[str, str]) -> None:
    """On the short way and on the route, whose JSON knows NaN."""
    with small_proxy(tmp_path) as proxy:
        client = TestClient(proxy.app(), "http://localhost", raise_server_exceptions=False)
        path = f"/v1/nodes/{node_id(1)}/report"
        for number in BEYOND:
            answer = client.post(path, content=with_number(("vcores",), number), headers=headers)
            assert answer.status_code == 422 and "vcores" in answer.json()["error"]["message"], answer.text
        assert client.post(path, content=json.dumps(DATA).encode(), headers=headers).status_code == 200
