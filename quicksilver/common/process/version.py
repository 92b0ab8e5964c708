"""The version of this installation."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the installed distribution, e.g. 0.1.0."""
    return metadata.version("quicksilver")
