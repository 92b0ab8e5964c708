"""Interfaces between an application attempt and the rest of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random
from typing import Protocol

from hadoop_rpc.protos import yarn_pb2 as y
from policies.config.policy_set import Policies
from policies.config.schema import Mode
from policies.model import AppView, Ask, NodeView, Placement, Portion, QueueView, Resources
from rm_proxy.attempt.asks.ask_entry import QPlacement
from rm_proxy.attempt.held_containers import HeldContainer
from rm_proxy.dispatch.free_places import LabelledSize
from rm_proxy.dispatch.group_queue import Demand
from rm_proxy.domain.comparison import Compare
from rm_proxy.domain.hooks import Hooks
from rm_proxy.estimates.estimator import Expectation
from rm_proxy.minting.tokens import Minted


@dataclass(frozen=True, slots=True)
class Away:
    """A node that starts nothing: its NodeManager is down, or its sidecar is silent and may be dead."""

    why: str
    for_s: float
    nm_down: bool
    """Whether its sidecar reports, and reports the NodeManager as down."""


class Apps(Protocol):
    """Applications as the ResourceManager knows them."""

    def app(self, app_id: str) -> AppView | None:
        """Return the application's record, None while it is not known."""


class Modes(Protocol):
    """How applications are treated."""

    def mode(self, app: AppView) -> Mode:
        """Return how an application is treated: by its settings, or bypass by the error budget."""

    def why_bypass(self, app_id: str) -> str:
        """Return why the error budget or an order put an application into bypass; "" if neither did."""


class Inventory(Protocol):
    """Nodes and YARN queues, and what attempts use of them."""

    node_expiry_s: float
    """How long the ResourceManager waits for a node that is silent."""

    def is_lost(self, node_id: str) -> bool | None:
        """Return whether the ResourceManager's scheduler has removed a node; None if it does not list it."""

    def node(self, node_id: str) -> NodeView | None:
        """Return a node, None when it is not known."""

    def node_changed(self, node_id: str, usable: bool) -> None:
        """Handle a node's state from an answer of the ResourceManager."""

    def away(self, node_id: str, now_s: float) -> Away | None:
        """Return why a node starts nothing now; None if it may start containers, or is not known."""

    def crowded(self, size: Resources) -> frozenset[str]:
        """Return the hosts where a container of this size would take from others, if it does not everywhere."""

    def queue(self, name: str) -> QueueView | None:
        """Return a YARN queue with its queueable use, None when it is not known."""

    def queue_priority(self, name: str) -> int:
        """Return YARN's priority of a queue; 0 when it is not known."""

    def charge(self, attempt_id: str, used_q: Resources, used_g: Resources, over_q: Resources) -> None:
        """Note what an attempt's containers use.

        used_q: by queueable ones that it holds, or has asked for at nodes; used_g: by guaranteed ones that run; over_q:
        the part of used_q by those that ended at their nodes.
        """

    def hold_limit_s(self, app: AppView) -> float:
        """Return how long a start of this application may be held, in seconds."""


class GrantOutlook(Protocol):
    """Whether the ResourceManager grants queueable containers."""

    why_none: str
    """Why it grants none; "" while it may."""

    def refused(self, now_s: float) -> None:
        """Note that no node granted a container."""


class TaskDurationsView(Protocol):
    """Expected durations of tasks and jobs."""

    def expected(self, app: AppView, priority: int, follows: str = "") -> Expectation:
        """Return how long a task is expected to run; follows: its container that was shed or killed before."""

    def job_remaining_s(self, app_id: str, now_s: float) -> float:
        """Return the estimated task-seconds that an application has left; at most a round old."""

    def named(self, app_id: str, hints: Mapping[int, float]) -> None:
        """Handle durations (s) that requests of an application name, by priority."""


class Placing(Protocol):
    """Nodes for queueable containers."""

    compare: Compare

    def place(self, ask: Ask, avoid: Set[str], follows: str = "") -> Placement:
        """Choose a node for a queueable container, none of `avoid`.

        follows: the container in whose place it is asked for; where that one was shed for a node, it is tried first.
        """

    def has_room(self, resources: Resources) -> bool:
        """Return whether a queueable container of this size could start on some node now."""

    def count_asked(self, q: QPlacement) -> None:
        """Count a queueable container at the node where it is asked for, until it comes or is asked for no longer."""

    def count_granted(self, live: HeldContainer, q: QPlacement | None) -> None:
        """Count a queueable container at its node until the sidecar mentions it; `q` is what it was asked for as."""

    def match(self, asks: Sequence[Ask]) -> Sequence[str | None]:
        """Choose nodes for the containers of a request together; None for those that choose one after the other."""

    def compare_match(self, asks: Sequence[Ask]) -> None:
        """Compare choosing nodes for containers of a request one after the other with choosing them together."""


