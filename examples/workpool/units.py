"""A pool of work units and its workers: JSON lines over TCP, standard library alone.

A worker that connects counts at once. It gets a unit, sleeps for as long as the unit takes, says so, and gets the next
one on the same connection. A unit whose worker is lost, or is silent for too long, is handed out again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import deque

PATIENCE_S = 30.0
"""How long a worker tries to reach its pool."""
SPARE_S = 5.0
"""A unit is handed out again when its worker is silent for three times its length and this."""


class Pool:
    """Hands out the units 0 to `units` - 1, once `core` workers are there, until all are done."""

    def __init__(self, units: int, unit_s: float, core: int) -> None:
        self.left, self.undone = deque(range(units)), set(range(units))
        self.unit_s, self.core = unit_s, core
        self.workers = self.most_workers = self.again = 0
        self.began_s = 0.0
        self.changed = asyncio.Condition()
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Give units to one worker until none is left or it is gone."""
        hello = json.loads(await reader.readline() or "{}")
        if "worker" not in hello:
            writer.close()  # a probe of the port
            return
        await self._count(+1)
        unit = None
        try:
            while (unit := await self._next_unit()) is not None:
                writer.write(json.dumps({"unit": unit, "unit_s": self.unit_s}).encode() + b"\n")
                answer = await asyncio.wait_for(reader.readline(), 3 * self.unit_s + SPARE_S)
                if not answer:
                    break
                self._done(unit)
                unit = None
            else:
                writer.write(b'{"over": true}\n')
                await writer.drain()
        except (TimeoutError, ConnectionError):
            pass  # the unit goes to another worker
        finally:
            writer.close()
            await self._give_back(unit)
            await self._count(-1)

    async def _next_unit(self) -> int | None:
        async with self.changed:
            while self.undone and (not self.left or (not self.began_s and self.workers < self.core)):
                await self.changed.wait()
            if not self.undone:
                return None
            self.began_s = self.began_s or time.time()
            return self.left.popleft()

    def _done(self, unit: int) -> None:
        self.undone.discard(unit)
        if not self.undone:
            self.over.set()

    async def _give_back(self, unit: int | None) -> None:
        async with self.changed:
            if unit is not None and unit in self.undone:
                self.left.appendleft(unit)
                self.again += 1
                print(f"unit {unit} is handed out again", flush=True)
            self.changed.notify_all()

    async def _count(self, change: int) -> None:
        async with self.changed:
            self.workers += change
            self.most_workers = max(self.most_workers, self.workers)
            print(f"{time.time():.3f} {self.workers} workers, {len(self.undone)} units undone", flush=True)
            self.changed.notify_all()


async def run_pool(units: int, unit_s: float, core: int) -> None:
    """Listen on the instance's port until all units are done; print a summary as JSON."""
    pool = Pool(units, unit_s, core)
    server = await asyncio.start_server(pool.serve, "0.0.0.0", int(os.environ["PORT_UNITS"]))
    await pool.over.wait()
    ended_s = time.time()
    async with pool.changed:
        pool.changed.notify_all()
    server.close()
    summary = {
        "units": units,
        "unit_s": unit_s,
        "began_s": round(pool.began_s, 3),
        "ended_s": round(ended_s, 3),
        "work_s": round(ended_s - pool.began_s, 3),
        "most_workers": pool.most_workers,
        "handed_out_again": pool.again,
    }
    print(json.dumps(summary), flush=True)
    await asyncio.sleep(0.2)  # the workers read that it is over


async def run_worker() -> None:
    """Take units from the pool until it says that none is left."""
    host, port = os.environ["POOL_HOST"], int(os.environ["POOL_PORT_UNITS"])
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            break
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"no pool at {host}:{port} for {PATIENCE_S:g} s")
            await asyncio.sleep(0.1)
    writer.write(json.dumps({"worker": os.environ["QUICKSILVER_INSTANCE"]}).encode() + b"\n")
    while line := await reader.readline():
        message = json.loads(line)
        if "over" in message:
            return
        await asyncio.sleep(message["unit_s"])
        writer.write(json.dumps({"done": message["unit"]}).encode() + b"\n")
        await writer.drain()
    sys.exit("the pool is gone")


def main() -> None:
    """Run the pool or a worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=("pool", "worker"))
    parser.add_argument("--units", type=int, default=1)
    parser.add_argument("--unit-s", type=float, default=1.0)
    parser.add_argument("--core", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(run_pool(given.units, given.unit_s, given.core) if given.role == "pool" else run_worker())


if __name__ == "__main__":
    main()
