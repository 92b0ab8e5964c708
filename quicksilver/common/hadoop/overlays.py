"""The overlays of hadoop-conf/: the properties that quicksilver adds to Hadoop's site files."""

from __future__ import annotations

from pathlib import Path

from quicksilver.common.errors import QuicksilverError


def overlay_root() -> Path:
    """Return hadoop-conf/, which is inside the package `quicksilver` when installed and beside it in a checkout."""
    package = Path(__file__).parents[2]
    for root in (package / "hadoop-conf", package.parent / "hadoop-conf"):
        if root.is_dir():
            return root
    raise QuicksilverError("hadoop-conf/ is missing", place=str(package), remedy="install yarn-quicksilver again")
