"""Give no job a class: none is kept off the nodes of a partition."""

from __future__ import annotations

from policies.base import NoSettings, Policy
from policies.model import JobClass, JobView


def classify(job: JobView, cfg: NoSettings) -> JobClass:
    """Return no class."""
    return JobClass.NONE


POLICY = Policy("none", NoSettings, classify)
