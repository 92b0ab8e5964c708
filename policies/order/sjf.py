"""Start the container that is expected to run the shortest (SJF; Zoe §4 for applications).

Before that, YARN's own wishes: the priority of the queue, then of the application.
"""

from __future__ import annotations

from policies.base import Policy
from policies.common.overtaking import Bypassing, within_job, yarn_first
from policies.model import ContainerView


class Sjf(Bypassing):
    """Settings of sjf."""


def key(waiting: ContainerView, cfg: Sjf, now_s: float) -> tuple[float, ...]:
    """Return (-queue priority, -application priority, expected duration, job's submission, ..., arrival)."""
    return (*yarn_first(waiting), waiting.expected_s, waiting.job_submitted_s, *within_job(waiting))


POLICY = Policy("sjf", Sjf, key, steady=True)
