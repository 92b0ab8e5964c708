"""Which state follows from what YARN and a master say; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from quicksilver_apps.server.backend import YarnReport, YarnState
from quicksilver_apps.server.records import InstanceSpan, ServedApplication
from quicksilver_apps.server.states import State

_BEFORE: Final = (State.SUBMITTED, State.ACCEPTED)
_RUNNING: Final = (State.STARTING, State.READY)
_GONE: Final = ("ended", "lost")
Next = tuple[State, str]


def after_report(record: ServedApplication, report: YarnReport) -> Next | None:
    """Return the state that follows from a report, with the reason; None when it stays."""
    match report.state:
        case YarnState.NEW:
            return None
        case YarnState.ACCEPTED if record.state is State.SUBMITTED:
            return State.ACCEPTED, "YARN's scheduler has it"
        case YarnState.ACCEPTED if record.state in _RUNNING:
            return State.ACCEPTED, "its master ended and is started again"
        case YarnState.RUNNING if record.state in _BEFORE:
            return State.STARTING, "its master runs"
        case YarnState.FINISHED | YarnState.FAILED | YarnState.KILLED:
            return _end(record, report)
    return None


def _end(record: ServedApplication, report: YarnReport) -> Next:
    message = report.diagnostics.strip().partition("\n")[0]
    if report.state is YarnState.FINISHED and report.succeeded:
        return State.FINISHED, message or "it succeeded"
    if record.kill_s is not None or report.killed or report.state is YarnState.KILLED:
        return State.KILLED, record.kill_why or message or "killed at YARN"
    return State.FAILED, message or "it failed; YARN has no reason"


def after_view(state: State, view: Mapping[str, Any]) -> Next | None:
    """Return the state that follows from what a running master says of its application; None when it stays."""
    if state not in _RUNNING:
        return None
    if view.get("state") in ("ending", "ended"):
        return State.ENDING, str(view.get("diagnostics") or "its master ends it")
    if view.get("state") == "running" and state is State.STARTING and _cores_ready(view):
        return State.READY, "its core instances are ready"
    if state is State.READY and not _cores_ready(view):
        return State.STARTING, "a core instance ended and is started again"
    return None


def _cores_ready(view: Mapping[str, Any]) -> bool:
    """Return whether each service has its core instances; one whose instances ended by themselves had them."""
    services = view.get("services", [])
    return all(each.get("state") == "ended" or each.get("ready", 0) >= each.get("core", 0) for each in services)


def spans_of(
    app_id: str, view: Mapping[str, Any], before: Mapping[str, InstanceSpan], now_s: float
) -> list[InstanceSpan]:
    """Return the containers that a master reports, with the times that were seen before.

    before: the containers that are known, by their id.
    """
    spans = []
    for service in view.get("services", []):
        for instance in service.get("instances", []):
            if container := str(instance.get("container_id") or ""):
                earlier = before.get(container)
                spans.append(_span(app_id, str(service["name"]), instance, earlier, now_s))
    seen = {span.container_id for span in spans}
    places = {(span.service, span.number) for span in spans}
    gone = [span for span in before.values() if span.ended_s is None and span.container_id not in seen]
    return [*spans, *(_gone(span, (span.service, span.number) in places, now_s) for span in gone)]


def _span(
    app_id: str, service: str, instance: Mapping[str, Any], earlier: InstanceSpan | None, now_s: float
) -> InstanceSpan:
    state, since_s = str(instance.get("state", "")), float(instance.get("since_s") or now_s)
    ready_s = earlier.ready_s if earlier else None
    ended_s = earlier.ended_s if earlier else None
    return InstanceSpan(
        app_id=app_id,
        service=service,
        number=int(instance["index"]),
        container_id=str(instance["container_id"]),
        kind=str(instance.get("kind", "")),
        node=str(instance.get("node") or ""),
        state=state,
        log_url=str(instance.get("log_url") or ""),
        exit_status=instance.get("exit_status"),
        started_s=earlier.started_s if earlier else min(since_s, now_s),
        ready_s=since_s if ready_s is None and state == "ready" else ready_s,
        ended_s=since_s if ended_s is None and state in _GONE else ended_s,
        diagnostics=str(instance.get("diagnostics") or "")[:2000],
    )


def _gone(span: InstanceSpan, replaced: bool, now_s: float) -> InstanceSpan:
    """Return a container that its master does not report any more: given back, or another one has its place."""
    return replace(span, state="lost" if replaced else "ended", ended_s=now_s)
