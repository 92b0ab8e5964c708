"""Each daemon as a process: one that stands still no longer reports, and is ended and started again."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psutil
import pytest
import requests

from quicksilver_lab.bench.rest_servers import KINDS, RestServer
from tests.examples import others_long
from tests.quicksilver.process.test_supervisor import SUPERVISE

HANG_S, PATIENCE_S = 3.0, 120.0
IMPATIENT = f"""
import sys
import quicksilver.process.supervisor as s
s.HANG_S, s.ABORT_S, s.LOOK_S = {HANG_S}, 1.0, 0.2
look = s.Supervisor._end_hung
def looks(self):
    if self._child is not None and self._child.alive_s is not None:
        print(self._child.pid, "has reported", file=sys.stderr, flush=True)
    look(self)
s.Supervisor._end_hung = looks
{SUPERVISE}
"""


def logged(server: RestServer, text: str) -> None:
    """Wait until the log has a text."""
    end_s = time.monotonic() + PATIENCE_S
    while text not in server.log.read_text():
        assert time.monotonic() < end_s, f"no {text!r} in {server.log.read_text()[-2000:]}"
        time.sleep(0.05)


def working(server: RestServer) -> psutil.Process:
    """Return the daemon's process, once it has answered."""
    answer = requests.get(f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE_S)
    assert answer.status_code == 200
    (daemon,) = psutil.Process(server.process.pid).children()
    return daemon


@pytest.mark.parametrize("kind", others_long(KINDS))
def test_a_daemon_that_stands_still_is_started_again(tmp_path: Path, kind: str) -> None:
    """The proxy stood still for 20 s, and nobody noticed."""
    with RestServer(kind, tmp_path, under=(sys.executable, "-c", IMPATIENT)) as server:
        first = working(server)
        logged(server, f"{first.pid} has reported")
        first.suspend()
        second = working(server)  # whoever connects meanwhile waits
        assert second.pid != first.pid and not first.is_running()
        logged(server, "hangs, silent for")
