"""A real Hadoop cluster on this machine: started, restarted with or without the overlay, used, stopped."""

import getpass
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from requests.auth import AuthBase

from quicksilver_lab.cluster import daemons, processes, state
from quicksilver_lab.cluster.baseconf import rm_state_dir, zookeeper_dir
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.daemon_processes import DaemonProcesses, Progress
from quicksilver_lab.cluster.errors import StateError
from quicksilver_lab.cluster.kerberos import Kerberos, web_auth
from quicksilver_lab.cluster.launchers import HadoopLaunchers
from quicksilver_lab.cluster.runtime.native import hadoop_native
from quicksilver_lab.cluster.spec import ClusterSpec, RmAddresses

_POLL_S = 0.25
_GRACE_S = 10.0
_TURN_S = 30.0
"""How long one daemon's restart waits for that of another, which writes the same file."""
_LOG_TAIL_LINES = 12


def _silent(message: str) -> None:
    """Take no notice of progress."""


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """One daemon: does its process run, and does it answer?"""

    name: str
    pid: int
    alive: bool
    up: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The present state of a cluster; `node_states` as the RM reports them, by NodeId."""

    spec: ClusterSpec
    daemons: tuple[DaemonStatus, ...]
    node_states: dict[str, str]
    containers: int
    """Processes of containers on this machine."""

    @property
    def running(self) -> bool:
        """Whether all daemons are up."""
        return bool(self.daemons) and all(daemon.up for daemon in self.daemons)


class Cluster:
    """One cluster in one folder. Daemons outlive this object; another one for the same folder finds them again."""

    def __init__(self, spec: ClusterSpec) -> None:
        """Prepare; nothing is started or written yet."""
        self.spec = spec.model_copy(update={"workdir": spec.workdir.absolute()})
        self.conf = ConfDirs(self.spec)
        self.processes = DaemonProcesses(self.spec)
        self.launchers = HadoopLaunchers(self.spec, self.conf)

    @classmethod
    def attach(cls, workdir: Path) -> Self:
        """Return the cluster that was started in `workdir`. Raises StateError when there is none."""
        saved = state.load(workdir.absolute())
        if saved is None:
            raise StateError(
                f"{workdir}: no cluster was started here. Start one with: quicksilver cluster start --dir {workdir}"
            )
        return cls(saved.spec)

    @property
    def conf_dir(self) -> Path:
        """HADOOP_CONF_DIR of clients; the same with and without overlay."""
        return self.conf.client

    @property
    def rm_conf_dir(self) -> Path:
        """HADOOP_CONF_DIR of the ResourceManager, the first one with high availability."""
        return self.conf.resourcemanager

    @property
    def rm_conf_dirs(self) -> tuple[Path, ...]:
        """HADOOP_CONF_DIR of each ResourceManager."""
        return self.conf.resourcemanagers

    @property
    def node_conf_dirs(self) -> tuple[Path, ...]:
        """HADOOP_CONF_DIR of each NodeManager, node 1 first; a sidecar reads its node's."""
        return self.conf.nodemanagers

    @property
    def rm_rest(self) -> str:
        """Base URL of the RM's REST, to which /ws/v1/cluster is added; with high availability the active one's."""
        return daemons.active_rm(self.spec).web.url

    def active_rm(self) -> RmAddresses:
        """Return the RM that is active now; the first one while none is."""
        return daemons.active_rm(self.spec)

    @property
    def kerberos(self) -> Kerberos:
        """The realm of a secure cluster."""
        return Kerberos(self.spec)

    @property
    def web_auth(self) -> AuthBase | None:
        """A login at the web servers of a secure cluster, as who runs this; None for others."""
        return web_auth(self.spec)

    def log(self, name: str) -> Path:
        """Return the log file of a daemon."""
        return self.processes.log(name)

    def local_dir(self, node: int) -> Path:
        """Return the local dir of a NodeManager (yarn.nodemanager.local-dirs), nodes counted from 0."""
        return self.spec.workdir / "local" / self.spec.node_addresses[node].name

    def start(self, progress: Progress = _silent) -> None:
        """Start everything and return when it is up; HDFS has the files of earlier starts in this folder.

        Raises MissingToolError, DownloadError, PortInUseError, StateError; DaemonFailedError, all being stopped then.
        """
        with state.exclusive(self.spec.workdir):
            if self.processes.alive():
                raise StateError(
                    f"{self.spec.workdir}: this cluster is running. Stop it first: quicksilver cluster stop"
                )
            launcher = self._prepare(progress)
            hdfs, yarn = daemons.hdfs_daemons(self.spec, self.conf), daemons.yarn_daemons(self.spec, self.conf)
            history = daemons.history_daemons(self.spec, self.conf)
            kdc = daemons.kdc_daemons(self.spec, self.conf)
            self.processes.check_ports([*kdc, *hdfs, *history, *yarn])
            try:
                self.processes.spawn(kdc, self.launchers.of, progress)
                self.processes.wait(kdc, progress)
                self.processes.spawn(yarn, self.launchers.of, progress)
                if hdfs:
                    _format_hdfs(self, launcher, progress)
                self.processes.spawn(hdfs, self.launchers.of, progress)
                self.processes.wait(hdfs, progress)
                self.processes.spawn(history, self.launchers.of, progress)
                self.processes.wait([*history, *yarn], progress)
                if hdfs:
                    daemons.make_hdfs_folders(self.spec, getpass.getuser())
            except BaseException:
                self.processes.stop_all()
                raise

    def restart_yarn(self, overlay: bool, progress: Progress = _silent) -> None:
        """Restart RM and NodeManagers with or without the overlay; HDFS and JobHistoryServer go on, applications end.

        Raises as `start`; when YARN does not come up, HDFS stays.
        """
        with state.exclusive(self.spec.workdir):
            if not self.processes.alive():
                raise StateError(f"{self.spec.workdir}: this cluster is not running. Start it first.")
            self.processes.stop([daemon.name for daemon in daemons.yarn_daemons(self.spec, self.conf)])
            self.spec = self.spec.model_copy(update={"overlay": overlay})
            self.conf, self.processes = ConfDirs(self.spec), DaemonProcesses(self.spec)
            self._prepare(progress)
            yarn = daemons.yarn_daemons(self.spec, self.conf)
            self.processes.check_ports(yarn)
            try:
                self.processes.spawn(yarn, self.launchers.of, progress)
                self.processes.wait(yarn, progress)
            except BaseException:
                self.processes.stop([daemon.name for daemon in yarn])
                raise

    def kill(self, name: str) -> None:
        """End a daemon by SIGKILL, as a crash would, and return when it is gone; its containers and files stay.

        Raises StateError when no daemon of that name was started.
        """
        processes.kill(self.processes.process(name))

    def terminate(self, name: str) -> None:
        """End a daemon by SIGTERM, after 10 s by SIGKILL; what it does not end itself stays. Raises as `kill`."""
        processes.stop([self.processes.process(name)], _GRACE_S)

    def restart(self, name: str, wait: bool = True, progress: Progress = _silent) -> None:
        """Start a daemon again with the configuration and the local dirs that it had; one that runs is ended before.

        wait: return when it is up; a NodeManager then has sent a heartbeat since. What it left running goes on.
        Raises StateError, PortInUseError and DaemonFailedError.
        """
        self.terminate(name)
        daemon = daemons.all_daemons(self.spec, self.conf)[name]
        self.processes.check_ports([daemon])
        since_s = time.time()
        with state.exclusive(self.spec.workdir, wait_s=_TURN_S):
            self.processes.spawn([daemon], self.launchers.of, progress)
        if wait:
            self.processes.wait([daemons.up_since(self.spec, daemon, since_s)], progress)

    def upgrade(self, name: str, version: str, wait: bool = True, progress: Progress = _silent) -> None:
        """Restart a daemon with another version of Hadoop, as a rolling upgrade does. Arguments and errors: `restart`.

        Raises StateError when no daemon of that name was started.
        """
        self.terminate(name)
        with state.exclusive(self.spec.workdir, wait_s=_TURN_S):
            versions = {**self.spec.hadoop_of, name: version}
            self.spec = ClusterSpec.model_validate(self.spec.model_dump() | {"hadoop_of": versions})
            self.conf, self.processes = ConfDirs(self.spec), DaemonProcesses(self.spec)
            self.launchers = HadoopLaunchers(self.spec, self.conf)
            self.conf.write(self.launcher.jars)
            state.save(self.processes.saved().model_copy(update={"spec": self.spec}))
        self.restart(name, wait, progress)

    def stop(self, progress: Progress = _silent) -> None:
        """Stop all daemons and containers of this cluster; nothing of it is left then. Files stay."""
        with state.exclusive(self.spec.workdir):
            progress(f"stopping {len(self.processes.alive())} daemons")
            self.processes.stop_all()

    def status(self) -> ClusterStatus:
        """Ask every daemon how it is."""
        known, alive, statuses = daemons.all_daemons(self.spec, self.conf), self.processes.alive(), []
        for name, process in self.processes.saved().daemons.items():
            up = name in alive and name in known and known[name].is_up()
            statuses.append(DaemonStatus(name, process.pid, name in alive, up, self.processes.log(name)))
        containers = len(processes.containers_below(self.spec.workdir / "local"))
        return ClusterStatus(self.spec, tuple(statuses), daemons.node_states(self.spec) if alive else {}, containers)

    def hadoop(
        self, command: str, *args: str, user: str | None = None, timeout_s: float = 600.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a client program: a name in commands.MAIN_CLASSES, such as fs, jar, examples, job, or a class name.

        user: act as that HDFS and YARN user; on a secure cluster with a ticket of his own. Raises CommandFailedError
        on a timeout and, if `check`, on failure.
        """
        return self.launcher.run(command, args, self.conf_dir, user, timeout_s, check)

    def popen(
        self, command: str, *args: str, user: str | None = None, output: IO[str] | int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start a client program and return at once, for jobs side by side; the caller waits for it."""
        return self.launcher.popen(command, args, self.conf_dir, user, output)

    def artifact(self, name: str) -> Path:
        """Return one of Hadoop's jars, such as "hadoop-mapreduce-examples"."""
        return self.launcher.jars.artifact(name)

    @property
    def launcher(self) -> Launcher:
        """Java, jars and hosts file of clients; the jars are downloaded when they are not there yet."""
        return self.launchers.clients

    def _prepare(self, progress: Progress) -> Launcher:
        self.launchers = HadoopLaunchers(self.spec, self.conf)
        self.launchers.prepare(progress)
        launcher = self.launcher
        if self.spec.kerberos:
            hadoop_native(launcher.java, launcher.jars, progress)
            Kerberos(self.spec).prepare()
        self.conf.write(launcher.jars)
        self.processes.end_containers()  # left by a NodeManager that was killed from outside
        for folder in (self.spec.workdir / "local", rm_state_dir(self.spec), zookeeper_dir(self.spec)):
            shutil.rmtree(folder, ignore_errors=True)
        (self.spec.workdir / "logs").mkdir(exist_ok=True)
        if self.spec.yarn_only:
            self.spec.files.mkdir(exist_ok=True)
        state.save(self.processes.saved().model_copy(update={"spec": self.spec}))
        return launcher


def _format_hdfs(cluster: Cluster, launcher: Launcher, progress: Progress) -> None:
    spec = cluster.spec
    if (spec.workdir / "hdfs" / "name" / "current" / "VERSION").exists():
        return
    progress("formatting HDFS")
    main = "org.apache.hadoop.hdfs.server.namenode.NameNode"
    launcher.run(main, ["-format", "-nonInteractive"], cluster.conf_dir, None, spec.start_timeout_s, check=True)
