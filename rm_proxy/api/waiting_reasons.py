"""Why the containers of an application wait now, in words: read from the coordinator's state, which stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from policies.decisions.quotas import not_admitted, over_at_binding
from policies.errors import PolicyFaultError
from policies.model import Ask, NodeView, QueueView, Resources
from policies.value_types import replace
from quicksilver.common.messages import ContainerState
from rm_proxy.attempt.asks.ask_entry import AskEntry, Reason
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.routing.request_view import RequestView, read_view
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.dispatch.central_queue import Turn
from rm_proxy.views.waiting_models import HeldStartCounts, NodeCount, OutstandingAsk, WaitReason, WaitsNow

MAX_ASKS: Final = 100
MAX_HOSTS: Final = 20
_LIMIT: Final = "; shed in "
"""Begins the part of a sidecar's reason that differs from container to container."""
_SILENT_S: Final = 5.0
"""Time without a call of the application master that is worth a word."""


def waits_now(coordinator: Coordinator, attempt: Attempt, now_s: float) -> WaitsNow:
    """Return what an attempt's outstanding asks, and its containers at nodes, wait for."""
    app = attempt.app
    mode = coordinator.modes.mode(app) if app is not None else "active"
    view = read_view(coordinator, app, mode, attempt.live, attempt.table.sums) if app is not None else None
    turn = coordinator.central.turn(attempt.id, now_s)
    entries = [entry for entry in attempt.entries if _count(entry)]
    entries.sort(key=_count, reverse=True)
    reading = _Reading(coordinator, attempt, turn, now_s)
    asks = [reading.ask(entry, view) for entry in entries[:MAX_ASKS]]
    starts = sorted(_starts(coordinator, attempt.app_id), key=lambda start: -start.longest_s)
    return WaitsNow(
        app_id=attempt.app_id,
        at_s=now_s,
        wanted=sum(_count(entry) for entry in entries),
        held=sum(start.count for start in starts),
        story=_story(asks, starts),
        asks=asks,
        asks_left_out=max(0, len(entries) - MAX_ASKS),
        at_nodes=starts[:MAX_ASKS],
    )


