"""A Dask job: many small tasks, whose results are summed and checked.

usage: job.py TASKS SECONDS
"""

from __future__ import annotations

import os
import sys
import time

from distributed import Client


def square(number: int, duration_s: float) -> int:
    """Return the square of a number after some time."""
    time.sleep(duration_s)
    return number * number


def main() -> None:
    """Submit all tasks; the exit status says whether their sum is right."""
    tasks, duration_s = int(sys.argv[1]), float(sys.argv[2])
    with Client(f"tcp://{os.environ['SCHEDULER_HOST']}:{os.environ['SCHEDULER_PORT_TASKS']}") as client:
        client.wait_for_workers(1, timeout=300)
        began_s = time.monotonic()
        total = client.submit(sum, client.map(square, range(tasks), duration_s=duration_s)).result()
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
    if total != sum(number * number for number in range(tasks)):
        sys.exit(f"wrong: the sum is {total}")
    print(f"{tasks} tasks in {time.monotonic() - began_s:.1f} s; {workers} workers at the end; the sum is {total}")


if __name__ == "__main__":
    main()
