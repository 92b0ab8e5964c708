"""Places in queues that move from one node to another within the proxy (Hawk, thesis §2.3.6; Apollo §3.4)."""

from __future__ import annotations

from collections.abc import Callable

from policies.model import NodeView
from rm_proxy.attempt.effects import Decided, Effect, Moved
from rm_proxy.domain.records import DecisionRecord
from rm_proxy.probes.probe_queue import Probe
from rm_proxy.probes.prober import Prober, ProbingJob


def may_go(job: ProbingJob, node: NodeView) -> bool:
    """Return whether an application may use a node for all that it waits for."""
    sizes = all(label == node.label and size.fits(node.capacity) for label, size in job.sizes)
    return sizes and node.host not in job.app.kept_off


def move(prober: Prober, probe: Probe, target: str, now_s: float) -> None:
    """Take a probe out of its queue and put one of its application at the end of another node's."""
    job = prober.jobs[probe.attempt_id]
    prober.remove(job, probe)
    prober.add(job, target, now_s, probe.moves + 1)


def tell(
    emit: Callable[[Effect], None],
    chosen_by: tuple[str, str],
    probe: Probe,
    app_id: str,
    target: str,
    reason: str,
    now_s: float,
    scores: tuple[tuple[str, float], ...] = (),
) -> None:
    """Report a move. chosen_by: slot and policy."""
    slot, policy = chosen_by
    record = DecisionRecord(
        at_s=now_s,
        slot=slot,
        policy=policy,
        app_id=app_id,
        container_id="",
        node_id=target,
        chosen=f"its place in the queue of {probe.node_id} moves to {target}",
        reason=reason,
        scores=scores,
        unit="s",
    )
    emit(Decided(record))
    emit(Moved(slot, "there"))
