"""The processes of a cluster's daemons: started, awaited, stopped, and remembered in the cluster's folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from quicksilver_lab.cluster import processes, state
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.daemons import JOBHISTORY, NODEMANAGER, Daemon
from quicksilver_lab.cluster.errors import DaemonFailedError, StateError
from quicksilver_lab.cluster.ports import check_free
from quicksilver_lab.cluster.spec import ClusterSpec

Progress = Callable[[str], None]
_POLL_S = 0.25
_GRACE_S = 10.0
_LOG_TAIL_LINES = 12


class DaemonProcesses:
    """The daemons' processes of one cluster; another object for the same folder finds them again."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec

    def log(self, name: str) -> Path:
        """Return the log file of a daemon."""
        return self._spec.workdir / "logs" / f"{name}.log"

    def saved(self) -> state.LocalClusterState:
        """Return what the cluster's folder says of it."""
        return state.load(self._spec.workdir) or state.LocalClusterState(spec=self._spec)

    def alive(self) -> dict[str, processes.ProcessId]:
        """Return the processes that still run, by daemon."""
        return {name: process for name, process in self.saved().daemons.items() if processes.is_alive(process)}

    def process(self, name: str) -> processes.ProcessId:
        """Return a daemon's process. Raises StateError when none was started."""
        saved = self.saved().daemons
        if name not in saved:
            raise StateError(f"{self._spec.workdir}: no daemon {name} was started. Take one of: {', '.join(saved)}.")
        return saved[name]

    def check_ports(self, daemons: Iterable[Daemon]) -> None:
        """Check that the daemons' ports are free. Raises PortInUseError."""
        low, high = self._spec.base_port, self._spec.last_port
        check_free(
            (listen for daemon in daemons for listen in daemon.listens),
            f"Stop that process, or choose another --base-port (this cluster takes {low} to {high}).",
        )

    def spawn(self, daemons: Sequence[Daemon], launcher_of: Callable[[str], Launcher], progress: Progress) -> None:
        """Start daemons, one after another, and note each process; launcher_of: by the daemon's name."""
        saved = self.saved()
        for daemon in daemons:
            launcher = launcher_of(daemon.name)
            opts = ("-Dproc_" + daemon.name, *daemon.java_opts)
            java = launcher.argv(daemon.main_class, daemon.args, daemon.conf_dir, daemon.heap_mb, opts)
            argv, env = daemon.argv or java, launcher.env(daemon.conf_dir) | dict(daemon.env or {})
            saved.daemons[daemon.name] = processes.spawn(argv, self._spec.workdir, env, self.log(daemon.name))
            state.save(saved)
            progress(f"{daemon.name}: starting")

    def wait(self, daemons: Sequence[Daemon], progress: Progress) -> None:
        """Return when all answer. Raises DaemonFailedError when one ends, or is not up in time."""
        started, waiting = time.monotonic(), list(daemons)
        while waiting:
            for daemon in list(waiting):
                if daemon.is_up():
                    waiting.remove(daemon)
                    progress(f"{daemon.name}: up after {time.monotonic() - started:.1f} s")
            dead = [daemon for daemon in daemons if daemon.name not in self.alive()]
            if dead:
                raise self._failed(dead[0], "ended while starting")
            if waiting and time.monotonic() - started > self._spec.start_timeout_s:
                raise self._failed(waiting[0], f"not up after {self._spec.start_timeout_s:g} s")
            time.sleep(_POLL_S if waiting else 0)

    def _failed(self, daemon: Daemon, problem: str) -> DaemonFailedError:
        log = self.log(daemon.name)
        lines = log.read_text(errors="replace").splitlines()
        tail = "\n".join(f"  {line}" for line in lines[-_LOG_TAIL_LINES:])
        return DaemonFailedError(f"{daemon.name}: {problem}. Its log is {log}; the end of it:\n{tail}")

    def stop_all(self) -> None:
        """Stop all daemons and containers."""
        self.stop(list(self.saved().daemons))

    def stop(self, names: Sequence[str]) -> None:
        """Stop daemons, the NodeManagers first, and all containers."""
        saved = self.saved()
        first = [name for name in names if name.startswith((NODEMANAGER, JOBHISTORY))]
        for batch in (first, names):  # a NodeManager whose heartbeat meets no RM takes 10 s longer to end
            processes.stop([saved.daemons[name] for name in batch if name in saved.daemons], _GRACE_S)
        self.end_containers()
        for name in names:
            saved.daemons.pop(name, None)
        state.save(saved)

    def end_containers(self) -> None:
        """End the containers' processes."""
        while rest := processes.containers_below(self._spec.workdir / "local"):
            processes.stop(rest, grace_s=0.5)
