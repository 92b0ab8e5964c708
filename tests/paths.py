"""Folders of this checkout that tests read."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
LAB_DOCS: Final = ROOT / "lab" / "docs"
DATA: Final = ROOT / "tests" / "data"
