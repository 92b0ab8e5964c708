"""Commands that run modules of ours in new processes, with the packages that this process has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

_LAUNCHER: Final = Path(__file__).resolve().parents[2] / "process" / "launcher.py"


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a new process that runs `module`, by the launcher if that started this process."""
    if sys.flags.isolated and sys.flags.no_site:  # as the launcher is run; a virtual environment needs `site`
        return [sys.executable, "-I", "-S", str(_LAUNCHER), "-m", module, *arguments]
    return [sys.executable, "-m", module, *arguments]
