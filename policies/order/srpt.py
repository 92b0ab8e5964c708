"""Start containers of the job that has the least work left (Eagle thesis §3.4.3, SRPT at the node).

The proxy estimates a job's remaining work over all nodes, again and again while the container waits. YARN's own
wishes come first: the priority of the queue, then of the application.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.overtaking import Bypassing, within_job, yarn_first
from policies.model import ContainerView


class Srpt(Bypassing):
    """Settings of srpt."""


def key(waiting: ContainerView, cfg: Srpt, now_s: float) -> tuple[float, ...]:
    """Return (-queue priority, -application priority, work left, job's submission, precedence, priority, arrival).

    A job has at least the waiting task left, also without an estimate.
    """
    left_s = max(waiting.job_remaining_s, waiting.expected_s)
    return (*yarn_first(waiting), left_s, waiting.job_submitted_s, *within_job(waiting))


POLICY = Policy("srpt", Srpt, key, steady=True)
