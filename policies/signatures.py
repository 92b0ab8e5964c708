"""The signature of each slot's function, as protocols; `decide` of a policy has one of these."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

from policies.base import PolicyConfig
from policies.model import AppView, Ask, ContainerView, NodeView, Placement, QueueView, Resources, Route

C = TypeVar("C", bound=PolicyConfig, contravariant=True)


class RouteFunction(Protocol[C]):
    """Decide whether one wanted container is guaranteed or queueable."""

    def __call__(self, ask: Ask, cfg: C, rng: Random) -> Route: ...  # noqa: D102


class PlaceFunction(Protocol[C]):
    """Choose the node where a queueable container waits."""

    def __call__(self, ask: Ask, nodes: Sequence[NodeView], cfg: C, rng: Random) -> Placement: ...  # noqa: D102


class OrderFunction(Protocol[C]):
    """Return the sort key of a waiting container: the lowest starts first."""

    def __call__(self, waiting: ContainerView, cfg: C, now_s: float) -> tuple[float, ...]: ...  # noqa: D102


class PreemptFunction(Protocol[C]):
    """Choose which running queueable containers make room for `need`; an empty list when they cannot."""

    def __call__(self, need: Resources, running: Sequence[ContainerView], cfg: C, now_s: float) -> list[str]: ...  # noqa: D102


class HeadroomFunction(Protocol[C]):
    """Return the headroom that the application is told, never negative."""

    def __call__(self, limit: Resources, app: AppView, cfg: C) -> Resources: ...  # noqa: D102


class QuotaFunction(Protocol[C]):
    """Return None when the queueable container may be asked for, or the reason why not (it then goes guaranteed)."""

    def __call__(self, ask: Ask, queue: QueueView, cfg: C) -> str | None: ...  # noqa: D102