class _Reading:
    """One look at an attempt."""

    def __init__(self, coordinator: Coordinator, attempt: Attempt, turn: Turn | None, now_s: float) -> None:
        self._coordinator, self._attempt, self._turn, self._now_s = coordinator, attempt, turn, now_s

    def ask(self, entry: AskEntry, view: RequestView | None) -> OutstandingAsk:
        times_s = [reason.asked_s for reason in (*entry.g_reasons, *entry.q_reasons)]
        times_s += [q.reason.asked_s for q in entry.pending.values()]
        ask = self._attempt.router.ask(entry, view) if view is not None else None
        nodes = self._nodes(ask) if ask is not None and entry.q_wanted else Counter()
        hosts, _ = entry.rows.hints()
        return OutstandingAsk(
            priority=entry.key.priority,
            request_id=entry.key.request_id,
            opportunistic=entry.key.opportunistic,
            resources=entry.resources,
            label=ask.label if ask is not None else entry.rows.label or "",
            hosts=sorted(hosts)[:MAX_HOSTS],
            anywhere=entry.rows.anywhere,
            guaranteed=entry.g_share,
            without_node=entry.q_wanted,
            at_node=len(entry.pending),
            oldest_s=max(0.0, self._now_s - min(times_s)) if times_s else 0.0,
            reasons=list(self._reasons(entry, ask, view, nodes)),
            nodes=[NodeCount(what=state, count=count) for state, count in nodes.most_common()],
        )

    def _reasons(
        self, entry: AskEntry, ask: Ask | None, view: RequestView | None, nodes: Counter[str]
    ) -> Iterator[WaitReason]:
        if entry.q_wanted:
            if ask is None or view is None:
                text = "the ResourceManager's REST has not reported the application yet"
                yield WaitReason(code="mode", count=entry.q_wanted, text=text)
            else:
                code, text = self._why_no_node(entry, ask, view, nodes)
                yield WaitReason(code=code, count=entry.q_wanted, text=text)
        if entry.pending:
            tries = max(q.tries for q in entry.pending.values())
            where = _named(sorted({q.node_id for q in entry.pending.values()}))
            again = f"; the ResourceManager did not grant them elsewhere, this is node {tries}" if tries > 1 else ""
            text = f"the ResourceManager is asked for them on {where} and grants them with the next call{again}"
            yield WaitReason(code="granting", count=len(entry.pending), text=text)
        if entry.g_share:
            queue = view.queue if view is not None and view.queue_known else None
            text = f"{_why_guaranteed(entry.g_reasons)}; {_of_scheduler(queue, entry.resources)}"
            yield WaitReason(code="scheduler", count=entry.g_share, text=text)

    def _why_no_node(self, entry: AskEntry, ask: Ask, view: RequestView, nodes: Counter[str]) -> tuple[str, str]:
        """Return code and words for containers without a node."""
        if view.mode != "active" and not entry.key.opportunistic:
            why = self._coordinator.modes.why_bypass(view.app.id)
            return "mode", f"{view.mode} mode{f': {why}' if why else ''}; with the next call they become guaranteed"
        try:
            over = self._over(ask, view)
        except PolicyFaultError as error:
            return "policy-fault", f"a policy failed: {error}"
        if over is not None:
            return over
        takes = nodes["free"] + nodes["full"]
        if not takes:
            return "nowhere", f"no node may take them ({_counted(nodes) or 'none is known'})"
        if not nodes["free"]:
            full = "the node that may take them is" if takes == 1 else f"all {takes} nodes that may take them are"
            return "full", f"{full} full{self._ahead()}"
        has = f"{_nodes(nodes['free'])} {'has' if nodes['free'] == 1 else 'have'} a free place"
        return self._claimed(entry, ask) or ("next-call", f"{has}; {self._call()}")

    def _over(self, ask: Ask, view: RequestView) -> tuple[str, str] | None:
        """Return the token or quota that keeps a container from getting a node."""
        policies, attempt = self._coordinator.policies, self._attempt
        if view.sums is not None:
            app = view.with_nodes(len(attempt.table.by_private))
            portion = self._coordinator.admissions.portion(attempt.id, ask.priority, self._now_s)
            admission = not_admitted(policies, replace(ask, app=app, portion=portion), view.queue)
            if admission is not None and admission.wait:
                return "tokens" if portion is None else "admission", admission.reason
        why = over_at_binding(policies, ask, view.queue)
        return ("quota", why) if why is not None else None

    def _claimed(self, entry: AskEntry, ask: Ask) -> tuple[str, str] | None:
        """Return who has claims on the places that are free."""
        turn, central = self._turn, self._coordinator.central
        if turn is None or central.allowance(self._attempt.id, ask.label, entry.resources, self._now_s):
            return None
        if turn.kept_for:
            return "share", f"the free places are kept for {'; '.join(turn.kept_for)}, further behind their shares"
        return "order", f"the free places are kept for applications that go before it{self._ahead()}"

    def _ahead(self) -> str:
        turn = self._turn
        if turn is None:
            return ""
        parts = []
        if turn.apps_before:
            apps = "another application" if turn.apps_before == 1 else f"{turn.apps_before} other applications"
            parts.append(f"{apps} {'goes' if turn.apps_before == 1 else 'go'} before, wanting {turn.wanted_before}")
        if turn.kept_for:
            parts.append(f"the next places go to {'; '.join(turn.kept_for)}")
        return "".join(f"; {part}" for part in parts)

    def _call(self) -> str:
        if self._turn is not None and self._turn.silent_s > _SILENT_S:
            return f"the application master has not called for {self._turn.silent_s:.0f} s, and gets them when it does"
        return "they get it with the application master's next call"

    def _nodes(self, ask: Ask) -> Counter[str]:
        """Count all nodes by what they are to an ask."""
        coordinator = self._coordinator
        free = coordinator.central.free.by_node(ask.label, ask.resources)
        return Counter(_state(ask, node.view, node_id in free) for node_id, node in coordinator.nodes.items())


