"""The signature of each slot's function, as protocols; `decide` of a policy has one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol, TypeVar

from policies.admission import Admission
from policies.base import PolicyConfig
from policies.model import (
    AppView,
    Ask,
    Candidates,
    ContainerView,
    Gap,
    JobClass,
    JobView,
    Limit,
    NodeQueue,
    NodeUse,
    NodeView,
    Placement,
    QueueView,
    Resources,
    Route,
    ShedTarget,
    WorkShares,
)
from policies.probes import NewTasks, ProbedNode
from policies.requests import AppRequest, Assignment, Room
from policies.waiting import WaitingApp

C = TypeVar("C", bound=PolicyConfig, contravariant=True)


class RouteFunction(Protocol[C]):
    """Decide whether one wanted container is guaranteed or queueable."""

    def __call__(self, ask: Ask, cfg: C, rng: Random) -> Route: ...  # noqa: D102


class ClassifyFunction(Protocol[C]):
    """Return the class of a job. Called again each second while it has none and when its estimates change."""

    def __call__(self, job: JobView, cfg: C) -> JobClass: ...  # noqa: D102


class PartitionFunction(Protocol[C]):
    """Return the ids of the nodes that are kept for short jobs.

    `nodes` are those of the default partition that the ResourceManager lists. Called every half minute, and when they
    change.
    """

    def __call__(self, nodes: Sequence[NodeView], shares: WorkShares, cfg: C) -> Sequence[str]: ...  # noqa: D102


class ProbeFunction(Protocol[C]):
    """Return the ids of the nodes in whose queues an application gets probes, one id for each probe.

    No node: its containers may go anywhere. `nodes` are those where they may go. Called when more tasks of it wait.
    """

    def __call__(  # noqa: D102
        self, tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: C, rng: Random
    ) -> Sequence[str]: ...


class DispatchFunction(Protocol[C]):
    """Return the sort key of an application whose asks wait for places: the lowest gets the next one.

    Free places are kept for an application only against others whose first element is higher: a policy with few
    different first elements leaves fewer places idle until their application heartbeats. An empty key is no order.
    The priorities of YARN queue and application come before it.
    """

    def __call__(self, applicant: WaitingApp, cfg: C, now_s: float) -> tuple[float, ...]: ...  # noqa: D102


class PlaceFunction(Protocol[C]):
    """Choose the node where a queueable container waits."""

    def __call__(self, ask: Ask, nodes: Sequence[NodeView], cfg: C, rng: Random) -> Placement: ...  # noqa: D102


class MatchFunction(Protocol[C]):
    """Return the node of each container of a request, or None for those that choose one after the other.

    Each has the candidates of the `place` policy. A node may stand for one container alone.
    """

    def __call__(self, tasks: Sequence[Candidates], cfg: C) -> Sequence[str | None]: ...  # noqa: D102


class OrderFunction(Protocol[C]):
    """Return the sort key of a waiting container: the lowest starts first."""

    def __call__(self, waiting: ContainerView, cfg: C, now_s: float) -> tuple[float, ...]: ...  # noqa: D102


class FillFunction(Protocol[C]):
    """Return whether a waiting container that fits may start now, though the first of the queue does not fit."""

    def __call__(self, waiting: ContainerView, gap: Gap, cfg: C) -> bool: ...  # noqa: D102


class PreemptFunction(Protocol[C]):
    """Choose which running queueable containers make room for `need`; an empty list when they cannot."""

    def __call__(self, need: Resources, running: Sequence[ContainerView], cfg: C, now_s: float) -> list[str]: ...  # noqa: D102


class HeadroomFunction(Protocol[C]):
    """Return the headroom to report to the application, never negative."""

    def __call__(self, limit: Resources, app: AppView, cfg: C) -> Resources: ...  # noqa: D102


class QuotaFunction(Protocol[C]):
    """Return None when the queueable container may be asked for, or the reason why not.

    It then goes guaranteed; if the policy is `at_binding`, it waits.
    """

    def __call__(self, ask: Ask, queue: QueueView, cfg: C) -> str | None: ...  # noqa: D102


class AdmitFunction(Protocol[C]):
    """Return what a container may be that its route made queueable; None leaves it as it is.

    Called when it is routed, then again and again while it has no node: then `ask.app.live_q` counts only containers
    that have one.
    """

    def __call__(self, ask: Ask, queue: QueueView, cfg: C) -> Admission | None: ...  # noqa: D102


class AssignFunction(Protocol[C]):
    """Return which applications are in service, and with how many elastic containers (Zoe, §3.2).

    Called when one arrives or ends, and each second. Those in service stay so; freed: whether resources came free since
    the last answer, so that elastic containers may be taken from those in service.
    """

    def __call__(  # noqa: D102
        self, requests: Sequence[AppRequest], room: Room, cfg: C, freed: bool, now_s: float
    ) -> Assignment: ...


class ShedFunction(Protocol[C]):
    """Return how much may wait at each node, by node id; a node that is not named has no limit.

    `nodes` are the usable ones. Called each round (Mercury §4.2: the Coordinator sends targets); damping comes later.
    """

    def __call__(self, nodes: Sequence[NodeView], cfg: C, now_s: float) -> Mapping[str, ShedTarget]: ...  # noqa: D102


class StealFunction(Protocol[C]):
    """Return ids of waiting containers, all of one of `others`, that the idle node `thief` takes over; may be empty."""

    def __call__(  # noqa: D102
        self, thief: NodeView, others: Sequence[NodeQueue], cfg: C, rng: Random, now_s: float
    ) -> list[str]: ...


class CorrectFunction(Protocol[C]):
    """Return why a waiting container should move from `here` to `best` (both without it), or None to leave it."""

    def __call__(  # noqa: D102
        self, waiting: ContainerView, here: NodeQueue, best: NodeView, cfg: C, now_s: float
    ) -> str | None: ...


class PoliceFunction(Protocol[C]):
    """Return the limit to queueable containers on a node, or None for no limit."""

    def __call__(self, use: NodeUse, cfg: C, now_s: float) -> Limit | None: ...  # noqa: D102


class PromoteFunction(Protocol[C]):
    """Return why a running queueable container should become guaranteed, or None to leave it."""

    def __call__(  # noqa: D102
        self, running: ContainerView, app: AppView, queue: QueueView, cfg: C, now_s: float
    ) -> str | None: ...
