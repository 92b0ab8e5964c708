"""The history of a container or an application in sentences, for `quicksilver explain` and the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quicksilver.common.messages import ContainerReport, ContainerState
from rm_proxy.views.cluster_models import ApplicationInfo
from rm_proxy.views.container_models import ChoiceInfo, CompletionInfo, Decision, EventInfo, Explanation, Score
from rm_proxy.views.history_models import AppStory, Counted, DelayFigures, LedgerRow

_KINDS: Final = {"G": "guaranteed", "Q": "queueable"}
_STATES: Final = {"waiting": "queued"}
_EVENTS: Final = {
    "held": "it was queued",
    "started": "the NodeManager started it",
    "ended": "its process ended",
    "shed": "it was removed from the queue before it started",
    "killed": "it was preempted: killed to make room",
    "stopped": "its application master stopped it while it was queued",
    "failed": "the NodeManager refused its start",
    "lost": "it was lost before its start",
}
_LOSSES: Final = {
    "shed": "a container was removed from the queue before it started",
    "killed": "a container was preempted: killed to make room",
    "failed": "a start was refused",
    "lost": "a start was lost",
    "stopped": "a queued container was stopped by its application master",
}
_ESTIMATES: Final = {
    "task": "the task ran before",
    "stage": "as its siblings took",
    "name": "as in earlier jobs of that name",
    "tag": "by a tag of the application, or of its request",
    "doubted tag": "by a tag of it, corrected: durations in tags of this user were wrong before",
    "rule": "by a rule of policies.estimate",
    "default": "the default: nothing is known of this job yet",
}
_CAUSES: Final = {
    "hold": "the limit of its time in the queue",
    "late": "a wrong estimate of when a core would be free",
    "full": "a full queue",
    "drain": "draining",
    "shed": "the shed policy",
    "police": "the police policy",
    "steal": "the steal policy",
    "correct": "the correct policy",
    "quota": "a lowered quota",
    "restart": "a restart of the ResourceManager",
    "admit": "the admission of applications",
    "proxy": "the proxy",
    "room": "room for a guaranteed container",
    "memory": "the memory guard",
    "queued": "the queue of its NodeManager",
}
_SHOWN: Final = 5


def tell(known: Explanation) -> list[str]:
    """Return sentences in order: why this kind, why this node, the events there, the application's exit status."""
    story: list[str] = []
    if known.decision:
        story += _decision(known.decision)
    happened = [(event.at_s, _event(event)) for event in known.events]
    happened += [(choice.at_s, _choice(choice)) for choice in known.choices]
    story += [text for _, text in sorted(happened, key=lambda item: item[0])]
    if known.live:
        live = known.live.container
        why = f": {live.why}" if live.why else ""
        state = _STATES.get(live.state.value, live.state.value)
        story.append(f"It has been {state} at {known.live.node_id} for {live.since_s:.1f} s{why}.")
        if live.starts_in_s is not None:
            story.append(f"It is expected to start {live.starts_in_s:.1f} s after the last report.")
        if live.bypassed_s:
            story.append(f"Later ones started before it; they are expected to take {live.bypassed_s:.1f} s.")
        story += _service(live, known.live.report_age_s)
    if known.completion:
        story.append(_completion(known.completion))
    if known.followed_by:
        story.append(f"Requested in its place: {_some(known.followed_by)}.")
    return story


def _completion(end: CompletionInfo) -> str:
    was = end.original_exit_status
    translated = f" (the ResourceManager gave {was})" if was is not None and was != end.exit_status else ""
    details = f": {end.diagnostics.strip()}" if end.diagnostics.strip() else "."
    return f"Its application master received exit status {end.exit_status}{translated}{details}"


def _decision(decision: Decision) -> list[str]:
    story = []
    if decision.follows:
        story.append(f"It replaces {decision.follows}; its task was lost {_times(decision.retries)} before.")
    story.append(f"It was requested as {_KINDS[decision.kind]}: {decision.route_reason}.")
    if decision.shadow:
        story.append(f"In shadow mode; the route policy would have made it {_KINDS[decision.shadow]}.")
    if decision.expected_by:
        spread = f", give or take {_short(decision.spread_s)} s" if decision.spread_s else ""
        source = _ESTIMATES.get(decision.expected_by, decision.expected_by)
        story.append(f"Expected run time {_short(decision.expected_s)} s{spread} ({source}).")
    delay = f"{decision.delay_s * 1000:.0f} ms" if decision.delay_s < 1 else f"{decision.delay_s:.1f} s"
    story.append(f"It was allocated on {decision.node_id} {delay} after the request.")
    if decision.wanted_node and decision.wanted_node != decision.node_id:
        story.append(f"It was requested on {decision.wanted_node}; the ResourceManager allocated it elsewhere.")
    if decision.place_reason:
        story.append(f"Why this node: {decision.place_reason}.")
    if decision.scores:
        story.append(f"Candidates ({decision.unit}, lower is better): {_candidates(decision.scores)}.")
    return story


def _candidates(scores: Sequence[Score]) -> str:
    return _some([f"{c.node} {'inf' if c.score is None else f'{c.score:g}'}" for c in scores])


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return f"{', '.join(names[:_SHOWN])}{f', and {more} more' if more > 0 else ''}"


