"""Finds policies by slot and name among the entry points of all installed packages, and checks their settings.

A package offers a policy by `[project.entry-points."quicksilver.SLOT"] name = "module:POLICY"`. Nothing is imported
before it is asked for, so that a broken package disturbs only those who use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from inspect import Parameter, getmodule, signature
from math import inf
from typing import Any, Final

from policies import signatures
from policies.base import SLOTS, Policy, PolicyConfig
from policies.config.validation import Path, plain, shorten, validate
from policies.errors import (
    AmbiguousPolicyError,
    BrokenPolicyError,
    Mistake,
    PolicyError,
    SettingsMistakesError,
    UnknownPolicyError,
    close_to,
)

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "route": signatures.RouteFunction.__call__,
    "classify": signatures.ClassifyFunction.__call__,
    "partition": signatures.PartitionFunction.__call__,
    "dispatch": signatures.DispatchFunction.__call__,
    "probe": signatures.ProbeFunction.__call__,
    "place": signatures.PlaceFunction.__call__,
    "match": signatures.MatchFunction.__call__,
    "order": signatures.OrderFunction.__call__,
    "fill": signatures.FillFunction.__call__,
    "preempt": signatures.PreemptFunction.__call__,
    "headroom": signatures.HeadroomFunction.__call__,
    "quota": signatures.QuotaFunction.__call__,
    "admit": signatures.AdmitFunction.__call__,
    "shed": signatures.ShedFunction.__call__,
    "steal": signatures.StealFunction.__call__,
    "correct": signatures.CorrectFunction.__call__,
    "police": signatures.PoliceFunction.__call__,
    "promote": signatures.PromoteFunction.__call__,
}
_ASSIGN: Final = tuple(signature(signatures.AssignFunction.__call__).parameters)[1:]
PARAMETERS: Final = {slot: tuple(signature(call).parameters)[1:] for slot, call in _FUNCTIONS.items()}
"""By slot: the parameters that a policy's function takes, in order."""


@dataclass(slots=True)
class Off:
    """Until when a policy is not called, and why (`guarded_call`)."""

    until_s: float = -inf
    why: str = ""


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """A policy with checked settings, ready to be called with the arguments of its slot and `cfg` among them."""

    slot: str
    name: str
    package: str
    cfg: PolicyConfig
    decide: Callable[..., Any]
    steady: bool = False
    at_binding: bool = False
    by_size: bool = False
    by_work: bool = False
    assign: Callable[..., Any] | None = None
    alike: bool = False
    together: bool = False
    by_load: bool = False
    off: Off = field(default_factory=Off, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.slot} policy {self.name} of {self.package}"

    def describe(self) -> dict[str, Any]:
        """Return name, package and all settings, as JSON can hold it."""
        settings = plain(self.cfg.model_dump(mode="json"))
        return {"policy": self.name, "package": self.package, "settings": settings}


@dataclass(frozen=True, slots=True)
class Offer:
    """A policy as a package offers it, not imported yet."""

    slot: str
    name: str
    package: str
    """Name and version of the package."""
    value: str
    """Where the policy is, as `module:POLICY`."""
    entry: EntryPoint

    def __str__(self) -> str:
        return f"{self.slot} policy '{self.name}' of package {self.package}"


_GROUP: Final = "quicksilver."
"""Start of the names of all slots' groups of entry points."""


def _offers(entries: Iterable[EntryPoint]) -> set[Offer]:
    """Return the offers among the entry points of all packages, whose metadata are parsed once for each package."""
    packages: dict[int, str] = {}
    offers = set()
    for entry in entries:
        if not entry.group.startswith(_GROUP):
            continue
        package = entry.module
        if entry.dist is not None:
            package = packages.get(id(entry.dist)) or f"{entry.dist.name} {entry.dist.version}"
            packages[id(entry.dist)] = package
        offers.add(Offer(entry.group.removeprefix(_GROUP), entry.name, package, entry.value, entry))
    return offers


