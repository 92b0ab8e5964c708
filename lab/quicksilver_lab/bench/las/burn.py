"""The task: burns CPU for a given time of its own, and reports begin and end through a named pipe.

Runs by itself, as `python -S -E -I burn.py PIPE NAME CPU_SECONDS`; lines shorter than PIPE_BUF arrive whole.
"""

import os
import sys
import time

_STRETCH_S = 0.01


def main(pipe: str, name: str, cpu_s: float) -> None:
    """Run the task; without a reader of the pipe it fails."""
    begin = time.time()
    far = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    os.write(far, f"begin {name} {begin:.6f} {os.getpid()}\n".encode())
    while (rest_s := cpu_s - time.process_time()) > 0:
        until = time.thread_time() + min(rest_s, _STRETCH_S)
        while time.thread_time() < until:
            sum(range(2000))
    os.write(far, f"end {name} {time.time():.6f} {time.process_time():.6f}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
