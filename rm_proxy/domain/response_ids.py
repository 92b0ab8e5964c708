"""Response ids of allocate calls, as the ResourceManager counts them (ApplicationMasterService.allocate, Hadoop 3.4.2).

A request has the id of the last answer. A request with the id before it gets that answer again, and is ignored
otherwise; one with any other id is refused, with a text that names the id that is expected.
"""

from __future__ import annotations

import re
from typing import Final

_IDS: Final = 2**31
_EXPECTED: Final = re.compile(r"expect responseId to be (\d+)")


def id_before(response_id: int) -> int:
    """Return the id of a request that has the ResourceManager repeat the answer of this id."""
    return (response_id - 1) % _IDS


def expected_id(text: str) -> int | None:
    """Return the id that a refusal expects; None if it names none, or if there is no answer yet to be repeated."""
    match = _EXPECTED.search(text)
    return int(match[1]) % _IDS or None if match is not None else None
