"""lab/docs/states.md draws the transition tables of the code."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Kind, Resources
from rm_proxy.attempt.held_containers import STAGES, HeldContainer, Stage
from rm_proxy.attempt.registration.registration import (
    TRANSITIONS,
    AttemptEvent,
    AttemptState,
    IllegalTransitionError,
    Registration,
)
from sidecar.tracker.relay import TRANSITIONS as RELAY_TRANSITIONS
from tests.paths import LAB_DOCS

START = "[*]"


def registration() -> str:
    lines = [f"    {START} --> {AttemptState.NEW}"]
    lines += [
        f"    {state} --> {then}: {event}" for state, moves in TRANSITIONS.items() for event, then in moves.items()
    ]
    return "\n".join(["stateDiagram-v2", *lines])


def stages() -> str:
    lines = [f"    {source or START} --> {target or START}: {why}" for (source, target), why in STAGES.items()]
    return "\n".join(["stateDiagram-v2", *lines])


def tracker() -> str:
    lines = [f"    {START} --> {next(iter(RELAY_TRANSITIONS)).value}"]
    for state, moves in RELAY_TRANSITIONS.items():
        lines += [f"    {state.value} --> {then}" for then in sorted(one.value for one in moves)]
    return "\n".join(["stateDiagram-v2", *lines])


@pytest.mark.parametrize("table", [registration, stages, tracker])
def test_the_docs_draw_the_table(table: object) -> None:
    assert callable(table)
    text, name = (LAB_DOCS / "states.md").read_text(), table.__name__
    (drawn,) = re.findall(rf"<!-- {name} -->\n```mermaid\n(.*?)\n```\n<!-- /{name} -->", text, re.DOTALL)
    assert drawn == table(), f"write {name}() between the two marks of lab/docs/states.md"


@pytest.mark.parametrize("state", AttemptState)
@pytest.mark.parametrize("event", AttemptEvent)
def test_an_event_that_a_state_does_not_allow_is_an_error(state: AttemptState, event: AttemptEvent) -> None:
    one = Registration("appattempt_1_0001_000001")
    one.state = state
    if event in TRANSITIONS[state]:
        one.follow(event)
        assert one.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransitionError):
            one.follow(event)
        assert one.state is state


def test_a_container_never_goes_back() -> None:
    held = HeldContainer("c", y.ContainerIdProto(), "n:1", Kind.QUEUEABLE, 1, Resources(512, 1.0), 1.0, 0.0)
    seen = [held.stage]
    for report in (lambda: held.hold(1.0), lambda: held.start(2.0), lambda: held.hold(3.0), lambda: held.start(None)):
        report()
        seen.append(held.stage)
    assert seen == [Stage.DELIVERED, Stage.HELD, Stage.STARTED, Stage.STARTED, Stage.STARTED]
    assert held.started_s == 2.0
    assert all(pair in STAGES for pair in pairwise(seen) if pair[0] is not pair[1])
