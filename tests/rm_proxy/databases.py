"""A PostgreSQL server for tests."""

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

import psycopg
import pytest


class Postgres:
    """A PostgreSQL server of its own on a loopback port, run by a user that is not root."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not found:
            pytest.fail("no /usr/lib/postgresql/*/bin/postgres: install Debian's postgresql, or run -m 'not postgres'")
        self._bin = found[-1].parent
        self._user = next((n for n in ("postgres", "nobody") if _exists(n)), None) if os.getuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="quicksilver-postgres-"))
        if self._user:
            os.chown(self._folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._call("initdb", "-D", "data", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self._folder / "log").open("ab")
        options = ["-D", "data", "-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder), "-F"]
        command = [str(self._bin / "postgres"), *options]
        with log:
            self._process = subprocess.Popen(command, cwd=self._folder, user=self._user, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(psycopg.OperationalError), psycopg.connect(self.dsn("postgres"), connect_timeout=2):
                return
            time.sleep(0.1)
        pytest.fail(f"PostgreSQL did not start: {(self._folder / 'log').read_text()}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill all of its processes at once, as a power cut would."""
        assert self._process is not None
        server = self._process.pid
        children = [pid for stat in Path("/proc").glob("[0-9]*/stat") if (pid := _child(stat, server))]
        self._process.send_signal(signal.SIGSTOP)  # it must not tidy up
        for pid in [*children, server]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def dsn(self, database: str) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/{database}"

    def fresh(self, name: str) -> str:
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return self.dsn(name)

    def _call(self, tool: str, *arguments: str) -> None:
        command = [str(self._bin / tool), *arguments]
        done = subprocess.run(command, cwd=self._folder, user=self._user, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _child(stat: Path, parent: int) -> int | None:
    """Return the id of a process when it is a child of `parent`."""
    with suppress(OSError):
        words = stat.read_text().rpartition(")")[2].split()
        if int(words[1]) == parent:
            return int(stat.parent.name)
    return None


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
