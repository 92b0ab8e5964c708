"""What a submitter needs of the site files: ResourceManagers, NameNodes, whether logins are by Kerberos."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quicksilver.common.address import Address, parse_address
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf, reachable
from quicksilver_apps.client.errors import ClientError

_NAMENODE_PORT: Final = 8020
_WEB_PORT: Final = {"http": 9870, "https": 9871}


class ClusterSite:
    """One cluster, as the site files of its clients describe it."""

    def __init__(self, conf: HadoopConf) -> None:
        """`conf`: with hdfs-site.xml."""
        self.conf = conf

    @classmethod
    def load(cls, directory: Path | None = None) -> ClusterSite:
        """Read a directory of site files: the given one, else that of $HADOOP_CONF_DIR. Raises SettingsError."""
        return cls(load_hadoop_conf(directory, hdfs=True))

    @property
    def secure(self) -> bool:
        """Whether the cluster wants logins by Kerberos."""
        return self.conf.word("hadoop.security.authentication") == "KERBEROS"

    @property
    def default_fs(self) -> str:
        """The file system of paths without one, such as `hdfs://host:8020`."""
        name = self.conf.required("fs.defaultFS")
        if "/" not in name:  # as it was written before there were URLs
            name = "file:///" if name == "local" else f"hdfs://{name}"
        return name.rstrip("/")

    @property
    def resource_managers(self) -> tuple[Address, ...]:
        """Where clients reach each ResourceManager."""
        return tuple(reachable(each) for each in self._of_each_rm("yarn.resourcemanager.address"))

    @property
    def schedulers(self) -> tuple[str, ...]:
        """The scheduler's address, `host:port`, of each ResourceManager: the proxy's where clients have that one."""
        return tuple(str(reachable(each)) for each in self._of_each_rm("yarn.resourcemanager.scheduler.address"))

    @property
    def rm_urls(self) -> tuple[str, ...]:
        """The web server of each ResourceManager."""
        return tuple(self.conf.rm_web_url(rm_id) for rm_id in self._rm_ids())

    @property
    def rm_principal(self) -> str:
        """The Kerberos name of the ResourceManagers, which renew tokens; "" where no file says it."""
        return self.conf.text("yarn.resourcemanager.principal") or ""

    def namenode_urls(self, authority: str) -> tuple[str, ...]:
        """Return the web servers of the NameNodes of a file system.

        authority: `host:port`, or the name of a nameservice. Raises SettingsError.
        """
        scheme = "https" if self.conf.word("dfs.http.policy") == "HTTPS_ONLY" else "http"
        name = f"dfs.namenode.{scheme}-address"
        if nodes := self.conf.names(f"dfs.ha.namenodes.{authority}"):
            names = [f"{name}.{authority}.{node}" for node in nodes]
            addresses = [parse_address(self.conf.required(each), self.conf.place(each)) for each in names]
            return tuple(f"{scheme}://{each}" for each in addresses)
        host = parse_address(authority, "hdfs://", _NAMENODE_PORT).host
        address = parse_address(
            self.conf.text(name) or f"{host}:{_WEB_PORT[scheme]}", self.conf.place(name), _WEB_PORT[scheme]
        )
        bound = Address(host, address.port) if address.host in ("0.0.0.0", "::") else address
        return (f"{scheme}://{bound}",)

    def namenode_service(self, authority: str) -> str:
        """Return the name under which Hadoop's clients look for a token of this file system: `address:port`, or HA's.

        Raises ClientError when the host is unknown.
        """
        if self.conf.names(f"dfs.ha.namenodes.{authority}"):
            return f"ha-hdfs:{authority}"
        address = parse_address(authority, "hdfs://", _NAMENODE_PORT)
        if not self.conf.boolean("hadoop.security.token.service.use_ip", default=True):
            return f"{address.host.lower()}:{address.port}"
        from socket import gaierror, gethostbyname

        try:
            return f"{gethostbyname(address.host)}:{address.port}"
        except gaierror as error:
            remedy = "correct fs.defaultFS, or the name service of this host"
            raise ClientError(f"unknown host: {error}", place=f"hdfs://{authority}", remedy=remedy) from error

    def _rm_ids(self) -> list[str | None]:
        return [*self.conf.rm_ids()] if self.conf.ha else [None]

    def _of_each_rm(self, name: str) -> list[Address]:
        return [self.conf.rm_address(name, rm_id) for rm_id in self._rm_ids()]
