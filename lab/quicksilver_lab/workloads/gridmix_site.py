"""The cluster on which GridMix runs: a local one of its own, or one that runs already, by its configuration folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import requests
from requests.auth import AuthBase

from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf, reachable
from quicksilver_lab.cluster import Cluster
from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.confdirs import LOG4J
from quicksilver_lab.cluster.runtime.jars import hadoop_jars
from quicksilver_lab.cluster.runtime.java import find_java
from quicksilver_lab.workloads import clients, mapreduce
from quicksilver_lab.workloads.clients import Client
from quicksilver_lab.workloads.errors import WorkloadError
from quicksilver_lab.workloads.hdfs import Hdfs
from quicksilver_lab.workloads.rest import get_json

INPUT_LINES: Final = 20_000
_LIBRARIES: Final = ("hadoop-gridmix", "hadoop-rumen")
"""Jars that GridMix's tasks need and that nodes need not have."""
_CLEAN_S: Final = 120.0


class GridmixSite(Protocol):
    """What GridMix needs of a cluster."""

    @property
    def rm_rest(self) -> str:
        """The RM's REST, to which /ws/v1/cluster is added."""

    @property
    def history_rest(self) -> str:
        """The JobHistoryServer's REST, to which /ws/v1/history is added."""

    @property
    def auth(self) -> AuthBase | None:
        """A login at web servers."""

    def start(self, arguments: Sequence[str]) -> Client:
        """Start GridMix."""

    def put_input(self, folder: str) -> None:
        """Write a small input into a folder. Raises WorkloadError where that is not possible."""

    def clean(self, folder: str) -> None:
        """Delete the folder that GridMix used."""


class LocalSite:
    """A local cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def rm_rest(self) -> str:
        """The RM's REST, to which /ws/v1/cluster is added."""
        return self.cluster.rm_rest

    @property
    def history_rest(self) -> str:
        """The JobHistoryServer's REST, to which /ws/v1/history is added."""
        return self.cluster.spec.jobhistory_web.url

    @property
    def auth(self) -> AuthBase | None:
        """A login at web servers."""
        return self.cluster.web_auth

    def start(self, arguments: Sequence[str]) -> Client:
        """Start GridMix."""
        return clients.start(self.cluster, "gridmix", "gridmix", arguments)

    def put_input(self, folder: str) -> None:
        """Write a small input into a folder."""
        Hdfs(self.cluster).put(f"{folder}/input/text", mapreduce.make_text(INPUT_LINES).encode())

    def clean(self, folder: str) -> None:
        """Delete the folder that GridMix used."""
        Hdfs(self.cluster).delete(folder)


class RunningSite:
    """A cluster that runs already; nothing of it is started, changed or stopped, except GridMix's own files and jobs.

    The client programs are those of the Hadoop that the local clusters have, with the cluster's configuration.
    """

    def __init__(self, conf_dir: Path, workdir: Path) -> None:
        """Check the configuration and that ResourceManager and JobHistoryServer answer.

        Raises SettingsError for a folder that is none of Hadoop's, WorkloadError naming what does not fit.
        """
        self.conf_dir, self._workdir = conf_dir, workdir
        conf = load_hadoop_conf(conf_dir)
        _check(conf)
        self.rm_rest = _active_rm(conf)
        self.history_rest = f"http://{reachable(conf.address('mapreduce.jobhistory.webapp.address'))}"
        self.auth: AuthBase | None = None
        _answers(f"{self.history_rest}/ws/v1/history/info", conf.place("mapreduce.jobhistory.webapp.address"))
        java = find_java()
        self._jars = hadoop_jars(java)
        workdir.mkdir(parents=True, exist_ok=True)
        logging = workdir.absolute() / "log4j.properties"
        logging.write_text(LOG4J)  # GridMix names its jobs in its log alone, wherever the cluster's clients log to
        self._launcher = Launcher(java, self._jars, None, java_opts=(f"-Dlog4j.configuration={logging.as_uri()}",))

    def start(self, arguments: Sequence[str]) -> Client:
        """Start GridMix, with its own jars for the tasks."""
        libraries = ",".join(str(self._jars.artifact(name)) for name in _LIBRARIES)
        log = clients.log_file(self._workdir, "gridmix")
        with log.open("w") as output:
            command = ["-libjars", libraries, *arguments]
            return Client("gridmix", self._launcher.popen("gridmix", command, self.conf_dir, None, output), log)

    def put_input(self, folder: str) -> None:
        """Refuse: GridMix itself writes its input here."""
        raise WorkloadError(
            "GridMix has to write its input itself on a running cluster", place="--data-mb 0", remedy="give 1 or more"
        )

    def clean(self, folder: str) -> None:
        """Delete the folder that GridMix used."""
        self._launcher.run("fs", ["-rm", "-r", "-f", "-skipTrash", folder], self.conf_dir, None, _CLEAN_S, check=True)


def _check(conf: HadoopConf) -> None:
    """Raise WorkloadError for a cluster that this cannot use."""
    if conf.word("hadoop.security.authentication") != "SIMPLE":
        raise WorkloadError(
            "a cluster with Kerberos is not supported",
            place=conf.place("hadoop.security.authentication"),
            remedy="run Hadoop's own GridMix with a ticket, before and after the installation",
        )
    if conf.text("mapreduce.framework.name") != "yarn":
        raise WorkloadError(
            f"MapReduce runs on {conf.text('mapreduce.framework.name') or 'local'!r} here",
            place=conf.place("mapreduce.framework.name"),
            remedy="give the folder of a client whose mapred-site.xml has yarn",
        )
    if not (conf.text("fs.defaultFS") or "file:").startswith(("hdfs:", "viewfs:", "s3a:", "abfs:", "o3fs:", "ofs:")):
        raise WorkloadError(
            "there is no file system that all nodes share",
            place=conf.place("fs.defaultFS"),
            remedy="give the folder of a client whose core-site.xml names it",
        )


def _active_rm(conf: HadoopConf) -> str:
    """Return the REST of the ResourceManager that is active. Raises WorkloadError when none is."""
    for rm_id in conf.rm_ids() if conf.ha else [None]:
        url = conf.rm_web_url(rm_id)
        info = _answers(f"{url}/ws/v1/cluster/info", conf.place("yarn.resourcemanager.webapp.address"), conf.ha)
        if info.get("clusterInfo", {}).get("haState", "ACTIVE") == "ACTIVE":
            return url
    raise WorkloadError("no ResourceManager is active", place=str(conf.directory), remedy="start one, then try again")


def _answers(url: str, place: str, may_fail: bool = False) -> dict[str, Any]:
    """Return what a daemon's REST says of itself. Raises WorkloadError when it does not answer as one.

    may_fail: no answer is that of a standby ResourceManager.
    """
    try:
        return get_json(url)
    except (requests.RequestException, ValueError) as error:
        if may_fail:
            return {"clusterInfo": {"haState": "none"}}
        raise WorkloadError(
            f"{url} does not answer as it should: {error}",
            place=place,
            remedy="start the daemon, or correct the address",
        ) from error


def folder_name() -> str:
    """Return a folder in the cluster's file system that no other run has."""
    return f"/gridmix-{time.strftime('%Y%m%d-%H%M%S')}"
