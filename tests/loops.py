"""Runs a test's coroutine in a loop of uvloop, which ends even if the test leaves something open in it.

pytest makes errors of warnings. The warning about a server that is still open, once it is an error, keeps uvloop from
closing the server; then `loop.close()` waits for ever, in C, where no time limit of a test reaches it.
"""

from __future__ import annotations

import warnings
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

_T = TypeVar("_T")


def run(story: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end; nothing may be open then."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "unclosed resource", ResourceWarning)
        result = uvloop.run(story)
    assert not caught, [str(warning.message) for warning in caught]
    return result
