"""Imports that take no longer than they must: a daemon has more than a thousand modules."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Import with the garbage collector off, which finds nothing there and takes a tenth of the time.

    It leaves what was imported alone afterwards as well: a full collection looks at what a daemon made since.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@contextmanager
def without(package: str) -> Iterator[None]:
    """Import as if `package` were not installed, for a library that would load it for what we do not use."""
    absent = package not in sys.modules
    if absent:
        sys.modules[package] = None  # type: ignore[assignment]  # Python's own sign for it
    try:
        yield
    finally:
        if absent:
            del sys.modules[package]
