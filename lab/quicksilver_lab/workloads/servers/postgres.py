"""A PostgreSQL server of its own for a workload, which may be killed and restarted."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from quicksilver_lab.workloads.errors import WorkloadError

_START_S: Final = 30.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.1
_USERS: Final = ("postgres", "nobody")
_NAME: Final = "quicksilver"


class Postgres:
    """A server on a loopback port for the time of a with block; its files go with it.

    Raises WorkloadError when there is no PostgreSQL, or it does not come up.
    """

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not programs:
            raise WorkloadError("not there", place="PostgreSQL", remedy="install Debian's postgresql, or take SQLite")
        self._bin = programs[-1].parent
        self._user = next((name for name in _USERS if _exists(name)), None) if os.getuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="quicksilver-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def folder(self) -> Path:
        """Where its files lie while it runs."""
        return self._folder

    @property
    def url(self) -> str:
        """Return what `proxy.store_url` takes."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of one of the server's databases."""
        return f"postgresql://{_NAME}@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        """Make a database and start the server."""
        try:
            if self._user:
                os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
            options = ["-D", "data", "-A", "trust", "-U", _NAME, "-E", "UTF8", "--locale=C", "--no-sync"]
            self._call("initdb", *options)
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server and remove its files."""
        self._close()

    def start(self) -> None:
        """Start the server; it is up on return."""
        options = ["-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-F"]
        with (self._folder / "log").open("ab") as log:
            command = [str(self._bin / "postgres"), *options]
            self._process = subprocess.Popen(command, cwd=self._folder, user=self._user, stdout=log, stderr=log)
        end_s = time.monotonic() + _START_S
        while not self._answers():
            if time.monotonic() > end_s:
                raise WorkloadError("did not come up", place="PostgreSQL", remedy=f"read {self._folder / 'log'}")
            if self._process.poll() is not None:  # an earlier one's processes may still hold its memory
                with (self._folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(command, cwd=self._folder, user=self._user, stdout=log, stderr=log)
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop the server in order, its connections cut; by SIGKILL when it takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server by SIGKILL; its other processes notice and end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def kill_all(self) -> None:
        """End all of its processes at once, as a power cut would."""
        if self._process is None:
            return
        children = psutil.Process(self._process.pid).children()
        self._process.send_signal(signal.SIGSTOP)  # it must not tidy up
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self.kill()

    def _answers(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def _close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def _call(self, tool: str, *arguments: str) -> None:
        command = [str(self._bin / tool), *arguments]
        done = subprocess.run(command, cwd=self._folder, user=self._user, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise WorkloadError(done.stderr.strip(), place=tool)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
