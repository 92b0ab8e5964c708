"""CPU time and memory of processes and of the machine."""

from __future__ import annotations

from pathlib import Path

import psutil


def cpu_s(pid: int) -> float:
    """Return user and system time of a process and all its threads, in seconds.

    The kernel has nanoseconds of threads that live, and 1/100 s of all of them. Raises psutil.NoSuchProcess.
    """
    times = psutil.Process(pid).cpu_times()
    threads = (int(folder.name) for folder in Path(f"/proc/{pid}/task").glob("*"))
    return max(float(times.user + times.system), sum(thread_s(pid, thread) for thread in threads))


def thread_s(pid: int, thread: int) -> float:
    """Return the CPU time of one thread, in seconds, by its schedstat; 0 when there is no such thread, or file."""
    try:
        return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB (2**20 bytes); 0 when it ended but was not waited for.

    Raises psutil.NoSuchProcess.
    """
    return round(psutil.Process(pid).memory_info().rss / 2**20, 1)


def pss_mb(pid: int) -> float:
    """Return the memory of a process, in MB, with its part of what it shares. Raises psutil.NoSuchProcess."""
    return round(psutil.Process(pid).memory_full_info().pss / 2**20, 1)


def machine_cpu_s() -> float:
    """Return the time that all cores together were not idle since the machine started, in seconds."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)
