"""Names of what runs: a system with its preset and the policies that were chosen, never a nickname for both."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from policies.base import SLOTS

ONLY_G: Final[Mapping[str, Any]] = {"queues": "*", "routes": [{"policy": "only_g"}]}
"""Everything guaranteed: the section `policies` of a base line in the same world."""
ONLY_G_NAME: Final = "only_g"
_PRESET: Final = "preset"
_ACTIVE: Final = "active"


def policies_name(section: Mapping[str, Any], swept: Collection[str] = (), own: Mapping[str, Any] | None = None) -> str:
    """Return a `policies:` section in a few words: its preset, then each slot that it sets.

    swept: keys and slots that the label names by itself. own: the system's section, of which only changes are named.
    Settings of a named policy are left out.
    """
    if section == ONLY_G or not (section.get("queues") or section.get(_PRESET)):
        return ONLY_G_NAME
    if own and own.keys() <= section.keys():
        section = {key: value for key, value in section.items() if value != own.get(key)}
    return " ".join(part for part in _parts(section) if part.partition("=")[0].partition(".")[0] not in swept)


def _parts(section: Mapping[str, Any]) -> Iterator[str]:
    if _PRESET in section:
        yield f"{_PRESET}={section[_PRESET]}"
    if section.get("mode", _ACTIVE) != _ACTIVE:
        yield f"mode={section['mode']}"
    if "routes" in section:
        yield f"route={_joined(section['routes'])}"
    for slot in SLOTS:
        if slot in section and slot != "route":
            yield from _choice(slot, section[slot])


def _choice(slot: str, section: Any) -> Iterator[str]:
    """Yield a slot's policy, or its single settings over the preset's policy."""
    if isinstance(section, Mapping) and "policy" not in section:
        yield from (f"{slot}.{name}={value}" for name, value in (section.get("settings") or {}).items())
    else:
        yield f"{slot}={_joined(section if isinstance(section, (list, tuple)) else [section])}"


def _joined(policies: Any) -> str:
    return "+".join(dict.fromkeys(str(p.get("policy")) if isinstance(p, Mapping) else str(p) for p in policies))
