"""Spans of a sidecar: how long a start was held, how long it took, and how long the container ran."""

from __future__ import annotations

from typing import Final

from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.common.process.tracing import Span, tracer
from sidecar.node.container import Container

_NEVER_STARTED: Final = (EventKind.SHED, EventKind.STOPPED, EventKind.FAILED, EventKind.LOST)


def trace_event(event: ContainerEvent, container: Container | None, node_id: str) -> None:
    """Trace the steps that end with an event; container: as the node knows it, None when it does not any more."""
    traces = tracer()
    if not traces.sampled(event.container_id):
        return
    about: dict[str, str | float] = {"yarn.node.id": node_id}
    if container is not None:
        about["quicksilver.kind"] = container.kind
    if event.kind is EventKind.STARTED:
        sent_s = container.sent_s if container is not None and container.sent_s else event.at_s
        if event.waited_s > 0:
            traces.add(Span(event.container_id, "hold", event.at_s - event.waited_s, sent_s, about))
        traces.add(Span(event.container_id, "start", sent_s, event.at_s, about))
    elif event.kind in (EventKind.ENDED, EventKind.KILLED):
        error = event.reason if event.kind is EventKind.KILLED else ""
        more = about | {"quicksilver.cause": event.cause, "quicksilver.times_shrunk": event.times_shrunk}
        if event.attained_s is not None:
            more["quicksilver.attained_s"] = event.attained_s
        traces.add(Span(event.container_id, "run", event.at_s - (event.ran_s or 0.0), event.at_s, more, error))
    elif event.kind in _NEVER_STARTED and event.waited_s > 0:
        error = f"{event.kind.value}: {event.reason}"
        more = about | {"quicksilver.cause": event.cause}
        traces.add(Span(event.container_id, "hold", event.at_s - event.waited_s, event.at_s, more, error))
