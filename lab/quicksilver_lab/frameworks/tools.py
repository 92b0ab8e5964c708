"""Hadoop's tools that run as MapReduce jobs on a local cluster: streaming, whose tasks are any programs, and distcp."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.baseconf import jvm_options
from quicksilver_lab.frameworks.jars import Framework, framework
from quicksilver_lab.workloads import clients
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.mapreduce import RunningJob

_STREAMING: Final = "org.apache.hadoop.streaming.HadoopStreaming"
_COPY: Final = "org.apache.hadoop.tools.DistCp"
_CLIENT_HEAP_MB: Final = 384
_VERSIONS: Final = {"3.1.1": "3.1.1", "3.2.4": "3.1.1", "3.3.6": "3.1.1"}
"""By that of Hadoop, whose jars lack what 3.4.2's need; Maven Central has no streaming of 3.2 and 3.3."""


class Tools:
    """Streaming and distcp on one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        """Prepare. Raises DownloadError, MissingToolError."""
        self.cluster = cluster
        version = _VERSIONS.get(cluster.spec.hadoop, "")
        self.jars: Framework = framework("tools", cluster.launcher.java, cluster.launcher.jars, version=version)

    def streaming(
        self,
        name: str,
        source: str,
        target: str,
        mapper: str,
        reducer: str | None = None,
        own: Mapping[str, str] | None = None,
    ) -> RunningJob:
        """Start a streaming job; `mapper` and `reducer` are shell programs without single quotes.

        Without a reducer, maps write the result. own: properties (-D), such as `mapreduce.job.maps`.
        """
        arguments = ["-input", source, "-output", target, "-mapper", _shell(mapper)]
        arguments += ["-reducer", _shell(reducer)] if reducer else ["-numReduceTasks", "0"]
        return self._start(name, _STREAMING, own, arguments)

    def copy(self, name: str, source: str, target: str, own: Mapping[str, str] | None = None) -> RunningJob:
        """Start distcp of a folder to `target`, which is not there yet; it has no more maps than files."""
        namenode = f"hdfs://{self.cluster.spec.namenode}"
        return self._start(name, _COPY, own, [f"{namenode}{source}", f"{namenode}{target}"])

    def _start(self, name: str, main: str, own: Mapping[str, str] | None, arguments: Sequence[str]) -> RunningJob:
        launcher, conf_dir = self.cluster.launcher, self.cluster.conf_dir
        tmp = self.cluster.spec.workdir / "tmp"
        options = [*jvm_options(launcher.hosts_file, _CLIENT_HEAP_MB), f"-Djava.io.tmpdir={tmp}", *launcher.java_opts]
        defined = [f"-D{key}={value}" for key, value in (own or {}).items()]
        classpath = f"{self.jars.classpath(launcher.jars)}:{conf_dir}"
        log = clients.log_file(self.cluster.spec.workdir, name)
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(launcher.java.executable), *options, "-cp", classpath, main, *defined, *arguments],
                env=launcher.client_env(conf_dir, None),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return RunningJob(self.cluster, Client(name, process, log))


def _shell(program: str) -> str:
    """Return the command of a program for a shell: streaming itself only splits a command at blanks and quotes."""
    return f"sh -c '{program}'"
