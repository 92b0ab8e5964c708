"""The first process in an instance's container: it chooses ports, starts the command, and watches it until it ends.

It stays the command's parent: its exit status is the command's, and the next attempt of the master finds it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from quicksilver_apps.master.launcher.environment import PEERS_FILE, peer_variables, port_variables
from quicksilver_apps.master.launcher.link import LinkListener, LinkReporter

SPEC_VARIABLE: Final = "QUICKSILVER_LAUNCH"
KEY_VARIABLE: Final = "QUICKSILVER_INSTANCE_KEY"
ARENAS_VARIABLE: Final = "QUICKSILVER_ARENAS"
"""The command's MALLOC_ARENA_MAX; the launcher's own is 1, so that its threads reserve little virtual memory."""
NO_MASTER_STATUS: Final = 70
"""Exit status of a launcher whose master did not answer before the command was started."""
FORWARD_S: Final = 1.0
_PRCTL: Final = ctypes.CDLL(None).prctl
_PR_SET_PDEATHSIG: Final = 1
FIRST_CHECK_S: Final = 0.1
TAIL_BYTES: Final = 2000
LINE_BYTES: Final = 64 * 1024
"""A longer line is searched in parts."""
STACK_BYTES: Final = 256 * 1024
_OWN_VARIABLES: Final = (SPEC_VARIABLE, KEY_VARIABLE, ARENAS_VARIABLE, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION")


def encode(spec: Mapping[str, Any]) -> str:
    """Return what SPEC_VARIABLE has: base64, because NodeManagers put variables into a shell script unquoted."""
    return base64.b64encode(json.dumps(spec).encode()).decode()


class LaunchedInstance:
    """What the launcher knows of its instance; the listener answers with it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Begin before anything was started."""
        self.spec = spec
        self.ports: dict[str, int] = {}
        self.listens_on = 0
        self.phase = "starting"
        self.notes: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        """Return the state as JSON data."""
        return {
            "container_id": self.spec["container_id"],
            "service": self.spec["service"],
            "index": self.spec["index"],
            "ports": self.ports,
            "listens_on": self.listens_on,
            "phase": self.phase,
            "notes": self.notes,
        }


def choose_ports(specs: list[dict[str, Any]]) -> dict[str, int]:
    """Return a number for each port: the one that is wanted, or a free one."""
    ports: dict[str, int] = {}
    sockets: list[socket.socket] = []
    try:
        for port in specs:
            number = port["number"]
            if not number:
                sockets.append(socket.socket())
                sockets[-1].bind(("", 0))
                number = sockets[-1].getsockname()[1]
            ports[port["name"]] = number
    finally:
        for each in sockets:
            each.close()
    return ports


class Child:
    """The command's process. Signals that arrive before it is there end the launcher."""

    def __init__(self) -> None:
        """Handle SIGTERM and SIGINT from now on."""
        self._process: subprocess.Popen[bytes] | None = None
        self._forwarded, self._starting = False, False
        self._early = 0
        """A signal that came while the command was being started."""
        self._news, self._wake = os.pipe()
        """Has a byte for each signal, and one for the end of the command."""
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signal)

    def start(self, command: str, environment: Mapping[str, str]) -> None:
        """Start the command, which is killed when the launcher is. Raises OSError.

        A NodeManager kills a container's processes after their first one was killed, but not always: it may have
        deleted the file with their process group by then (Hadoop 3.4.2, `ContainerCleanup`). Called in the main
        thread: the kernel asks when the thread ends that started the command.
        """
        self._starting = True
        self._process = subprocess.Popen(["/bin/sh", "-c", command], env=dict(environment), preexec_fn=_die_with_parent)
        if self._early:
            self._signal(self._early, None)

    def wait(self) -> int:
        """Wait for its end; return its exit status, 128 and the number for a signal, as a shell does.

        Python handles signals in this thread alone, and between two calls: one that arrives just before a call that
        waits, or at another thread, does not end the call. So this thread waits for the descriptor of signals.
        """
        assert self._process is not None
        threading.Thread(target=self._reap, args=(self._process,), name="reaper", daemon=True).start()
        while (status := self._process.returncode) is None:
            os.read(self._news, 64)
        return status if status >= 0 else 128 - status

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        with suppress(BlockingIOError):  # full: there is something to read
            os.write(self._wake, b"\0")

    def _signal(self, number: int, _: FrameType | None) -> None:
        """Pass a signal on, later than one that a whole process group got, and only once."""
        if self._process is None:
            if not self._starting:
                sys.exit(128 + number)
            self._early = number  # the command may run already: it gets it once it is known
            return
        if self._forwarded:
            return
        self._forwarded = True
        timer = threading.Timer(0.0 if os.getpid() == 1 else FORWARD_S, self._process.send_signal, (number,))
        timer.daemon = True
        timer.start()


