"""A container's history in sentences, for `quicksilver explain` and the REST API."""

from __future__ import annotations

from typing import Final

from rm_proxy.api_models import Decision, EventInfo, Explanation
from shell.messages import ContainerReport, ContainerState

_KINDS: Final = {"G": "guaranteed", "Q": "queueable"}
_EVENTS: Final = {
    "held": "its start was answered and waits at the node",
    "started": "the NodeManager started it",
    "ended": "its process ended",
    "shed": "it was given back before it started",
    "killed": "it was stopped to make room",
    "stopped": "its application master stopped it while it waited",
    "failed": "the NodeManager refused its start",
    "lost": "it was lost before its start",
}
_SHOWN: Final = 5


def tell(known: Explanation) -> list[str]:
    """Return sentences in order: why this kind, why this node, what happened there, what the application was told."""
    story: list[str] = []
    if known.decision:
        story += _decision(known.decision)
    story += [_event(event) for event in known.events]
    if known.live:
        live = known.live.container
        why = f": {live.why}" if live.why else ""
        story.append(f"It is {live.state.value} at {known.live.node_id} for {live.since_s:.1f} s{why}.")
        story += _service(live, known.live.report_age_s)
    if known.completion:
        end = known.completion
        was = end.original_exit_status
        translated = f" (the ResourceManager said {was})" if was is not None and was != end.exit_status else ""
        said = f": {end.diagnostics.strip()}" if end.diagnostics.strip() else ""
        story.append(f"Its application master was told exit status {end.exit_status}{translated}{said}")
    return story


def _decision(made: Decision) -> list[str]:
    story = [f"It went {_KINDS[made.kind]}: {made.route_reason}."]
    if made.shadow:
        story.append(f"In shadow mode; the route policy would have made it {_KINDS[made.shadow]}.")
    delay = f"{made.delay_s * 1000:.0f} ms" if made.delay_s < 1 else f"{made.delay_s:.1f} s"
    story.append(f"It was delivered on {made.node_id} {delay} after it was asked for.")
    if made.wanted_node and made.wanted_node != made.node_id:
        story.append(f"It was steered to {made.wanted_node}; the ResourceManager granted it elsewhere.")
    if made.place_reason:
        story.append(f"Why this node: {made.place_reason}.")
    if made.scores:
        best = ", ".join(f"{c.node} {'inf' if c.score is None else f'{c.score:g}'}" for c in made.scores[:_SHOWN])
        more = len(made.scores) - _SHOWN
        story.append(f"Candidates ({made.unit}, lower is better): {best}{f', and {more} more' if more > 0 else ''}.")
    return story


def _service(live: ContainerReport, age_s: float) -> list[str]:
    """Tell what a container was given, and when and for whom it was shrunk last; `age_s` is the report's."""
    story = []
    if live.attained_s is not None:
        now = f", and may use {live.cores:g} cores now" if live.cores is not None else ""
        story.append(f"It was given {live.attained_s:.1f} s of CPU so far{now}.")
    if live.times_shrunk:
        ago_s = live.since_s if live.state is ContainerState.SHRUNK else live.shrunk_ago_s
        ago = f" {ago_s + age_s:.1f} s ago" if ago_s is not None else ""
        by = f" {live.shrunk_by} took its place" if live.shrunk_by else ""
        last = f"; the last time{ago}{',' if ago and by else ''}{by}" if ago or by else ""
        story.append(f"It was shrunk {_times(live.times_shrunk)}{last}.")
    return story


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _event(event: EventInfo) -> str:
    text = f"{_EVENTS.get(event.kind, event.kind)}"
    if event.kind == "started":
        text += f" after {event.waited_s:.1f} s of waiting"
    if event.ran_s is not None:
        text += f" after {event.ran_s:.1f} s"
    if event.attained_s is not None:
        text += f", given {event.attained_s:.1f} s of CPU"
    if event.times_shrunk:
        text += f", shrunk {_times(event.times_shrunk)}"
    reason = f" ({event.reason})" if event.reason else ""
    return f"At {event.node_id} {text}{reason}."
