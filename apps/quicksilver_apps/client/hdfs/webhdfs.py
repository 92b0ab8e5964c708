"""Files of HDFS by WebHDFS, which needs no JVM (Hadoop's `WebHDFS REST API`)."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import requests
from pydantic import BaseModel, ValidationError

from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver.common.kerberos.login import LoginFailedError
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.login import TICKETS, Login
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.yarn.yarn_client import token_of_url

_TIMEOUT_S: Final = 60.0
_NO_SPNEGO: Final = (
    "have the NameNode take Kerberos logins (hadoop.http.authentication.type: kerberos in its core-site.xml), or stage "
    "elsewhere: --staging"
)
_STANDBY: Final = ("StandbyException", "RetriableException")


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file as YARN wants to know it: it is localised only while size and time are as they were."""

    size: int
    """Bytes."""
    timestamp_ms: int
    """Time of the last change, Unix milliseconds."""
    folder: bool = False
    owner: str = ""
    mode: int = 0o700
    """Its permissions, with the sticky bit."""


M = TypeVar("M", bound=BaseModel)


class _Home(BaseModel):
    Path: str


class _Status(BaseModel):
    length: int
    modificationTime: int
    type: str
    owner: str
    permission: str


class _StatusAnswer(BaseModel):
    FileStatus: _Status


class _Where(BaseModel):
    Location: str


class _Done(BaseModel):
    boolean: bool


class _TokenText(BaseModel):
    urlString: str


class _TokenAnswer(BaseModel):
    Token: _TokenText


class HdfsError(ClientError):
    """The NameNode refuses, or no NameNode answers; `exception` is the Java class that it named, "" without."""

    def __init__(self, problem: str, *, place: str, remedy: str = "", exception: str = "") -> None:
        super().__init__(problem, place=place, remedy=remedy)
        self.exception = exception


class WebHdfs:
    """One HDFS; used by one thread at a time. All methods raise HdfsError."""

    def __init__(self, site: ClusterSite, login: Login, authority: str, ca: Path | None = None) -> None:
        """authority: `host:port` or the nameservice, as in `hdfs://AUTHORITY/`."""
        self.base = f"hdfs://{authority}"
        self._urls = list(site.namenode_urls(authority))
        self._params = login.params
        self._session = login.session(ca)

    def home(self) -> str:
        """Return the home folder of who asks."""
        return _parsed(_Home, self._call("GET", "/", "GETHOMEDIRECTORY")).Path

    def status(self, path: str) -> FileStatus | None:
        """Return the status of a file or folder; None when there is none."""
        try:
            status = _parsed(_StatusAnswer, self._call("GET", path, "GETFILESTATUS")).FileStatus
        except HdfsError as error:
            if error.exception == "FileNotFoundException":
                return None
            raise
        mode = int(status.permission, 8) if set(status.permission) <= set("01234567") else 0o777
        return FileStatus(status.length, status.modificationTime, status.type == "DIRECTORY", status.owner, mode)

    def read(self, path: str) -> bytes:
        """Return what is in a file; its size is known to be small."""
        where = _parsed(_Where, self._call("GET", path, "OPEN", noredirect="true")).Location
        answer = self._sent("GET", where)
        self._checked(answer, path)
        return answer.content

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, that only its user may enter."""
        self._call("PUT", path, "MKDIRS", permission="700")

    def put(self, path: str, source: Path | bytes) -> FileStatus:
        """Write a file, in place of one that may be there; return its status."""
        answer = self._call("PUT", path, "CREATE", overwrite="true", permission="644", noredirect="true")
        where = _parsed(_Where, answer).Location
        try:
            opened = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
        except OSError as error:
            raise HdfsError(
                f"cannot be read: {error.strerror}", place=str(source), remedy="correct the path"
            ) from error
        with opened as data:
            self._checked(self._sent("PUT", where, data=data), path)
        status = self.status(path)
        if status is None:
            raise HdfsError("is gone as soon as it was written", place=f"{self.base}{path}", remedy="submit again")
        return status

    def rename(self, source: str, target: str) -> bool:
        """Rename a file; return False when the target is there already."""
        return _parsed(_Done, self._call("PUT", source, "RENAME", destination=target)).boolean

    def delete(self, path: str) -> None:
        """Delete a file or a folder with all in it; nothing happens when there is none."""
        self._call("DELETE", path, "DELETE", recursive="true")

    def delegation_token(self, renewer: str) -> TokenProto:
        """Return a token that lets others read as this user; `renewer` may renew it. Its kind is that of WebHDFS."""
        answer = self._call("GET", "/", "GETDELEGATIONTOKEN", renewer=renewer)
        try:
            return token_of_url(_parsed(_TokenAnswer, answer).Token.urlString)
        except ValueError as error:
            raise HdfsError(f"answered no token: {error}", place=self.base) from error

    def close(self) -> None:
        """Close the kept connections."""
        self._session.close()

    def _call(self, method: str, path: str, op: str, **query: str) -> requests.Response:
        """Ask the active NameNode, which is asked first the next time, too."""
        refusal: HdfsError | None = None
        for url in list(self._urls):
            try:
                answer = self._sent(
                    method, f"{url}/webhdfs/v1{quote(path)}", params={"op": op, **self._params, **query}
                )
                self._checked(answer, path)
            except HdfsError as error:
                if error.exception not in _STANDBY and not error.retriable:
                    raise
                refusal = error
                continue
            self._urls.sort(key=lambda each: each != url)
            return answer
        assert refusal is not None, "a file system has a NameNode"
        raise refusal

    def _sent(self, method: str, url: str, **arguments: Any) -> requests.Response:
        try:
            return self._session.request(method, url, timeout=_TIMEOUT_S, **arguments)
        except LoginFailedError as error:
            raise HdfsError(str(error), place=url.partition("?")[0], remedy=TICKETS) from error
        except requests.RequestException as error:
            remedy = (
                "is WebHDFS on, and dfs.namenode.http-address right in hdfs-site.xml? Or stage elsewhere: --staging"
            )
            failed = HdfsError(f"HDFS does not answer: {error}", place=url.partition("?")[0], remedy=remedy)
            failed.retriable = isinstance(error, requests.ConnectionError)
            raise failed from error

    def _checked(self, answer: requests.Response, path: str) -> None:
        if answer.status_code < 300:
            return
        place = f"{self.base}{path}"
        try:
            remote = answer.json()["RemoteException"]
            problem = f"{remote['exception']}: {str(remote['message']).partition(chr(10))[0]}"
        except (ValueError, KeyError, TypeError, RecursionError):
            remedy = TICKETS if answer.status_code == 401 else ""
            problem = f"WebHDFS answered {answer.status_code} {answer.reason}"
            raise HdfsError(problem, place=place, remedy=remedy) from None
        remedy = _NO_SPNEGO if remote["exception"] == "SecurityException" else ""
        raise HdfsError(problem, place=place, remedy=remedy, exception=str(remote["exception"]))


def _parsed(model: type[M], answer: requests.Response) -> M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        place, first = answer.url.partition("?")[0], error.errors(include_url=False)[0]
        remedy = "is dfs.namenode.http-address that of a NameNode?"
        raise HdfsError(f"answered what is not understood: {first['msg']}", place=place, remedy=remedy) from error
