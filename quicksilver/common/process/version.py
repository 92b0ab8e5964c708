"""Names and version of the installed distributions."""

from __future__ import annotations

from typing import Final

from quicksilver.common.extras import EXTRAS, remedy

DISTRIBUTION: Final = "yarn-quicksilver"
APPS: Final = "yarn-quicksilver-apps"
"""Described applications: their commands, their application master and the app server."""
LAB: Final = "yarn-quicksilver-lab"
"""Local clusters, demo, workloads and measurements, which a node does not need."""
_OTHERS: Final = {"quicksilver_apps": APPS, "quicksilver_lab": LAB}
"""Distributions of this repository beside this one, by their packages."""


def missing(command: str, module: str) -> str:
    """Return the error of a command without a module: one of ours is in another distribution."""
    distribution = _OTHERS.get(module)
    if distribution is None:
        what_to_do = remedy(module) if module in EXTRAS else "install it with pip"
        return f"`quicksilver {command}` needs {module}, which is not installed; {what_to_do}"
    what_to_do = f"run pip install {distribution}=={version()}"
    return f"`quicksilver {command}` is in {distribution}, which is not installed; {what_to_do}"


def version() -> str:
    """Return the version of yarn-quicksilver, e.g. 0.1.0."""
    from importlib import metadata  # half of what a command without other imports takes

    return metadata.version(DISTRIBUTION)
