"""Binds a `policies:` section: names become policies with checked settings, and alternatives are laid over the base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from policies.config.presets import laid_over
from policies.config.registry import BoundPolicy, Registry
from policies.config.schema import PoliciesSection, PolicySet
from policies.config.validation import Path, validate
from policies.errors import Mistake, PolicyError, SettingsMistakesError, close_to

CHOICES: Final = (
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
    "admit",
    "shed",
    "steal",
    "correct",
    "police",
    "promote",
)
"""Slots that one policy fills."""
_OWN: Final = ("alternatives", "rollout", "windows", "time_zone", "shadow")
"""Keys of the section that an alternative does not have."""


@dataclass(frozen=True, slots=True)
class BoundParts:
    """A section with everything it names, ready to be called."""

    section: PolicySet
    choices: Mapping[str, BoundPolicy]
    routes: tuple[BoundPolicy, ...]
    quotas: tuple[BoundPolicy, ...]


def bind(
    model: type[PolicySet], raw: Mapping[str, Any], registry: Registry, path: Path
) -> tuple[BoundParts | None, list[Mistake]]:
    """Return the parts of a section that stands at `path`, or None and all mistakes in it."""
    section, mistakes = validate(model, raw, path)
    defaults = PoliciesSection()
    choices = {
        slot: _bind(registry, slot, raw[slot], (*path, slot), mistakes)
        if slot in raw
        else registry.bind(slot, getattr(defaults, slot).policy)
        for slot in CHOICES
    }
    rules = raw.get("routes")
    routes = [
        _bind(registry, "route", rule, (*path, "routes", number), mistakes)
        for number, rule in enumerate(rules if isinstance(rules, list) else [])
    ]
    quotas = _bind_quotas(registry, raw.get("quota"), (*path, "quota"), mistakes)
    if mistakes or section is None:
        return None, mistakes
    bound = {slot: choice for slot, choice in choices.items() if choice is not None}
    return BoundParts(section, bound, tuple(route for route in routes if route is not None), tuple(quotas)), []


def bind_alternatives(
    raw: Mapping[str, Any], registry: Registry, path: Path
) -> tuple[dict[str, BoundParts], list[Mistake]]:
    """Return each alternative of a section as the base with its keys replaced; mistakes of the base are left out.

    One that names a preset lies over that alone.
    """
    by_name: dict[str, BoundParts] = {}
    mistakes: list[Mistake] = []
    alternatives = raw.get("alternatives")
    base = {key: value for key, value in raw.items() if key not in _OWN}
    for name, own in alternatives.items() if isinstance(alternatives, Mapping) else ():
        if not isinstance(own, Mapping):
            continue
        at = (*path, "alternatives", str(name))
        parts, wrong = bind(PolicySet, laid_over(own) if "preset" in own else {**base, **own}, registry, at)
        keys = {str(key) for key in own}
        mistakes += [mistake for mistake in wrong if mistake.path[len(at)] in keys]
        if parts is not None:
            by_name[str(name)] = parts
    return by_name, mistakes


def entries(raw: Mapping[str, Any], key: str) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the entries of a list of a section that are mappings, with their numbers; others have mistakes already."""
    rows = raw.get(key)
    return [(n, row) for n, row in enumerate(rows if isinstance(rows, list) else []) if isinstance(row, Mapping)]


def misnamed(raw: Mapping[str, Any], path: Path) -> list[Mistake]:
    """Return the mistakes of rollout, windows and shadow: unknown alternatives, and names that are there twice.

    They are found in a section with other mistakes, too.
    """
    alternatives, shadow = raw.get("alternatives"), raw.get("shadow")
    known = [str(name) for name in alternatives] if isinstance(alternatives, Mapping) else []
    shadows = [(n, name) for n, name in enumerate(shadow if isinstance(shadow, list) else []) if isinstance(name, str)]
    uses: list[tuple[Path, object]] = [
        ((key, n, "use"), entry.get("use")) for key in ("rollout", "windows") for n, entry in entries(raw, key)
    ]
    uses += [(("shadow", n), name) for n, name in shadows]
    mistakes = [
        Mistake((*path, *where), f"unknown alternative '{name}'; {close_to(name, known)}")
        for where, name in uses
        if isinstance(name, str) and name not in known and isinstance(alternatives, Mapping | None)
    ]
    names = [(n, entry.get("name")) for n, entry in entries(raw, "windows") if isinstance(entry.get("name"), str)]
    mistakes += [
        Mistake((*path, "windows", n, "name"), f"another window is called '{name}' too; choose another name")
        for n, name in names
        if (name in [earlier for at, earlier in names if at < n])
    ]
    mistakes += [
        Mistake((*path, "shadow", n), f"'{name}' is there twice; keep one")
        for n, name in shadows
        if name in [earlier for at, earlier in shadows if at < n]
    ]
    return mistakes


def _bind(registry: Registry, slot: str, raw: object, path: Path, mistakes: list[Mistake]) -> BoundPolicy | None:
    """Bind one choice; add the mistakes of its name and settings (its shape is checked elsewhere)."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("policy"), str):
        return None
    settings = raw.get("settings")
    try:
        return registry.bind(
            slot, raw["policy"], settings if isinstance(settings, Mapping) else {}, (*path, "settings")
        )
    except SettingsMistakesError as error:
        mistakes.extend(error.mistakes)
    except PolicyError as error:
        mistakes.append(Mistake((*path, "policy"), str(error)))
    return None


def _bind_quotas(registry: Registry, raw: object, path: Path, mistakes: list[Mistake]) -> list[BoundPolicy]:
    """Bind one quota policy or a list of them."""
    if isinstance(raw, list):
        quotas = [_bind(registry, "quota", entry, (*path, number), mistakes) for number, entry in enumerate(raw)]
        return [bound for bound in quotas if bound is not None]
    if raw is not None:
        bound = _bind(registry, "quota", raw, path, mistakes)
        return [bound] if bound is not None else []
    return [registry.bind("quota", choice.policy) for choice in PoliciesSection().quota]
