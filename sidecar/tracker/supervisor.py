"""Keeps the relay's listening sockets and one worker process that serves them; a dead worker is replaced at once.

The supervisor does nothing else, so that nothing else can end it. Connections that arrive while there is no worker wait
in the sockets' backlogs. If the supervisor dies, its worker ends too: the ports are free for the next supervisor, and
one node is never served with two versions of the settings.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final

from quicksilver.common.process import fdstore, watchdog
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_STOP_S: Final = 5.0
_TICK_S: Final = 1.0
_YOUNG_S: Final = 1.0
_PAUSE_MAX_S: Final = 5.0


class Keeper:
    """`run()` ends on SIGTERM or SIGINT, after the worker. Only for a process of one thread: workers are forked.

    work: serves the sockets in a worker, given the worker's end of a pair of sockets: it has to write to it at least
    every `stall_s`, and to end when it can read it.
    """

    def __init__(self, sockets: Sequence[socket.socket], work: Callable[[socket.socket], None], stall_s: float) -> None:
        self.sockets, self.stall_s = sockets, stall_s
        self._work = work
        self._worker: int | None = None
        self._stop_by_s: float | None = None
        self._failures = 0

    def run(self) -> None:
        """Keep a worker until stopped."""
        for number in _SIGNALS:
            signal.signal(number, self._stop)
        fdstore.ready()
        try:
            while self._stop_by_s is None:
                begun_s = time.monotonic()
                status = self._keep(*self._spawn())
                if self._stop_by_s is None:
                    self._replace(status, time.monotonic() - begun_s)
        finally:
            for sock in self.sockets:
                sock.close()

    def _spawn(self) -> tuple[int, socket.socket]:
        end, worker_end = socket.socketpair()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # the handler must know which process to signal
        pid = os.fork()
        if pid == 0:
            end.close()
            self._be_worker(worker_end)
        self._worker = pid
        worker_end.close()
        log.info("worker started", worker=pid)
        if self._stop_by_s is not None:
            os.kill(pid, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return pid, end

    def _be_worker(self, keeper: socket.socket) -> None:
        """Never returns."""
        code = 1
        try:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self._work(keeper)
            code = 0
        except Exception:
            log.exception("the worker failed")
        finally:
            os._exit(code)

    def _keep(self, pid: int, life: socket.socket) -> int:
        """Return the worker's wait status once it is gone; it is killed when it hangs, or does not stop in time."""
        heard_s = time.monotonic()
        with life:
            while True:
                watchdog.alive()
                if select.select([life], [], [], _TICK_S)[0]:
                    if not life.recv(4096):
                        break
                    heard_s = time.monotonic()
                now_s = time.monotonic()
                late = self._stop_by_s is not None and now_s > self._stop_by_s
                if late or now_s - heard_s > self.stall_s:
                    log.error("the worker hangs: killed", worker=pid, silent_s=round(now_s - heard_s, 1))
                    os.kill(pid, signal.SIGKILL)
                    break
        self._worker = None  # from here on the number may be another process's
        return os.waitpid(pid, 0)[1]

    def _replace(self, status: int, lived_s: float) -> None:
        """Say why the worker is gone; pause when one after the other ends at once."""
        code = os.waitstatus_to_exitcode(status)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        log.error("the worker ended: another one takes over", why=how, lived_s=round(lived_s, 1))
        self._failures = self._failures + 1 if lived_s < _YOUNG_S else 0
        until_s = time.monotonic() + (min(_PAUSE_MAX_S, 0.1 * 2**self._failures) if self._failures else 0.0)
        while self._stop_by_s is None and time.monotonic() < until_s:
            time.sleep(0.05)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._stop_by_s is None:
            self._stop_by_s = time.monotonic() + _STOP_S
        if self._worker is not None:
            os.kill(self._worker, signal.SIGTERM)
