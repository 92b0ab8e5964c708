"""Health of the proxy: a function of facts about its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from quicksilver.common.process.version import version
from rm_proxy.config import Endpoints
from rm_proxy.views.service_models import Health

MAX_PROBLEMS: Final = 50
UNUSABLE_RATIO: Final = 0.05
"""Part of the nodes above which nodes that take no queueable containers, without an order, are a problem."""
ENCRYPTED_S: Final = 600.0
"""Seconds for which an encrypted connection counts as a problem after it was opened."""
_ENCRYPTED: Final = (
    "signed or encrypted connections of application masters pass unread, so that nothing of theirs becomes queueable: "
    "let this port speak hadoop.rpc.protection=authentication (docs/security.md)"
)


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Facts on which health depends; times are Unix seconds."""

    now_s: float
    started_s: float
    endpoints: Endpoints
    settings_version: str
    mode: str
    nodes: int
    nodes_usable: int
    unusable: Sequence[tuple[str, str]]
    """Nodes that YARN runs, that take no queueable containers and that nobody drained, each with the reason."""
    drained: Sequence[tuple[str, str]]
    """Nodes that are drained or decommissioning, each with the reason."""
    no_sidecar: Sequence[str]
    """Nodes that YARN runs and whose sidecar has not reported since the proxy started."""
    connections: int
    attempts: int
    restored: int
    store: str
    store_backlog: int
    store_outage: str | None
    rest_failures: Mapping[str, str]
    """Resources of the ResourceManager's REST that cannot be read, and why."""
    upstream_down: str | None
    encrypted_s: float
    """When an encrypted connection last passed unread; 0 never."""
    no_grants: str
    """Why the ResourceManager grants no queueable containers; "" while it may."""
    bypass: Sequence[str]
    """Problems that bypass adds."""
    bypass_ordered: str
    """Bypass by an order, in words; "" for none."""


def health(facts: HealthFacts) -> Health:
    """Return the answer of `/v1/health`: `degraded` as soon as there is one problem; notices change nothing."""
    problems = list(_problems(facts))
    endpoints = facts.endpoints
    return Health(
        status="degraded" if problems else "ok",
        version=version(),
        settings_version=facts.settings_version,
        started_s=facts.started_s,
        mode=facts.mode,
        listen=str(endpoints.listen),
        upstream=str(endpoints.upstream),
        rm_web=endpoints.rm_web,
        rm_reachable=facts.upstream_down is None and not facts.rest_failures,
        nodes=facts.nodes,
        nodes_usable=facts.nodes_usable,
        connections=facts.connections,
        attempts=facts.attempts,
        restored=facts.restored,
        store=facts.store,
        store_backlog=facts.store_backlog,
        problems=problems[:MAX_PROBLEMS],
        notices=list(islice(_notices(facts), MAX_PROBLEMS)),
    )


def not_ready(
    *, let_in: bool, serving: bool, down: str | None, nodes: int, rest_failures: Mapping[str, str]
) -> list[str]:
    """Return why application masters are not served, or get no queueable containers; nothing when all is there.

    let_in: whether the scheduler port is open; serving: whether this is not the standby.
    """
    reasons = []
    if not serving:
        reasons.append("standby: the ResourceManager behind is not active")
    elif not let_in:
        reasons.append(f"application masters are not let in: {down or 'the proxy starts'}")
    if not nodes:
        reasons.extend(f"no nodes are known: {why}" for why in dict.fromkeys(rest_failures.values()))
    return reasons


def _problems(facts: HealthFacts) -> Iterator[str]:
    yield from (f"the ResourceManager's REST: {why}" for why in dict.fromkeys(facts.rest_failures.values()))
    if facts.upstream_down is not None:
        yield f"the ResourceManager's scheduler cannot be reached: {facts.upstream_down}"
    if facts.store_outage is not None:
        yield f"the store accepts no rows: {facts.store_outage}"
    if facts.now_s - facts.encrypted_s < ENCRYPTED_S:
        yield _ENCRYPTED
    if facts.no_grants:
        yield f"no container is queueable, all go guaranteed at once: {facts.no_grants}"
    yield from facts.bypass
    if facts.no_sidecar and not facts.nodes_usable and not facts.unusable and not facts.drained:
        yield f"no sidecar has reported since the proxy started: {_some(facts.no_sidecar)}"
    if _many_unusable(facts):
        yield from _unusable(facts)


def _notices(facts: HealthFacts) -> Iterator[str]:
    """Yield what an admin ordered, what a roll-out brings with it, and nodes too few to be a problem."""
    if facts.bypass_ordered:
        yield facts.bypass_ordered
    yield from (f"node {node_id} takes no queueable containers, as ordered: {why}" for node_id, why in facts.drained)
    if facts.no_sidecar:
        count, all_nodes = len(facts.no_sidecar), facts.nodes
        yield f"{count} of {all_nodes} nodes without a report of a sidecar so far: {_some(facts.no_sidecar)}"
    if not _many_unusable(facts):
        yield from _unusable(facts)


def _many_unusable(facts: HealthFacts) -> bool:
    """Return whether more nodes are unusable than a large cluster always has, of those with a sidecar."""
    unusable = len(facts.unusable)
    return unusable > UNUSABLE_RATIO * (unusable + facts.nodes_usable)


def _unusable(facts: HealthFacts) -> Iterator[str]:
    yield from (f"node {node_id} takes no queueable containers: {why}" for node_id, why in facts.unusable)


def _some(node_ids: Sequence[str]) -> str:
    """Return the first nodes in words."""
    return ", ".join(node_ids[:3]) + (" and more" if len(node_ids) > 3 else "")