class WaitingLine(Protocol):
    """Containers of all applications that wait for a place."""

    def waits(
        self,
        attempt_id: str,
        demand: Demand,
        now_s: float,
        placed: int = 0,
        full: Collection[LabelledSize] = (),
    ) -> None:
        """Note which containers of an attempt wait for a place; raises PolicyFaultError when the order's policy fails.

        placed: how many just got a place; full: sizes for which it found none.
        """

    @property
    def idle(self) -> bool:
        """Whether nobody waits, so that an attempt that gets its places at once need not be known."""

    def placed(self, app: AppView, sizes: Mapping[LabelledSize, int], count: int, now_s: float) -> None:
        """Note that an application of which it did not know got places, of any of these sizes."""

    def waits_no_more(self, attempt_id: str, placed: int, now_s: float) -> None:
        """Note that no container of an attempt waits for a place; placed: how many just got one."""

    def allowance(self, attempt_id: str, label: str, size: Resources, now_s: float) -> int:
        """Return how many containers of this label and size an attempt that waits may place now."""

    def starved(self, app: AppView, label: str, size: Resources, asked_s: float, now_s: float) -> int:
        """Return how many containers an application may ask for as guaranteed: its queue and user are owed them.

        asked_s: since when they are wanted.
        """


class AppAdmissions(Protocol):
    """Applications that are admitted as a whole."""

    def portion(self, attempt_id: str, priority: int, now_s: float) -> Portion | None:
        """Return what an attempt has left of its application's share; None where it is not admitted as a whole."""

    def admits_whole(self) -> bool:
        """Return whether applications are admitted as a whole, so that none may ask before its record is known."""

    def crowded(self, app_id: str) -> frozenset[str]:
        """Return hosts without room for the core containers that an application waits for, where others have room.

        There queueable containers would have to make way.
        """

    def departed(self, app_id: str) -> None:
        """Note that an attempt of an application is over."""


class Moves(Protocol):
    """Queued containers that move to another node."""

    def move_target(self, follows: str) -> str:
        """Return the node for which a container was shed; "" for none."""

    def cancel_move(self, follows: str) -> None:
        """Cancel the move of a shed container: its replacement is requested as guaranteed."""


class Minting(Protocol):
    """Containers that the proxy grants itself."""

    def mint(
        self, container: y.ContainerProto, node_id: str, size: Resources, user: str, now_s: float
    ) -> Minted | None:
        """Complete a container on a node, and make its tokens; None where the ResourceManager has to grant it."""

    def fences(self, node_id: str, now_s: float) -> bool:
        """Return whether a node's sidecar starts no container of ours before the ResourceManager knows it."""

    def fenced_since(self, node_id: str, since_s: float) -> bool:
        """Return whether a node's sidecar was there all the time."""

    def refused(self, why: str, now_s: float) -> None:
        """Note that the ResourceManager takes no such containers."""


class Reports(Protocol):
    """What sidecars report of containers, and messages to them."""

    def registered(self, attempt_id: str, now_s: float) -> None:
        """Hand the containers that nodes hold for an attempt over to it, as it registered."""

    def promoted(self, node_id: str, container_id: str) -> None:
        """Inform a sidecar that a container of its node is guaranteed now."""


class ClusterView(Protocol):
    """The coordinator, as seen by an attempt."""

    policies: Policies
    rng: Random
    apps: Apps
    """Applications."""
    hooks: Hooks
    """Steps of the features that are on."""
    line: WaitingLine
    """Containers that wait for a place."""

    @property
    def modes(self) -> Modes:
        """How they are treated."""

    @property
    def inventory(self) -> Inventory:
        """Nodes and queues."""

    @property
    def grants(self) -> GrantOutlook:
        """Whether there are any."""

    @property
    def minter(self) -> Minting:
        """Containers that the proxy grants itself."""

    @property
    def durations(self) -> TaskDurationsView:
        """Expected durations."""

    @property
    def placer(self) -> Placing:
        """Nodes for containers."""

    @property
    def admissions(self) -> AppAdmissions:
        """Applications that are admitted as a whole."""

    @property
    def mover(self) -> Moves:
        """Containers that move."""

    @property
    def reports(self) -> Reports:
        """Reports of sidecars, and messages to them."""