class Registry:
    """The policies of all installed packages, as found when the registry was made."""

    def __init__(self, entries: Iterable[EntryPoint] | None = None) -> None:
        if entries is None:
            installed = entry_points()  # reads the metadata of each package: once for all slots
            entries = [entry for slot in SLOTS for entry in installed.select(group=f"{_GROUP}{slot}")]
        offers = _offers(entries)
        self._offers = {
            slot: sorted((o for o in offers if o.slot == slot), key=lambda o: (o.name, o.package)) for slot in SLOTS
        }

    def offers(self, slot: str) -> list[Offer]:
        """Return all offers of a slot, by name and package; a name may occur more than once."""
        return list(self._offers[slot])

    def names(self, slot: str) -> list[str]:
        """Return the names of a slot's policies, sorted."""
        return sorted({offer.name for offer in self._offers[slot]})

    def find(self, slot: str, name: str) -> Offer:
        """Return the one offer of this slot and name.

        Raises UnknownPolicyError or AmbiguousPolicyError.
        """
        if slot not in SLOTS:
            raise UnknownPolicyError(f"unknown slot '{slot}'; {close_to(slot, SLOTS)}")
        offers = [offer for offer in self._offers[slot] if offer.name == name]
        if not offers:
            elsewhere = [candidate for candidate in SLOTS if name in self.names(candidate)]
            hint = f" ('{name}' is a policy for {' and '.join(elsewhere)})" if elsewhere else ""
            raise UnknownPolicyError(f"unknown {slot} policy '{name}'{hint}; {close_to(name, self.names(slot))}")
        if len(offers) > 1:
            packages = " and ".join(f"{offer.package} ({offer.value})" for offer in offers)
            raise AmbiguousPolicyError(f"{slot} policy '{name}' is offered by {packages}; uninstall one of them")
        return offers[0]

    def get(self, slot: str, name: str) -> Policy:
        """Return a policy. Raises UnknownPolicyError, AmbiguousPolicyError or BrokenPolicyError."""
        return load_offer(self.find(slot, name))

    def bind(self, slot: str, name: str, settings: object = None, path: Path = ()) -> BoundPolicy:
        """Return a policy with its settings checked.

        Raises what `get` does, and SettingsMistakesError for `settings` that stand at `path`.
        """
        offer = self.find(slot, name)
        policy = load_offer(offer)
        if not isinstance(settings, Mapping | None):
            raise SettingsMistakesError([Mistake(path, f"must be a mapping (key: value), got {shorten(settings)}")])
        cfg, mistakes = validate(policy.config, settings, path, name)
        if cfg is None:
            raise SettingsMistakesError(mistakes)
        return BoundPolicy(
            slot,
            name,
            offer.package,
            cfg,
            policy.decide,
            policy.steady,
            policy.at_binding,
            policy.by_size,
            policy.by_work,
            policy.assign,
            policy.alike,
            policy.together,
            policy.by_load,
        )


def load_offer(offer: Offer) -> Policy:
    """Import the policy that a package offers, and check that it fits the slot. Raises BrokenPolicyError."""
    try:
        policy = offer.entry.load()
    except BaseException as error:
        why = f"'{offer.value}' cannot be imported: {type(error).__name__}: {error}"
        raise BrokenPolicyError(f"{offer}: {why}; repair or uninstall the package") from error
    if not isinstance(policy, Policy):
        kind = type(policy).__name__
        raise BrokenPolicyError(
            f"{offer}: '{offer.value}' is a {kind}, not a policies.base.Policy; name the POLICY object"
        )
    problem = _misfit(offer.slot, offer.name, policy)
    if problem:
        raise BrokenPolicyError(f"{offer}: {problem}")
    return policy


def _misfit(slot: str, name: str, policy: Policy) -> str:
    if policy.name != name:
        return f"the object calls itself '{policy.name}'; give both the same name"
    if not (isinstance(policy.config, type) and issubclass(policy.config, PolicyConfig)):
        return f"its config is {policy.config!r}, not a subclass of policies.base.PolicyConfig"
    if not callable(policy.decide):
        return f"its decide is a {type(policy.decide).__name__}, not a function"
    named = [p.name for p in signature(policy.decide).parameters.values() if p.kind is not Parameter.VAR_POSITIONAL]
    if policy.assign is not None and tuple(signature(policy.assign).parameters) != _ASSIGN:
        return f"its assign takes {signature(policy.assign)}, but it has to take ({', '.join(_ASSIGN)})"
    if tuple(named) == PARAMETERS[slot]:
        return ""
    fits = [group for group, names in PARAMETERS.items() if tuple(named) == names]
    hint = f"; it fits the group quicksilver.{fits[0]}" if fits else ""
    return f"its function takes ({', '.join(named)}), but {slot} takes ({', '.join(PARAMETERS[slot])}){hint}"


def doc_of(policy: Policy) -> str:
    """Return the first line of the docstring of the policy's module."""
    module = getmodule(policy.decide)
    return ((module.__doc__ if module else "") or policy.decide.__doc__ or "").strip().split("\n")[0]


def summary(registry: Registry, offer: Offer) -> tuple[str, bool]:
    """Return a line about a policy, and whether it can be used; for a broken one the line says why not."""
    try:
        return doc_of(registry.get(offer.slot, offer.name)), True
    except PolicyError as error:
        return str(error), False
