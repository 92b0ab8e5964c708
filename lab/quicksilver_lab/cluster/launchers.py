"""HadoopLaunchers of a cluster's programs: one for each version of Hadoop that it runs."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver_lab.cluster.commands import Launcher
from quicksilver_lab.cluster.confdirs import ConfDirs
from quicksilver_lab.cluster.kerberos import Kerberos, jvm_options
from quicksilver_lab.cluster.runtime.jars import Jars, hadoop_jars
from quicksilver_lab.cluster.runtime.java import Java, find_java
from quicksilver_lab.cluster.runtime.releases import release
from quicksilver_lab.cluster.spec import ClusterSpec, hadoop_version


class HadoopLaunchers:
    """Finds Java and jars of each version once; the jars are downloaded when they are not there yet."""

    def __init__(self, spec: ClusterSpec, conf: ConfDirs) -> None:
        self._spec, self._conf = spec, conf
        self._by_version: dict[str, Launcher] = {}

    def prepare(self, progress: Callable[[str], None]) -> None:
        """Have everything there. Raises MissingToolError and DownloadError."""
        for version in dict.fromkeys([self._spec.hadoop, *self._spec.hadoop_of.values()]):
            self._launcher(version, progress)

    @property
    def clients(self) -> Launcher:
        """That of clients."""
        return self._launcher(self._spec.hadoop)

    def of(self, daemon: str) -> Launcher:
        """Return that of a daemon, whose version may be another one."""
        return self._launcher(hadoop_version(self._spec, daemon))

    def _launcher(self, version: str, progress: Callable[[str], None] = lambda _: None) -> Launcher:
        if version not in self._by_version:
            allowed = release(version)
            java = find_java(oldest=allowed.oldest_java, newest=allowed.newest_java)
            jars = hadoop_jars(java, progress, version=version)
            self._by_version[version] = _launcher(self._spec, self._conf, java, jars)
        return self._by_version[version]


def _launcher(spec: ClusterSpec, conf: ConfDirs, java: Java, jars: Jars) -> Launcher:
    home = (f"-Duser.home={spec.files}",) if spec.yarn_only else ()  # the home in its default file system, too
    opts = (*jars.sharing, *home, *jvm_options(spec, jars.native), *spec.jvm_opts)
    tickets = Kerberos(spec).client_env if spec.kerberos else None
    folder = spec.files if spec.yarn_only else None
    return Launcher(java, jars, conf.hosts_file, spec.workdir / "tmp", opts, tickets, folder)
