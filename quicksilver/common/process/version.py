"""Names and version of the installed distributions."""

from __future__ import annotations

from typing import Final

DISTRIBUTION: Final = "yarn-quicksilver"
LAB: Final = "yarn-quicksilver-lab"
"""Local clusters, demo, workloads and measurements, which a node does not need."""


def version() -> str:
    """Return the version of yarn-quicksilver, e.g. 0.1.0."""
    from importlib import metadata  # half of what a command without other imports takes

    return metadata.version(DISTRIBUTION)
