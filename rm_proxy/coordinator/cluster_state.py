"""State shared by the parts of the coordinator: the policies in force, the nodes, and effects not yet carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from policies.config.policy_set import Policies
from policies.model import NodeView, Resources
from policies.waiting import WaitingApp
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.error_budget import BudgetLimits
from rm_proxy.coordinator.grant_watch import GrantWatch
from rm_proxy.coordinator.nodes.nodes import Node
from rm_proxy.dispatch.free_places import FreePlaces
from rm_proxy.dispatch.giving_way import GivingWay
from rm_proxy.dispatch.node_ranking import NodeRanking
from rm_proxy.domain.hooks import Hooks


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of the coordinator; seconds."""

    report_fresh_s: float = 6.0
    mapreduce_task_timeout_s: float = 600.0
    hold_by_type_s: dict[str, float] = field(default_factory=dict)
    no_promotion: str = ""
    """Why the ResourceManager promotes nothing; "" when it does."""
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    own_grants: bool = False
    """Whether the proxy grants queueable containers itself where it can."""
    minimum: Resources = field(default_factory=Resources)
    """The scheduler's least allocation, of which every other one is a multiple."""
    maximum: Resources = field(default_factory=Resources)
    """Its largest one; 0 for no limit."""
    token_expiry_s: float = 600.0
    """How long a container may be started after its grant."""
    node_expiry_s: float = 600.0
    """How long the ResourceManager waits for a node that is silent."""
    early_answers: bool = False
    """Whether applications get own grants before the ResourceManager answers, where sidecars hold their starts."""


@dataclass(slots=True)
class ClusterState:
    """State of the coordinator that has more than one reader or writer among its parts."""

    policies: Policies
    """In force now: one assignment replaces them, so that each decision is made by the old or the new ones alone."""
    rng: Random
    limits: Limits = field(default_factory=Limits)
    nodes: dict[str, Node] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    """Carried out after the next round."""
    urgent: list[Effect] = field(default_factory=list)
    """Carried out at once: drops of starts that no application waits for any more."""
    round_s: float = 0.0
    """Time of the last round; Unix seconds."""
    serving: bool = True
    """Whether application masters are let in; a proxy whose ResourceManager is standby only watches the nodes."""
    free: FreePlaces = field(init=False)
    ranking: NodeRanking = field(init=False)
    giving_way: GivingWay = field(default_factory=GivingWay)
    grants: GrantWatch = field(default_factory=GrantWatch)
    hooks: Hooks = field(default_factory=Hooks)
    """Steps of the features that are on by the policies in force."""

    def __post_init__(self) -> None:
        self.free, self.ranking = FreePlaces(self._view_of), NodeRanking(self.nodes)

    def bind_ahead(self) -> None:
        """Count the free places by the settings in force."""
        self.free.bind_ahead(self.policies.for_nodes.ahead_s())

    def node(self, node_id: str) -> Node:
        """Return a node, which is known from now on."""
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = Node(node_id, changed=(self.free.changed, self.ranking.changed))
        return node

    def dispatch_key(self, applicant: WaitingApp, now_s: float) -> tuple[float, ...]:
        """Return the sort key of an application whose containers wait for places, by the policy in force."""
        return self.policies.cluster.dispatch_key(applicant, now_s)

    def _view_of(self, node_id: str) -> NodeView | None:
        node = self.nodes.get(node_id)
        return node.view if node is not None else None
