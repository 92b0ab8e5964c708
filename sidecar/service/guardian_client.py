"""The sidecar's side of the guardian: starts it, sends it undo records, and restarts it when it dies.

It never waits: lines that the pipe does not take at once are written later, up to a bound; a guardian that does not
read is replaced by another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from quicksilver.common.process.interpreter import module_command
from quicksilver.common.process.logs import get_logger
from sidecar.service.guardian import DEAF_TO

log = get_logger(__name__)
_KEPT_BYTES_MAX: Final = 4 * 2**20
_AGAIN_S: Final = 0.2
_AGAIN_MAX_S: Final = 30.0
_HERE: Final = Path(__file__).resolve().parents[2]


class Guardian:
    """One guardian process, inside the running loop; `label` is the parent group of this sidecar's containers."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.restarts = 0
        self._undo: dict[str, Mapping[str, object]] = {}
        self._clean: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = self._pidfd = -1
        self._began_s = 0.0
        self._ended: asyncio.Event | None = None
        """Set when the guardian has ended; None unless this side is closing."""
        self._backlog = bytearray()
        self._writing = False
        self._again_s = _AGAIN_S
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The guardian's process id, None while there is none."""
        return self._process.pid if self._process else None

    @property
    def is_current(self) -> bool:
        """Whether everything was written to the guardian's pipe."""
        return self._process is not None and not self._backlog

    def start(self) -> None:
        """Start the guardian and send it everything. Raises OSError."""
        inherited = os.environ.get("PYTHONPATH")
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(_HERE), *([inherited] if inherited else [])])}
        blocked = signal.pthread_sigmask(
            signal.SIG_BLOCK, DEAF_TO
        )  # inherited: it ignores these signals from its start
        try:
            self._process = process = subprocess.Popen(
                module_command("sidecar.service.guardian", self.label),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env=env,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        assert process.stdin is not None
        self._pipe = os.dup(process.stdin.fileno())
        process.stdin.close()
        os.set_blocking(self._pipe, False)
        self._pidfd = os.pidfd_open(process.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pidfd, self._died)
        self._began_s = loop.time()
        self._backlog.clear()
        for container_id, undo in self._undo.items():
            self._send({"put": container_id, "undo": undo})
        if self._clean:
            self._send({"clean": self._clean})

    def put(self, container_id: str, undo: Mapping[str, object]) -> bool:
        """Send a container's undo record, before its limits change. Returns whether the guardian has it."""
        self._undo[container_id] = undo
        self._send({"put": container_id, "undo": undo})
        return self.is_current

    def drop(self, container_id: str) -> None:
        """Send that a container has its full limits and is detached."""
        if self._undo.pop(container_id, None) is not None:
            self._send({"del": container_id})

    def clean(self, groups: Sequence[str]) -> None:
        """Send the groups to remove at the end, when they are empty, in this order."""
        if list(groups) != self._clean:
            self._clean = list(groups)
            self._send({"clean": self._clean})

    async def close(self, wait_s: float = 5.0) -> None:
        """Close the pipe: the guardian executes the undos that are left, and ends. It is never killed here."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        process = self._process
        if process is None:
            return
        self._ended = asyncio.Event()
        if not self._backlog:
            self._close_pipe()
        try:
            await asyncio.wait_for(self._ended.wait(), wait_s)
        except TimeoutError:
            log.warning(f"the guardian (pid {process.pid}) has not ended after {wait_s:g} s")
            self._let_go()

    def _send(self, message: Mapping[str, object]) -> None:
        if self._process is None or self._pipe < 0:
            return  # the next one gets everything
        self._backlog += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if not self._writing:
            self._write()
        if len(self._backlog) > _KEPT_BYTES_MAX:
            log.error(f"the guardian (pid {self._process.pid}) does not read; it is replaced")
            self._process.kill()
            self._backlog.clear()

    def _write(self) -> None:
        try:
            while self._backlog:
                del self._backlog[: os.write(self._pipe, self._backlog)]
        except BlockingIOError:
            if not self._writing:
                asyncio.get_running_loop().add_writer(self._pipe, self._write)
                self._writing = True
            return
        except BrokenPipeError:
            self._backlog.clear()  # the pidfd reports its end
        self._stop_writing()
        if self._ended is not None:
            self._close_pipe()

    def _stop_writing(self) -> None:
        if self._writing:
            asyncio.get_running_loop().remove_writer(self._pipe)
            self._writing = False

    def _close_pipe(self) -> None:
        self._stop_writing()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def _let_go(self) -> None:
        self._close_pipe()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._process = None

    def _died(self) -> None:
        process = self._process
        if process is None:
            return
        status = process.wait()
        self._let_go()
        if self._ended is not None:
            self._ended.set()
            return
        self.restarts += 1
        loop = asyncio.get_running_loop()
        if loop.time() - self._began_s > 2 * _AGAIN_MAX_S:
            self._again_s = _AGAIN_S
        log.error(f"the guardian ended with status {status}; another one starts in {self._again_s:g} s")
        self._timer = loop.call_later(self._again_s, self._again)
        self._again_s = min(self._again_s * 2, _AGAIN_MAX_S)

    def _again(self) -> None:
        self._timer = None
        try:
            self.start()
        except OSError as error:
            log.error(f"the guardian cannot be started ({error}); tried again in {self._again_s:g} s")
            self._timer = asyncio.get_running_loop().call_later(self._again_s, self._again)
            self._again_s = min(self._again_s * 2, _AGAIN_MAX_S)
