"""Policies that decide on all applications or nodes together: classes, order, shedding, moves, limits of queueables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from random import Random

from policies.common.app_admission import AppAdmission
from policies.common.damping import Damping
from policies.common.move_limits import Moving
from policies.common.probe_nodes import Probing
from policies.config.guarded_call import call
from policies.config.registry import BoundPolicy
from policies.errors import PolicyFaultError
from policies.model import (
    Candidates,
    ContainerView,
    JobClass,
    JobView,
    Limit,
    NodeQueue,
    NodeUse,
    NodeView,
    ShedTarget,
    WorkShares,
)
from policies.probes import NewTasks, ProbedNode
from policies.requests import AppRequest, Assignment, Room
from policies.waiting import WaitingApp


class ClusterSlots:
    """The slots `classify`, `partition`, `dispatch`, `probe`, `match`, `shed`, `police`, `steal` and `correct`.

    Also of `admit`, where it admits whole applications.

    choices: the policies in force by slot.
    """

    def __init__(self, choices: Mapping[str, BoundPolicy]) -> None:
        self._choices = choices

    def classify(self, job: JobView) -> JobClass:
        """Return the class of a job."""
        bound = self._choices["classify"]
        return call(bound, JobClass, job, bound.cfg)

    @property
    def classifies(self) -> bool:
        """Whether any job has a class."""
        return self._choices["classify"].name != "none"

    def partition(self, nodes: Sequence[NodeView], shares: WorkShares) -> frozenset[str]:
        """Return the ids of the nodes that are kept for short jobs."""
        bound = self._choices["partition"]
        answer = frozenset(call(bound, Sequence, nodes, shares, bound.cfg))  # type: ignore[type-abstract]
        if not answer <= {node.id for node in nodes}:
            raise PolicyFaultError(f"{bound}: chose nodes that are not there: {sorted(answer)[:3]}")
        return answer

    @property
    def partitions(self) -> bool:
        """Whether any node is kept for short jobs."""
        return self._choices["partition"].name != "none"

    def dispatch_key(self, applicant: WaitingApp, now_s: float) -> tuple[float, ...]:
        """Return the sort key of an application whose asks wait for places: the lowest gets the next one."""
        bound = self._choices["dispatch"]
        key: tuple[float, ...] = call(bound, tuple, applicant, bound.cfg, now_s)
        if any(not isinstance(part, int | float) or isnan(part) for part in key):
            raise PolicyFaultError(f"{bound}: answered {key!r}, which has no order")
        return key

    def probe(self, tasks: NewTasks, nodes: Sequence[ProbedNode], rng: Random) -> Sequence[str]:
        """Return the ids of the nodes in whose queues an application gets probes; none: it waits for any node."""
        bound = self._choices["probe"]
        answer: Sequence[str] = call(bound, Sequence, tasks, nodes, bound.cfg, rng)  # type: ignore[type-abstract]
        if not {node.node.id for node in nodes}.issuperset(answer):
            raise PolicyFaultError(f"{bound}: probed nodes that it was not shown: {sorted(set(answer))[:3]}")
        return answer

    @property
    def probes(self) -> bool:
        """Whether applications have places in the queues of nodes."""
        return self._choices["probe"].name != "none"

    @property
    def sticky(self) -> bool:
        """Whether a probe stays in its queue until all tasks that wait have got places."""
        cfg = self._choices["probe"].cfg
        return isinstance(cfg, Probing) and cfg.sticky

    @property
    def behind_long(self) -> bool:
        """Whether a container of a job that is not long may wait at a node whose cores long tasks hold."""
        cfg = self._choices["probe"].cfg
        return not isinstance(cfg, Probing) or cfg.behind_long

    def match(self, tasks: Sequence[Candidates]) -> Sequence[str | None]:
        """Return the node of each container of a request, or None for those that choose one after the other."""
        bound = self._choices["match"]
        answer: Sequence[str | None] = call(bound, Sequence, tasks, bound.cfg)  # type: ignore[type-abstract]
        fits = len(answer) == len(tasks) and all(
            node is None or node in {known for known, _ in offers} for node, offers in zip(answer, tasks, strict=True)
        )
        if not fits:
            raise PolicyFaultError(f"{bound}: did not answer with a candidate, or None, for each container")
        return answer

    @property
    def matches(self) -> bool:
        """Whether nodes are chosen for the containers of a request together."""
        return self._choices["match"].name != "none"

    @property
    def admission(self) -> AppAdmission | None:
        """The settings of the policy that admits whole applications; None where none does."""
        bound = self._choices["admit"]
        return bound.cfg if bound.assign is not None and isinstance(bound.cfg, AppAdmission) else None

    def assign(self, requests: Sequence[AppRequest], room: Room, freed: bool, now_s: float) -> Assignment:
        """Return which applications are in service, and with how many elastic containers."""
        bound = self._choices["admit"]
        assert bound.assign is not None, "asked only where `admission` is not None"
        return call(bound, Assignment, requests, room, bound.cfg, freed, now_s, function=bound.assign)

    def shed(self, nodes: Sequence[NodeView], now_s: float) -> Mapping[str, ShedTarget]:
        """Return how much may wait at each node, by node id; no limit for those that are not named."""
        bound = self._choices["shed"]
        answer: Mapping[str, ShedTarget] = call(bound, Mapping, nodes, bound.cfg, now_s)  # type: ignore[type-abstract]
        return answer

    def shed_steady(self) -> object:
        """Return an object that stays the same while equal nodes get the same answer of `shed`, or None."""
        bound = self._choices["shed"]
        return bound if bound.steady else None

    def steal(self, thief: NodeView, others: Sequence[NodeQueue], rng: Random, now_s: float) -> list[str]:
        """Return ids of waiting containers, all of one node, that the idle node takes over."""
        bound = self._choices["steal"]
        answer = call(bound, list, thief, others, bound.cfg, rng, now_s)
        if answer and not any(set(answer) <= {c.id for c in queue.waiting} for queue in others):
            raise PolicyFaultError(f"{bound}: chose {answer}, which do not wait together at one node")
        return answer

    def moving(self, slot: str) -> Moving:
        """Return the bounds for moves of the policy in `steal` or `correct`."""
        cfg = self._choices[slot].cfg
        return cfg if isinstance(cfg, Moving) else Moving()

    def correct(self, waiting: ContainerView, here: NodeQueue, best: NodeView, now_s: float) -> str | None:
        """Return why a waiting container should move from `here` to `best`, or None to leave it."""
        bound = self._choices["correct"]
        answer: str | None = call(bound, str | None, waiting, here, best, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def police(self, use: NodeUse, now_s: float) -> Limit | None:
        """Return the limit to queueable containers on a node; None for no limit."""
        bound = self._choices["police"]
        answer: Limit | None = call(bound, Limit | None, use, bound.cfg, now_s)  # type: ignore[arg-type]
        return answer

    def damping(self, slot: str) -> Damping:
        """Return the damping of the policy that decides on nodes in a slot: its setting `damping`, else none."""
        own = getattr(self._choices[slot].cfg, "damping", None)
        return own if isinstance(own, Damping) else Damping()
