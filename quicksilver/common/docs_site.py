"""Where the built documentation is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SITE: Final = Path(__file__).parents[1] / "site"


def site_folder(site: Path = SITE) -> str:
    """Return the folder of the built documentation (`make docs`), or "" where this installation has none."""
    return str(site) if (site / "index.html").is_file() else ""