def _choice(choice: ChoiceInfo) -> str:
    """Return a sentence on a decision about a container after its allocation."""
    policy = f"{choice.slot}: {choice.policy}" if choice.policy else choice.slot
    where = f" at {choice.node_id}" if choice.node_id else ""
    scores = f"; candidates ({choice.unit}): {_candidates(choice.scores)}" if choice.scores else ""
    if choice.alternative:
        pick = "the same" if choice.other == choice.chosen else choice.other
        return f"In shadow, {choice.alternative} ({policy}){where} would have decided {pick}: {choice.reason}{scores}."
    return f"Decided ({policy}){where}: {choice.chosen}: {choice.reason}{scores}."


def tell_application(known: AppStory) -> list[str]:
    """Return sentences on an application: the kinds of its containers and why, their waits, losses and savings."""
    story = _now(known.live) if known.live else []
    for kind, name in _KINDS.items():
        routes = [route for route in known.routes if route.what == kind]
        if routes:
            total = sum(route.count for route in routes)
            were = "was" if total == 1 else "were"
            story.append(f"{_count(total, 'container')} {were} requested as {name}:")
            story += [f"  {route.count}: {route.why}" for route in routes]
    for kind, delay in (("G", known.allocation_g), ("Q", known.allocation_q)):
        story += _delay(f"{_KINDS[kind]} ones were allocated after", delay)
    story += _delay("queueable ones were queued at their nodes for", known.queueing)
    if known.retried:
        replaced = "replaced others that were lost, killed or removed from a queue"
        story.append(f"{_count(known.retried, 'container')} {replaced}.")
    story += [_happened(event) for event in known.events if event.what in _LOSSES]
    story += [f"Decided ({choice.what}): {choice.why}: {_times(choice.count)}." for choice in known.choices]
    return story + (_costs(known.ledger) if known.ledger else [])


def _now(live: ApplicationInfo) -> list[str]:
    why = f": {live.mode_reason}" if live.mode_reason else ""
    pending = f"Pending: {live.wanted_g} guaranteed and {live.wanted_q} queueable containers"
    return [f"It runs in {live.mode} mode{why}. {pending}; allocated: {live.live_g} and {live.live_q}."]


def _delay(subject: str, delays: DelayFigures) -> list[str]:
    if delays.p50_s is None or delays.p95_s is None or delays.max_s is None:
        return []
    text = f"The {subject} {delays.p50_s:.3f} s (median), {delays.p95_s:.3f} s (p95), {delays.max_s:.3f} s at most"
    still = (
        f", with {_count(delays.waiting, 'container')} that still wait, by the waits so far" if delays.waiting else ""
    )
    return [f"{text}{still}."]


def _happened(event: Counted) -> str:
    why = f", cause {event.why}" if event.why else ""
    return f"At the nodes {_LOSSES[event.what]}{why}: {_times(event.count)}."


def _costs(row: LedgerRow) -> list[str]:
    story = [f"Kills lost {row.lost_s:.1f} task-seconds of {row.lost_s + row.work_s:.1f}."]
    if row.shrinks:
        story.append(
            f"Shrinking {_times(row.shrinks)} saved {row.saved_s:.1f} task-seconds that kills would have lost."
        )
    if row.promotions:
        were = "was" if row.promotions == 1 else "were"
        story.append(f"{_count(row.promotions, 'container')} of it {were} promoted to guaranteed.")
    return story


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _service(live: ContainerReport, age_s: float) -> list[str]:
    """Return what a container was given, and when and for whom it was shrunk last; `age_s` is the report's."""
    story = []
    if live.attained_s is not None:
        now = f", and may use {live.cores:g} cores now" if live.cores is not None else ""
        story.append(f"It used {live.attained_s:.1f} s of CPU so far{now}.")
    if live.times_shrunk:
        ago_s = live.since_s if live.state is ContainerState.SHRUNK else live.shrunk_ago_s
        ago = f" {ago_s + age_s:.1f} s ago" if ago_s is not None else ""
        by = f" {live.shrunk_by} took its place" if live.shrunk_by else ""
        last = f"; the last time{ago}{',' if ago and by else ''}{by}" if ago or by else ""
        story.append(f"It was shrunk {_times(live.times_shrunk)}{last}.")
    return story


def _short(amount_s: float) -> str:
    """Write seconds with a decimal only where there is one."""
    return f"{amount_s:.1f}".removesuffix(".0")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _event(event: EventInfo) -> str:
    text = f"{_EVENTS.get(event.kind, event.kind)}"
    if event.kind == "started":
        text += f" after {event.waited_s:.1f} s in the queue"
    if event.ran_s is not None:
        text += f" after {event.ran_s:.1f} s"
    if event.attained_s is not None:
        text += f", used {event.attained_s:.1f} s of CPU"
    if event.times_shrunk:
        last = f", the last time for {event.cause}" if event.kind == "ended" and event.cause else ""
        text += f", shrunk {_times(event.times_shrunk)}{last}"
    if event.saved_s:
        text += f", which saved {event.saved_s:.1f} s of CPU that kills would have lost"
    cause = _CAUSES.get(event.cause, event.cause) if event.kind != "ended" else ""
    why = ": ".join(text for text in (cause, event.reason) if text)
    return f"At {event.node_id} {text}{f' ({why})' if why else ''}."
