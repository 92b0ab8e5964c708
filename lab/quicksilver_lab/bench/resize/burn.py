"""A container that never sleeps, and notes when it did not run.

Runs by itself, as `python -S -E -I burn.py FILE CPU_SECONDS_MAX`. FILE has GAPS pairs of when it was stopped and went
on (CLOCK_MONOTONIC, ns, 64 bits each, written round and round), then how many there were, then when it ran last.
"""

import mmap
import resource
import sys
import time
from pathlib import Path

GAPS = 1024
BYTES = 8 * (2 * GAPS + 2)
GAP_NS = 2_000_000
"""Less than that is no stop."""


def main(path: str, cpu_s_max: int) -> None:
    """Burn until killed, or until so many CPU seconds are used."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s_max, cpu_s_max))
    with Path(path).open("r+b") as file:
        notes = memoryview(mmap.mmap(file.fileno(), BYTES)).cast("q")
    clock, count, last = time.monotonic_ns, 0, time.monotonic_ns()
    while True:
        now = clock()
        if now - last > GAP_NS:
            at = 2 * (count % GAPS)
            notes[at], notes[at + 1] = last, now
            count += 1
            notes[2 * GAPS] = count
        notes[2 * GAPS + 1] = last = now


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
