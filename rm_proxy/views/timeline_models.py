"""Answers of the REST API on containers over time. Times are Unix seconds, durations seconds."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from policies.model import Resources
from rm_proxy.views.container_models import EventInfo
from rm_proxy.views.history_models import DelayFigures


class ContainerEventInfo(EventInfo):
    """An event of a container, with its names."""

    container_id: str
    app_id: str
    container_kind: Literal["G", "Q", ""] = ""
    """"" where the container's delivery is not known."""


class AppContainer(BaseModel):
    """An allocated container and its times."""

    container_id: str
    kind: Literal["G", "Q"]
    node_id: str
    priority: int
    resources: Resources
    asked_s: float
    granted_s: float
    started_s: float | None = None
    """When the NodeManager took its start; null before."""
    ended_s: float | None = None
    end: Literal["", "ended", "killed", "shed", "moved", "stopped", "failed", "lost"] = ""
    """How it ended; "" while it has not, or where nothing was reported."""
    cause: str = ""
    """Who wanted a kill or a shed, in one word."""
    reason: str = ""
    waited_s: float = 0.0
    """At its node, before it started."""
    ran_s: float | None = None
    attained_s: float | None = None
    times_shrunk: int = 0
    exit_status: int | None = None
    """As its application master received it."""
    route_reason: str
    """Why it is guaranteed or queueable."""
    retries: int = 0
    follows: str = ""
    """The lost container that it was asked for in the place of."""
    now: str = ""
    """State at its node by the last report: waiting, starting, running, shrunk; "" where it is no longer there."""
    why: str = ""
    """Of a waiting or shrunk one: why."""
    shrunk: list[tuple[float, float]] = []
    """From and to, as far as the proxy saw it; on the dashboard's page alone."""


class WaitBucket(BaseModel):
    """Waits of one span of time."""

    from_s: float
    allocation_g: DelayFigures
    """From ask to delivery, by the time of delivery."""
    allocation_q: DelayFigures
    queueing: DelayFigures
    """Of Qs at their nodes, by the time of their start."""


class WaitHistogram(BaseModel):
    """Waits of an application's containers over time."""

    app_id: str
    bucket_s: float
    all: WaitBucket
    """Of the whole time."""
    buckets: list[WaitBucket]
    """In order of time; without those in which nothing happened."""
    complete: bool = True
    """False where there are more containers than are counted: then these are the newest ones."""
