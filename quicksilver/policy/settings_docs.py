"""docs/settings.md: every setting of quicksilver.yaml with unit, default, range, meaning and source, by the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from policies.base import SLOTS
from policies.config.binding import CHOICES
from policies.config.registry import Registry, doc_of
from policies.config.schema import Estimate, Hint, Match, ModeRule, Notice, PoliciesSection, Protection, Rollout, Window
from policies.config.validation import setting_rows
from quicksilver.policy.schema import SECTIONS
from sidecar.tracker.config import RmEnds

_HEAD: Final = """# Settings

Made by `quicksilver policy docs docs/settings.md` of the settings' own models; a test compares both. What policies do
is told in [policies.md](policies.md), what the daemons do in [operations.md](operations.md), [sidecar.md](sidecar.md)
and [tracker.md](tracker.md). `quicksilver policy schema` prints the same as a JSON schema: editors check and complete
by it.

Sources: Mercury (ATC '15), Kairos (SoCC '18, and the thesis), Eagle (SoCC '16), Hawk (ATC '15), Apollo (OSDI '14),
Hadoop 3. Where none is named, default and range are quicksilver's own.
"""
_PARTS: Final[Mapping[str, tuple[str, type[BaseModel]]]] = {
    "policies.modes[]": ("entries of `modes`", ModeRule),
    "policies.routes[].match": ("what a rule or a hint applies to", Match),
    "policies.notice": ("what application masters hear before a kill", Notice),
    "policies.protect[]": ("entries of `protect`", Protection),
    "policies.estimate": ("expected durations", Estimate),
    "policies.estimate.rules[]": ("entries of `estimate.rules`", Hint),
    "policies.rollout[]": ("entries of `rollout`", Rollout),
    "policies.windows[]": ("entries of `windows`", Window),
}
_OWN_PACKAGE: Final = "policies."


def settings_markdown(registry: Registry | None = None) -> str:
    """Return the page; of the policies only quicksilver's own."""
    return "\n".join(_lines(registry or Registry()))


def _lines(registry: Registry) -> Iterator[str]:
    yield _HEAD
    yield "## Section `policies`"
    yield ""
    yield from _table([row for row in setting_rows(PoliciesSection) if row["name"].partition(".")[0] == row["name"]])
    for place, (title, model) in _PARTS.items():
        yield f"### `{place}`: {title}"
        yield ""
        yield from _table(setting_rows(model))
    yield "## Policies"
    yield ""
    for slot in SLOTS:
        yield from _slot(slot, registry)
    for name, model in SECTIONS.items():
        yield f"## Section `{name}`"
        yield ""
        yield from _table(setting_rows(model))
    yield "### `tracker.rms.ID`: entries by ResourceManager id"
    yield ""
    yield from _table(setting_rows(RmEnds))


def _slot(slot: str, registry: Registry) -> Iterator[str]:
    default = f", default `{_default(slot)}`" if _default(slot) else ""
    yield f"### Slot `{slot}`{default}"
    yield ""
    for offer in registry.offers(slot):
        if not offer.value.startswith(_OWN_PACKAGE):
            continue
        policy = registry.get(slot, offer.name)
        rows = setting_rows(policy.config)
        yield f"**`{offer.name}`**: {doc_of(policy)}{'' if rows else ' No settings.'}"
        yield ""
        if rows:
            yield from _table(rows)


def _default(slot: str) -> str:
    section = PoliciesSection()
    if slot == "quota":
        return ", ".join(choice.policy for choice in section.quota)
    return str(getattr(section, slot).policy) if slot in CHOICES else ""


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| setting | unit | default | range | meaning | source |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        default = "must be set" if row["required"] else f"`{_text(row['default'])}`"
        cells = (f"`{row['name']}`", row["unit"], default, row["range"], row["doc"], row["source"])
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
    yield ""


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