def _state(ask: Ask, node: NodeView, free: bool) -> str:
    """Return what a node is to an ask; the same checks as `Ask.tier` makes, in their order."""
    if not node.usable:
        return "unusable"
    if node.label != ask.label:
        return "other label"
    if node.host in ask.app.kept_off:
        return "kept for short jobs"
    if not ask.blacklist.isdisjoint((node.host, node.rack, node.id)):
        return "blacklisted"
    if not ask.resources.fits(node.capacity):
        return "too small"
    if ask.tier(node) is None:
        return (
            "policed" if node.limit_q is not None and not node.within_limit(ask.resources, Resources()) else "elsewhere"
        )
    return "free" if free else "full"


_WHAT: Final = {
    "unusable": "not usable",
    "other label": "with another label",
    "kept for short jobs": "kept for short jobs",
    "blacklisted": "on the application's blacklist",
    "too small": "too small",
    "policed": "without room by the police policy",
    "elsewhere": "not among the hosts that it names",
}


def _counted(nodes: Counter[str]) -> str:
    return ", ".join(f"{count} {_WHAT[state]}" for state, count in nodes.most_common() if state in _WHAT)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _named(names: list[str]) -> str:
    more = len(names) - 3
    return f"{', '.join(names[:3])}{f' and {more} more' if more > 0 else ''}"


def _why_guaranteed(reasons: Iterable[Reason]) -> str:
    counts: Counter[str] = Counter()
    for reason in reasons:
        counts[reason.text] += reason.count
    shown = [text for text, _ in counts.most_common(2)]
    return f"they are requested as guaranteed: {'; or: '.join(shown)}" if shown else "they are guaranteed"


def _of_scheduler(queue: QueueView | None, size: Resources) -> str:
    """Return whether the ResourceManager's scheduler has room in the queue for one more."""
    if queue is None:
        return "the ResourceManager's scheduler has not allocated them yet"
    used, limit = queue.used_g, queue.max_capacity
    if limit.memory_mb and not (used + size).fits(limit):
        text = f"{used.memory_mb} of {limit.memory_mb} MB, {used.vcores:g} of {limit.vcores:g} vcores"
        return f"queue {queue.name} is at its maximum ({text})"
    return f"the ResourceManager's scheduler has not allocated them yet (queue {queue.name})"


def _starts(coordinator: Coordinator, app_id: str) -> Iterator[HeldStartCounts]:
    """Yield the allocated containers that are queued at nodes, by node; why: of the one that waits longest there."""
    for node_id, node in coordinator.nodes.items():
        containers = node.report.containers if node.report is not None else ()
        waiting = [c for c in containers if c.app_id == app_id and c.state is ContainerState.WAITING]
        if not waiting:
            continue
        longest = max(waiting, key=lambda c: c.since_s)
        yield HeldStartCounts(
            node_id=node_id,
            count=len(waiting),
            why=longest.why.partition(_LIMIT)[0],
            longest_s=longest.since_s,
            starts_in_s=min((c.starts_in_s for c in waiting if c.starts_in_s is not None), default=None),
        )


def _count(entry: AskEntry) -> int:
    return entry.g_share + entry.q_wanted + len(entry.pending)


def _story(asks: list[OutstandingAsk], starts: list[HeldStartCounts]) -> list[str]:
    """Return the reasons in sentences, each once, the most containers first."""
    counts: Counter[str] = Counter()
    for ask in asks:
        for reason in ask.reasons:
            counts[reason.text] += reason.count
    for start in starts:
        counts[f"queued at a node: {start.why}" if start.why else "queued at a node"] += start.count
    return [f"{count} container{'' if count == 1 else 's'}: {text}." for text, count in counts.most_common(10)]
