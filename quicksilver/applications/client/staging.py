"""Where the files of an application lie until its end: a folder of HDFS, or one that all nodes see at one path."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from quicksilver.applications.client.errors import ClientError
from quicksilver.applications.client.login import Login
from quicksilver.applications.client.site import Site
from quicksilver.applications.client.webhdfs import FileStatus, WebHdfs

_OURS: Final = ".quicksilver"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that YARN can localise."""

    uri: str
    size: int
    """Bytes."""
    timestamp_ms: int

    @classmethod
    def of(cls, uri: str, status: FileStatus) -> StagedFile:
        """Return the file at `uri`, whose status is known."""
        return cls(uri, status.size, status.timestamp_ms)


class Staging(Protocol):
    """A place for files; used by one thread at a time. All methods raise ClientError."""

    def folder_of(self, application_id: str) -> str:
        """Return the URI of the folder of an application; it need not be there."""

    def put(self, folder: str, name: str, source: Path | bytes) -> StagedFile:
        """Write a file into a folder, which is made when it is missing."""

    def put_once(self, name: str, source: bytes) -> StagedFile:
        """Write a file that many applications share, unless it is there; its name says what is in it."""

    def remove(self, folder: str) -> None:
        """Delete a folder of an application with all in it; nothing happens when there is none."""

    def close(self) -> None:
        """Give back what it holds."""


class HdfsStaging:
    """Folders below `BASE/applications`; the base is `.quicksilver` in the user's home, unless one is named."""

    def __init__(self, hdfs: WebHdfs, base: str = "") -> None:
        """base: a path of this file system."""
        self._hdfs = hdfs
        self._base = base or f"{hdfs.home()}/{_OURS}"
        self._made = ""

    def folder_of(self, application_id: str) -> str:
        """Return the URI of the folder of an application; it need not be there."""
        return f"{self._hdfs.base}{self._base}/applications/{application_id}"

    def put(self, folder: str, name: str, source: Path | bytes) -> StagedFile:
        """Write a file into a folder, which is made when it is missing."""
        path = urlsplit(folder).path
        if folder != self._made:
            self._hdfs.make_folder(path)
            self._made = folder
        return StagedFile.of(f"{folder}/{name}", self._hdfs.put(f"{path}/{name}", source))

    def put_once(self, name: str, source: bytes) -> StagedFile:
        """Write a file that many applications share, unless it is there; two at once give one."""
        folder = f"{self._base}/archives"
        path, fresh = f"{folder}/{name}", f"{folder}/{name}.{os.getpid()}.{threading.get_ident()}"
        status = self._hdfs.status(path)
        if status is None:
            self._hdfs.make_folder(folder)
            self._hdfs.put(fresh, source)
            if not self._hdfs.rename(fresh, path):
                self._hdfs.delete(fresh)
            status = self._hdfs.status(path)
        if status is None:
            raise ClientError("cannot be written", place=f"{self._hdfs.base}{path}", remedy="submit again")
        return StagedFile.of(f"{self._hdfs.base}{path}", status)

    def remove(self, folder: str) -> None:
        """Delete a folder of an application with all in it; nothing happens when there is none."""
        self._hdfs.delete(urlsplit(folder).path)

    def close(self) -> None:
        """Close the connections."""
        self._hdfs.close()


class FolderStaging:
    """Folders of the local file system, which all nodes have to see at the same path."""

    def __init__(self, base: Path) -> None:
        """base: an absolute path."""
        self._base = base

    def folder_of(self, application_id: str) -> str:
        """Return the URI of the folder of an application; it need not be there."""
        return f"file://{self._base}/applications/{application_id}"

    def put(self, folder: str, name: str, source: Path | bytes) -> StagedFile:
        """Write a file into a folder, which is made when it is missing."""
        path = path_of(folder) / name
        self._write(path, source, os.replace)
        return staged_path(path)

    def put_once(self, name: str, source: bytes) -> StagedFile:
        """Write a file that many applications share, unless it is there; two at once give one."""
        path = self._base / "archives" / name
        if not path.is_file():
            self._write(path, source, _link)
        return staged_path(path)

    def remove(self, folder: str) -> None:
        """Delete a folder of an application with all in it; nothing happens when there is none."""
        try:
            shutil.rmtree(path_of(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClientError(
                f"cannot be removed: {error.strerror}", place=folder, remedy="delete it by hand"
            ) from error

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, path: Path, source: Path | bytes, publish: Callable[[Path, Path], None]) -> None:
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                if isinstance(source, bytes):
                    fresh.write_bytes(source)
                else:
                    shutil.copyfile(source, fresh)
                publish(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as error:
            remedy = "name a folder that this user can write, and that all nodes see, with --staging"
            raise ClientError(f"cannot be written: {error.strerror}", place=str(path), remedy=remedy) from error


def _link(fresh: Path, path: Path) -> None:
    """Give a file its name, unless another process was first: its file stays, with the time that others know."""
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)


def staged_path(path: Path) -> StagedFile:
    """Return a file of the local file system as nodes see it at the same path. Raises ClientError."""
    try:
        status = path.stat()
    except OSError as error:
        raise ClientError(
            f"cannot be read: {error.strerror}", place=str(path), remedy="correct the path in the description"
        ) from error
    return StagedFile(f"file://{path}", status.st_size, status.st_mtime_ns // 1_000_000)


def path_of(uri: str) -> Path:
    """Return the path of a `file:` URI."""
    return Path(urlsplit(uri).path)


def open_staging(site: Site, login: Login, where: str = "", ca: Path | None = None) -> Staging:
    """Return the staging place: `where`, else the home folder in the cluster's default file system.

    where: `hdfs://HOST:PORT/PATH`, `hdfs:///PATH` or `file:///PATH`. Raises ClientError for anything else.
    """
    parts = urlsplit(where or site.default_fs)
    if parts.scheme == "hdfs":
        authority = parts.netloc or urlsplit(site.default_fs).netloc
        if not authority:
            what, remedy = f"{where!r} names no NameNode, and fs.defaultFS is no HDFS", "write hdfs://HOST:PORT/PATH"
            raise ClientError(what, place="--staging", remedy=remedy)
        return HdfsStaging(WebHdfs(site, login, authority, ca), parts.path.rstrip("/"))
    if where and parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return FolderStaging(path_of(where))
    remedy = "name a folder that all nodes see, --staging file:///shared/staging, or one of HDFS, --staging hdfs://.."
    if where:
        raise ClientError(f"{where!r} is no place for files", place="--staging", remedy=remedy)
    place = site.conf.place("fs.defaultFS")
    raise ClientError(f"files cannot be staged in {site.default_fs}", place=place, remedy=remedy)
