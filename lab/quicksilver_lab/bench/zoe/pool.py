"""A pool of sleeping work, for the components of an application: stdlib alone, run by path in YARN's containers.

`serve UNITS UNIT_S`: answers GET /take with a unit's number, with 204 while others do the last ones, with 410 once all
are done, and POST /done/N; it ends then. Each unit is counted once; that of a lost worker goes to another one.
`work UNIT_S`: takes units from the pool at $POOL_HOST:$POOL_PORT_HTTP and sleeps for each; it ends when all are done,
or when the pool is gone.
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LEASES = 4.0
_PAUSE_S = 0.1
_RETRY_S = 10.0


class Pool:
    """Units of work: waiting, taken, done."""

    def __init__(self, units: int, unit_s: float) -> None:
        """All wait. unit_s: how long a unit takes, from which follows when it is given to somebody else."""
        self.remaining = units
        self.over = threading.Event()
        self._lease_s = max(2.0, _LEASES * unit_s)
        self._waiting = deque(range(units))
        self._taken: dict[int, float] = {}
        self._lock = threading.Lock()

    def take(self, now_s: float) -> int | None:
        """Return a unit to do; None when all are taken."""
        with self._lock:
            for unit, since_s in list(self._taken.items()):
                if now_s - since_s > self._lease_s:
                    del self._taken[unit]
                    self._waiting.append(unit)
            if not self._waiting:
                return None
            unit = self._waiting.popleft()
            self._taken[unit] = now_s
            return unit

    def done(self, unit: int) -> None:
        """Count a unit; one that was given to somebody else meanwhile counts there."""
        with self._lock:
            if self._taken.pop(unit, None) is not None:
                self.remaining -= 1
                if not self.remaining:
                    self.over.set()


def serve(units: int, unit_s: float, host: str, port: int) -> None:
    """Answer workers until all units are done. Raises OSError when the port is taken."""
    pool = Pool(units, unit_s)

    class PoolHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            unit = pool.take(time.monotonic())
            nothing = 410 if pool.over.is_set() else 204
            self._answer(nothing if unit is None else 200, b"" if unit is None else str(unit).encode())

        def do_POST(self) -> None:
            pool.done(int(self.path.rpartition("/")[2]))
            self._answer(204, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing for a request."""

    with ThreadingHTTPServer((host, port), PoolHandler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        pool.over.wait()
        server.shutdown()


def work(unit_s: float, host: str, port: int) -> None:
    """Do units until the pool is gone."""
    lost_s: float | None = None
    while lost_s is None or time.monotonic() - lost_s < _RETRY_S:
        connection = http.client.HTTPConnection(host, port, timeout=10.0)
        try:
            while True:
                status, unit = _ask(connection, "GET", "/take")
                lost_s = None
                if status == 410:
                    return
                if status == 204:
                    time.sleep(_PAUSE_S)
                    continue
                time.sleep(unit_s)
                _ask(connection, "POST", f"/done/{unit}")
        except (OSError, http.client.HTTPException):
            lost_s = lost_s or time.monotonic()
            time.sleep(_PAUSE_S)
        finally:
            connection.close()


def _ask(connection: http.client.HTTPConnection, method: str, path: str) -> tuple[int, str]:
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def main(words: list[str]) -> None:
    """Serve or work, as the words say."""
    if words[0] == "serve":
        serve(int(words[1]), float(words[2]), os.environ["QUICKSILVER_HOST"], int(os.environ["PORT_HTTP"]))
    else:
        work(float(words[1]), os.environ["POOL_HOST"], int(os.environ["POOL_PORT_HTTP"]))


if __name__ == "__main__":
    main(sys.argv[1:])
