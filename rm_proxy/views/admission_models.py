"""Answers of the REST API on whole applications: which are in service, and what each of them may have."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from policies.model import Resources


class AdmittedApplication(BaseModel):
    """One application as the `admit` policy sees it."""

    id: str
    name: str
    queue: str
    user: str
    type: str
    state: Literal["waiting", "in service"]
    submitted_s: float
    """Unix seconds."""
    entered_s: float | None
    """Since when it is in service, Unix seconds; null while it waits."""
    why: str
    """Why it waits; "" in service."""
    core: int
    """Core containers that it needs, without its master's."""
    core_held: int
    core_size: Resources
    """Of all its core containers."""
    elastic: int
    """Elastic containers that it could use now, those that it has included."""
    elastic_share: int
    """Elastic containers that it may have."""
    elastic_held: int
    runtime_s: float
    """Expected, with everything that it asks for, in seconds."""
    priority: int
    interactive: bool
    idle_until_s: float | None
    """Until then it gets no more elastic containers than it has, since some did nothing; Unix seconds."""


class AdmissionInfo(BaseModel):
    """The admission of whole applications."""

    policy: str
    """none, or tokens, where whole applications are not admitted; then there are no applications here."""
    room: Resources
    """What applications share: all nodes, without what masters and others use."""
    core_size: Resources
    """Of it, what the cores of those in service need."""
    reclaimed: int
    """Elastic containers that were ended for others since the proxy started."""
    idle: int
    """Elastic containers that were ended because they did nothing."""
    applications: list[AdmittedApplication]
    """Those in service first, then those that wait, each in the order of their arrival."""
