"""Runs a test's coroutine in a loop of uvloop, which ends even if the test leaves something open in it.

A test that is an `async def` runs so by itself (`pytest_pyfunc_call`).

pytest makes errors of warnings. The warning about a server that is still open, once it is an error, keeps uvloop from
closing the server; then `loop.close()` waits for ever, in C, where no time limit of a test reaches it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

_T = TypeVar("_T")


def run(story: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end; nothing may be open then."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "unclosed resource", ResourceWarning)
        result = uvloop.run(story)
    assert not caught, [str(warning.message) for warning in caught]
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
