"""A policy: a slot, a name, checked settings, and one pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policies.settings_model import SettingsModel

SLOTS: Final = (
    "route",
    "classify",
    "partition",
    "dispatch",
    "probe",
    "place",
    "match",
    "order",
    "fill",
    "preempt",
    "headroom",
    "quota",
    "admit",
    "shed",
    "steal",
    "correct",
    "police",
    "promote",
)
"""The choices that are open to policies; each is an entry point group `quicksilver.SLOT`."""


class PolicyConfig(SettingsModel):
    """Settings of one policy: frozen, and unknown keys are errors.

    The docstring under a field becomes its description. `json_schema_extra={"unit": .., "source": ..}` adds its unit,
    when the name does not end in one, and where the default comes from; `quicksilver policy show` prints both.
    """


class NoSettings(PolicyConfig):
    """For policies that have nothing to set."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy as an entry point offers it.

    `decide` has the signature of its slot, see `policies.signatures`; `config` is the class of its settings.
    """

    name: str
    config: type[PolicyConfig]
    decide: Callable[..., Any]
    steady: bool = False
    """Of an `order` policy: its keys depend on the container alone, neither on the time nor on what overtook it.

    Of a `shed` policy: its answer depends on the nodes alone, not on the time.
    """
    by_size: bool = False
    """Of a `place` policy: it looks at the waits of nodes by size, which these report only then."""
    by_load: bool = False
    """Of a `place` policy: where nodes of the nearest tier start a container at once it takes one of the first SHOWN
    (`policies.common.node_candidates`) by load, containers and id, so that it is shown only these."""
    by_work: bool = False
    """Of a `preempt` policy: it looks at the CPU time of containers, which is then measured before it is asked."""
    assign: Callable[..., Any] | None = None
    """Of an `admit` policy that admits whole applications: the function that decides which are in service, with the
    signature of `policies.signatures.AssignFunction`; `decide` then goes by their shares (`Ask.portion`).
    """
    at_binding: bool = False
    """Of a `quota` policy: it is asked when a container gets a node, and its no lets the container wait.

    Else it is asked when the container is routed, and its no makes the container guaranteed.
    """
    alike: bool = False
    """Of a `route` or `quota` policy: its answer depends neither on chance nor on how many containers the application
    holds or has asked for, so that one answer holds for all containers of a request that are alike."""
    together: bool = False
    """Of a `quota` policy that is asked at binding: where it allows one container of the size of several alike ones, it
    allows each of these after the other."""
