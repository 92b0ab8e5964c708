"""Hadoop's client programs, by the short names they have in Hadoop's scripts."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.cluster.errors import CommandFailedError
from quicksilver_lab.cluster.runtime.jars import Jars
from quicksilver_lab.cluster.runtime.java import Java

MAIN_CLASSES: Mapping[str, str] = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "jar": "org.apache.hadoop.util.RunJar",
    "examples": "org.apache.hadoop.examples.ExampleDriver",
    "job": "org.apache.hadoop.mapred.JobClient",
    "application": "org.apache.hadoop.yarn.client.cli.ApplicationCLI",
    "node": "org.apache.hadoop.yarn.client.cli.NodeCLI",
    "logs": "org.apache.hadoop.yarn.client.cli.LogsCLI",
    "rmadmin": "org.apache.hadoop.yarn.client.cli.RMAdminCLI",
    "distributedshell": "org.apache.hadoop.yarn.applications.distributedshell.Client",
    "gridmix": "org.apache.hadoop.mapred.gridmix.Gridmix",
    "rumen": "org.apache.hadoop.tools.rumen.TraceBuilder",
}
_FOREIGN = ("HADOOP_", "YARN_", "MAPRED_", "HDFS_")
_EXIT_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Launcher:
    """Runs Java main classes against one cluster."""

    java: Java
    jars: Jars
    hosts_file: Path | None
    """A hosts file in place of the machine's name service."""
    tmp: Path | None = None
    """Where the programs put temporary files, such as unpacked web pages; None for the machine's own place."""
    java_opts: tuple[str, ...] = ()
    """More options of every JVM."""
    tickets: Callable[[str | None], Mapping[str, str]] | None = None
    """On a secure cluster: the environment that holds a user's fresh tickets (None: of whoever runs this)."""
    folder: Path | None = None
    """Working directory of client programs; None for that of this process."""

    def argv(self, main: str, args: Sequence[str], conf_dir: Path, heap_mb: int, opts: Sequence[str] = ()) -> list[str]:
        """Return the command line of `main`: a short name of MAIN_CLASSES, or a class name."""
        tmp = [] if self.tmp is None else [f"-Djava.io.tmpdir={self.tmp}"]
        options = [*jvm_options(self.hosts_file, heap_mb), *tmp, *self.java_opts, *opts]
        classpath = f"{self.jars.classpath}:{conf_dir}"
        return [str(self.java.executable), *options, "-cp", classpath, MAIN_CLASSES.get(main, main), *args]

    def env(self, conf_dir: Path, user: str | None = None) -> dict[str, str]:
        """Return the environment without settings for another Hadoop; user: act as that one (simple authentication)."""
        base = {name: value for name, value in os.environ.items() if not name.startswith((*_FOREIGN, "CLASSPATH"))}
        own = {"JAVA_HOME": str(self.java.home), "HADOOP_CONF_DIR": str(conf_dir)}
        return base | own | ({"HADOOP_USER_NAME": user} if user else {})

    def client_env(self, conf_dir: Path, user: str | None) -> dict[str, str]:
        """Return the environment of a client program: logged in as `user`, where the cluster wants that."""
        if self.tickets is None:
            return self.env(conf_dir, user)
        return self.env(conf_dir) | dict(self.tickets(user))

    def popen(
        self, main: str, args: Sequence[str], conf_dir: Path, user: str | None, output: IO[str] | int
    ) -> subprocess.Popen[str]:
        """Start a client program; its output, errors included, goes to `output`."""
        argv = self.argv(main, args, conf_dir, heap_mb=512)
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self.client_env(conf_dir, user),
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def run(
        self, main: str, args: Sequence[str], conf_dir: Path, user: str | None, timeout_s: float, check: bool
    ) -> subprocess.CompletedProcess[str]:
        """Run a client program to its end; raises CommandFailedError when it fails (if `check`) or takes too long."""
        argv, shown = self.argv(main, args, conf_dir, heap_mb=512), " ".join([main, *args])
        try:
            done = subprocess.run(
                argv,
                cwd=self.folder,
                env=self.client_env(conf_dir, user),
                text=True,
                errors="replace",
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailedError(
                f"{shown}: not done after {timeout_s:g} s. Is the proxy running, if the overlay is on?"
            ) from error
        if check and done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-_EXIT_TAIL_LINES:])
            raise CommandFailedError(f"{shown}: exit code {done.returncode}\n{tail}")
        return done
