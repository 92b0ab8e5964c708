"""What the proxy says, as events for the node machine, in the order in which it holds."""

from __future__ import annotations

from typing import Any

import pytest

from quicksilver.common.messages import Ack, Grants
from sidecar.node.events import Dropped, Granted, NowKnown
from sidecar.service import proxy_answers
from sidecar.service.proxy_answers import handle_ack, handle_grants
from tests.sidecar.words import grant, node


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(proxy_answers.time, "time", lambda: 5.0)
    return []


class Queue:
    def __init__(self, events: list[Any]) -> None:
        self.put = events.append


def test_a_message_announces_confirms_and_drops(events: list[Any]) -> None:
    message = Grants(grants=[grant("a", known=False)], known=["a", "b"], drop=["c"], drop_reason="over")
    handle_grants(message, Queue(events))  # type: ignore[arg-type]
    assert events == [
        Granted((grant("a", known=False),), 5.0),
        NowKnown(("a", "b"), 5.0),
        Dropped(("c",), "over", 5.0),
    ]


def test_the_answer_to_a_report_confirms_too(events: list[Any]) -> None:
    ack = Ack(events_to=1, known=["a"], drop=["b"], drop_reason="over")
    assert not handle_ack(ack, node(), Queue(events))  # type: ignore[arg-type]
    assert events == [NowKnown(("a",), 5.0), Dropped(("b",), "over", 5.0)]
