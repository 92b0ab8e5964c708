"""From a result to its page."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from quicksilver.report import files
from quicksilver.report.model import Page
from quicksilver_lab.bench.page import experiment, grants, las, plain, policies, scale, zoe

READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Page]]] = {
    "experiment": experiment.read,
    "grants": grants.read,
    "las": las.read,
    "las-docker": las.read,
    "mixes": experiment.read,
    "policies": policies.read,
    "scale": scale.read,
    "zoe": zoe.read,
}
"""By a result's `benchmark`; all others are shown by `plain`."""


def load(path: Path) -> Mapping[str, Any]:
    """Return a result's file, which may be compressed (.xz). Raises ValueError for what is none, OSError."""
    try:
        content = json.loads(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
    except lzma.LZMAError as error:
        raise ValueError(f"not compressed by xz: {error}") from error
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return content


def page_of(result: Mapping[str, Any]) -> Page:
    """Return a result's page. Raises ValueError when something in it is not as its benchmark writes it."""
    try:
        return READERS.get(result.get("benchmark", ""), plain.read)(result)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{type(error).__name__}: {error}: not as bench-{result.get('benchmark')} writes it"
        ) from error


def beside(path: Path) -> Path:
    """Write the page of a result's file beside it, NAME-TIME.html; return its path. Raises ValueError, OSError."""
    return files.write(page_of(load(path)), html_beside(path))


def html_beside(path: Path) -> Path:
    """Return the path of the page of a result's file: NAME-TIME.html beside it."""
    return path.with_name(f"{path.name.removesuffix('.xz').removesuffix('.json')}.html")
