"""Steps that features add to the way of requests, reports and rounds: one whose slot has no policy adds none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hadoop_rpc.protos import yarn_pb2 as y
from policies.model import Ask, NodeView, Placement, QueueView, Route
from quicksilver.common.messages import Report

News = Callable[[y.AllocateResponseProto, float], bool]
"""Adds what an application master is to hear to an answer, and returns whether that changed it."""


@dataclass(slots=True)
class Hooks:
    """All steps; built when settings load, and replaced as a whole. Times are Unix seconds."""

    kept_off: list[Callable[[str], frozenset[str]]] = field(default_factory=list)
    """Return the hosts on which an application gets no guaranteed container now, by its id."""
    routed: list[Callable[[Ask, QueueView, Route, float], None]] = field(default_factory=list)
    """Called with each decision between guaranteed and queueable."""
    placed: list[Callable[[Ask, Sequence[NodeView], Placement], None]] = field(default_factory=list)
    """Called with each choice of a node, and with the nodes among which it was made."""
    reported: list[Callable[[str, Report, float], object]] = field(default_factory=list)
    """Called with each report of a sidecar, after the views of its node follow it."""
    over_share: list[Callable[[], frozenset[str]]] = field(default_factory=list)
    """Return the applications whose queueable containers make way before others at their nodes."""
    worked: list[Callable[[str, float], None]] = field(default_factory=list)
    """Called with an application's id and the seconds that one of its containers ran, by a node of usual speed."""
    watches: list[Callable[[float], None]] = field(default_factory=list)
    """Called each second, also while another proxy serves."""
    own_grants: bool = False
    """Whether the proxy grants containers itself."""
    early_answers: bool = False
    """Whether applications get these before the ResourceManager answers."""
    rounds: list[Callable[[float], object]] = field(default_factory=list)
    """Called each second while application masters are served."""
    emptied: list[Callable[[str, Report, float], object]] = field(default_factory=list)
    """Called with reports of nodes that an admin empties within a time, and with the first one after it."""
    news: dict[str, News] = field(default_factory=dict)
    """What application masters are to hear with their next answers, by attempt id."""
