"""Configuration directories that a manager makes anew at each start of a daemon: the newest one counts.

The agent of Cloudera Manager starts each daemon in `/var/run/cloudera-scm-agent/process/NUMBER-SERVICE-ROLE`; numbers
only grow. So a directory may be named with a `*`, as `.../process/*-yarn-NODEMANAGER`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/var/run/cloudera-scm-agent/process")
_NUMBER: Final = re.compile(r"\d+")
_SITE: Final = "yarn-site.xml"


def newest(pattern: Path) -> Path:
    """Return the newest directory that a path with `*` means; the path itself without one, or where none matches."""
    if "*" not in str(pattern):
        return pattern
    matches = Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
    return max(matches, key=_age_rank, default=pattern)


def _age_rank(directory: Path) -> tuple[int, str]:
    """Return what is greater for a newer directory: the number in front of its name."""
    number = _NUMBER.match(directory.name)
    return (int(number[0]) if number else -1), directory.name


def process_dir(role: str, processes: Path | None = None) -> Path | None:
    """Return the directory with which Cloudera Manager started this host's newest daemon of a role.

    role: resourcemanager, nodemanager. None: there is none, or it is not ours to read.
    """
    directory = newest((processes or PROCESSES) / f"*-yarn-{role.upper()}")
    return directory if os.access(directory / _SITE, os.R_OK) else None
