"""Files of HDFS by WebHDFS, which needs no JVM."""

from __future__ import annotations

import getpass
from typing import Any, Final

import requests

from quicksilver_lab.cluster import Cluster
from quicksilver_lab.workloads.rest import session

TIMEOUT_S: Final = 60.0


class Hdfs:
    """The file system of one local cluster. All methods raise requests.RequestException."""

    def __init__(self, cluster: Cluster, user: str | None = None) -> None:
        """Act as `user`, the one who runs this unless given; on a secure cluster always the latter."""
        self._base = f"{cluster.spec.namenode_web.url}/webhdfs/v1"
        self._user = user or getpass.getuser()
        self._auth = cluster.web_auth

    def _call(self, method: str, path: str, op: str, data: bytes | None = None, **query: str) -> requests.Response:
        with session() as http:
            answer = http.request(
                method,
                f"{self._base}{path}",
                params={"op": op, "user.name": self._user, **query},
                data=data,
                timeout=TIMEOUT_S,
                auth=self._auth,
            )
        answer.raise_for_status()
        return answer

    def put(self, path: str, data: bytes) -> None:
        """Write a file, in place of one that may be there."""
        self._call("PUT", path, "CREATE", data, overwrite="true")

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        return self._call("GET", path, "OPEN").content

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return the entries of a folder as WebHDFS lists them (pathSuffix, type, length), by name."""
        entries: list[dict[str, Any]] = self._call("GET", path, "LISTSTATUS").json()["FileStatuses"]["FileStatus"]
        return sorted(entries, key=lambda entry: str(entry["pathSuffix"]))

    def files(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder."""
        paths: list[str] = []
        for entry in self.entries(folder):
            path = f"{folder}/{entry['pathSuffix']}"
            paths += self.files(path) if entry["type"] == "DIRECTORY" else [path]
        return paths

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all in it; nothing happens when there is none."""
        self._call("DELETE", path, "DELETE", recursive="true")
