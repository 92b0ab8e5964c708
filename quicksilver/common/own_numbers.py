"""Numbers of containers that the proxy grants itself: the low 40 bits of their ids.

The ResourceManager counts its own from 1. Odd numbers are those of containers that an application may have before the
ResourceManager knows them: the sidecar starts none of these before the proxy says that it does.
"""

from __future__ import annotations

from typing import Final

FIRST_NUMBER: Final = 1 << 30
"""Numbers of containers of our own begin here: the ResourceManager's are counted from 1."""
LAST_NUMBER: Final = (1 << 31) - 1
"""The largest that ContainerId.getId returns as it is."""


def number_after(number: int, ahead: bool) -> int:
    """Return the next number; ahead: of a container that may be ahead of the ResourceManager."""
    return number + 1 if (number + 1) & 1 == ahead else number + 2


def may_be_ahead(number: int) -> bool:
    """Return whether a container of this number may be unknown to the ResourceManager."""
    return FIRST_NUMBER < number <= LAST_NUMBER and number & 1 == 1
