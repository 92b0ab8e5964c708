"""What a process used, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Return user and system time of a process and all its threads, in seconds, in steps of 1/100 s.

    Raises FileNotFoundError when there is no such process.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB (2**20 bytes). Raises FileNotFoundError."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0  # a process that has ended but was not waited for


def machine_cpu_s() -> float:
    """Return the time that all cores together were not idle since the machine started, in seconds."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS
