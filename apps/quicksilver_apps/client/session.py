"""One cluster and who asks it: connections to the ResourceManager, the staging place, the tokens of applications."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from quicksilver.common.address import Address
from quicksilver_apps.client.hdfs.staging import Staging, open_staging
from quicksilver_apps.client.hdfs.webhdfs import WebHdfs
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.rm import Rm
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.yarn.token_storage import write_tokens
from quicksilver_apps.yarn.yarn_client import RmClient

HDFS_TOKEN: Final = "HDFS_DELEGATION_TOKEN"


@dataclass(frozen=True, slots=True)
class Session:
    """What all commands share."""

    site: ClusterSite
    login: Login
    where: str = ""
    """The staging place; "": the home folder in the default file system."""
    ca: Path | None = None
    """The CA of the cluster's https servers; None: the system's."""

    def rm(self, patience_s: float = 30.0) -> Rm:
        """Return a connection to the active ResourceManager, not dialed yet."""
        kerberos = None if self.login.user is not None else self.login.handshake

        def dial(address: Address) -> RmClient:
            return RmClient(address.host, address.port, user=self.login.user, kerberos=kerberos)

        return Rm(self.site.resource_managers, dial, patience_s)

    def staging(self) -> Staging:
        """Return the staging place. Raises ClientError."""
        return open_staging(self.site, self.login, self.where, self.ca)

    def tokens_for(self, folder: str) -> bytes:
        """Return the tokens by which nodes and the master read the files below a folder's file system.

        b"" on an insecure cluster, and for files that all nodes see. Raises ClientError.
        """
        parts = urlsplit(folder)
        if self.login.user is not None or parts.scheme != "hdfs":
            return b""
        hdfs = WebHdfs(self.site, self.login, parts.netloc, self.ca)
        try:
            token = hdfs.delegation_token(renewer_of(self.site))
        finally:
            hdfs.close()
        token.kind, token.service = HDFS_TOKEN, self.site.namenode_service(parts.netloc)  # it is the same token
        return write_tokens({token.service: token})


def renewer_of(site: ClusterSite) -> str:
    """Return who renews the tokens of applications: the short name of the ResourceManagers."""
    return site.rm_principal.partition("/")[0].partition("@")[0] or "yarn"
