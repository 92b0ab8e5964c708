"""Start containers of the job that was submitted first (Mercury, ATC '15, §4.3, queue reordering).

Before that, YARN's own wishes: the priority of the queue, then of the application. Within a job: what the application
needs first (precedence), then its request priority, then arrival.
"""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import ContainerView


def key(waiting: ContainerView, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return (-queue priority, -application priority, job's submission, precedence, request priority, arrival)."""
    return (
        -waiting.queue_priority,
        -waiting.app_priority,
        waiting.job_submitted_s,
        waiting.precedence,
        waiting.priority,
        waiting.arrived_s,
    )


POLICY = Policy("job_submission", NoSettings, key)
