"""Versions of the format: data of an older one becomes data of this program's version, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quicksilver_apps.description.mistakes import DescriptionMistake
from quicksilver_apps.description.model import FORMAT_VERSION

UPGRADES: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""By version: what makes data of the next version of it. There is one version so far, so that there is none."""


def version_mistake(data: Mapping[str, Any]) -> DescriptionMistake | None:
    """Return the mistake of a version that this program cannot read; None for a readable or a missing one."""
    version = data.get("version", FORMAT_VERSION)
    place = ("version",)
    if isinstance(version, bool) or not isinstance(version, int):
        return DescriptionMistake(
            place, f"must be a whole number, got {version!r}", f"write `version: {FORMAT_VERSION}`"
        )
    if version > FORMAT_VERSION:
        problem = f"{version} is newer than this program, which reads versions up to {FORMAT_VERSION}"
        return DescriptionMistake(place, problem, "update quicksilver, or write the description in an older version")
    if version < min((*UPGRADES, FORMAT_VERSION)):
        return DescriptionMistake(place, f"there is no version {version}", f"write `version: {FORMAT_VERSION}`")
    return None


def upgrade(data: dict[str, Any], upgrades: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = UPGRADES) -> Any:
    """Return data of any readable version as data of FORMAT_VERSION, or of the version that the last upgrade makes."""
    version = data.get("version")
    while isinstance(version, int) and version in upgrades:
        data = upgrades[version](data)
        version += 1
    return data
