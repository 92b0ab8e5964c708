"""Choose the node of one container after the other."""

from __future__ import annotations

from collections.abc import Sequence

from policies.base import NoSettings, Policy
from policies.model import Candidates


def match(tasks: Sequence[Candidates], cfg: NoSettings) -> list[str | None]:
    """Return no node for any of them."""
    return [None] * len(tasks)


POLICY = Policy("none", NoSettings, match)