def _die_with_parent() -> None:
    """Have the kernel kill this process when its parent is killed; runs between fork and exec."""
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class LauncherWatch(threading.Thread):
    """Waits until a line of the logs matches, or a command ends with 0; then the instance is ready."""

    def __init__(self, ready: Mapping[str, Any], logs: Path, environment: Mapping[str, str], passed: Any) -> None:
        """Prepare. passed: called once, without arguments."""
        super().__init__(name="readiness", daemon=True)
        self._pattern = re.compile(ready["log"].encode()) if ready["log"] else None
        self._command, self._every_s = ready["command"], ready["every_s"]
        self._logs, self._environment, self._passed = logs, environment, passed
        self._offsets = {"stdout": 0, "stderr": 0}

    def run(self) -> None:
        """Check again and again."""
        pause_s = FIRST_CHECK_S
        while not (self._line_matches() if self._pattern is not None else self._command_succeeds()):
            time.sleep(min(pause_s, self._every_s))
            pause_s *= 2
        self._passed()

    def _line_matches(self) -> bool:
        assert self._pattern is not None
        for name, offset in self._offsets.items():
            path = self._logs / name
            if not path.is_file():
                continue
            with path.open("rb") as log:
                log.seek(offset)
                while line := log.readline(LINE_BYTES):
                    if self._pattern.search(line):
                        return True
                    if line.endswith(b"\n") or len(line) == LINE_BYTES:
                        offset += len(line)
            self._offsets[name] = offset
        return False

    def _command_succeeds(self) -> bool:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", self._command],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=max(30.0, self._every_s),
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def last_lines(logs: Path) -> str:
    """Return the end of standard error, or of standard output when the former is empty."""
    for name in ("stderr", "stdout"):
        path = logs / name
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - TAIL_BYTES))
                return log.read().decode(errors="replace").strip()
    return ""


def environment_of(instance: LaunchedInstance, form: Mapping[str, Any], base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the command (docs/applications.md); `form` is that of the file of peers."""
    spec = instance.spec
    own = {name: value for name, value in base.items() if name not in _OWN_VARIABLES}
    if ARENAS_VARIABLE in base:
        del own["MALLOC_ARENA_MAX"]
        own |= {"MALLOC_ARENA_MAX": base[ARENAS_VARIABLE]} if base[ARENAS_VARIABLE] else {}
    return {
        **own,
        **peer_variables(spec["after"], form),
        **port_variables(instance.ports),
        **{name: str(value) for name, value in spec["variables"].items()},
        "QUICKSILVER_PEERS": str(Path(PEERS_FILE).absolute()),
        **spec["environment"],
    }


def main(logs: Path) -> int:
    """Launch the instance that the environment describes. logs: the container's log folder. Return the exit status."""
    threading.stack_size(STACK_BYTES)
    child = Child()
    instance = LaunchedInstance(json.loads(base64.b64decode(os.environ[SPEC_VARIABLE])))
    spec, key = instance.spec, os.environ[KEY_VARIABLE]
    reporter = LinkReporter(spec["variables"]["QUICKSILVER_MASTER"], spec["container_id"], key)
    listener = LinkListener(instance, key, reporter.turn_to)
    instance.listens_on = listener.port
    instance.ports = choose_ports(spec["ports"])
    form = reporter.introduce({"ports": instance.ports, "listens_on": listener.port})
    if form is None:
        print("quicksilver: no application master answered; the command was not started", file=sys.stderr)
        return NO_MASTER_STATUS
    Path(PEERS_FILE).write_text(json.dumps(form))
    environment = environment_of(instance, form, os.environ)
    child.start(spec["command"], environment)
    instance.phase = "running"
    reporter.send("state", {"phase": "running"})

    def passed() -> None:
        instance.phase = "ready"
        reporter.send("state", {"phase": "ready"})

    if spec["ready"]["log"] or spec["ready"]["command"]:
        LauncherWatch(spec["ready"], logs, environment, passed).start()
    status = child.wait()
    sys.stdout.flush()
    reporter.last({"exit_status": status, "lines": last_lines(logs)})
    return status
