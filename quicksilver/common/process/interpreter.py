"""Commands that run modules of ours in new processes, with the packages that this process has."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes 1 MB
    from typing import Final

_LAUNCHER: Final = f"{__file__.rsplit('/', 3)[0]}/process/launcher.py"


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a new process that runs `module`, by the launcher if that started this process."""
    if sys.flags.isolated and sys.flags.no_site:  # as the launcher is run; a virtual environment needs `site`
        return [sys.executable, "-I", "-S", _LAUNCHER, "-m", module, *arguments]
    return [sys.executable, "-m", module, *arguments]
