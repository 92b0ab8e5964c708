"""Where the files of an application lie until its end: a folder of HDFS, or one that all nodes see at one path."""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.hdfs.webhdfs import FileStatus, WebHdfs
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.site import ClusterSite

_OURS: Final = ".quicksilver"
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@$-]{0,99}")


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
        """Write a file that many applications of a user share, unless it is there with these bytes."""

    def remove(self, folder: str) -> None:
        """Delete a folder of an application with all in it; nothing happens when there is none."""

    def close(self) -> None:
        """Give back what it holds."""


class HdfsStaging:
    """Folders below `ROOT/applications`; the root is `.quicksilver` in the user's home, or `BASE/USER`.

    What containers run is in it, so that it has to belong to the user alone: see `_check_root`.
    """

    def __init__(self, hdfs: WebHdfs, base: str = "") -> None:
        """base: a path of this file system, which several users may share."""
        home = hdfs.home()
        self._hdfs, self._base, self._user = hdfs, base, home.rpartition("/")[2]
        self._root = f"{base}/{checked_user(self._user)}" if base else f"{home}/{_OURS}"
        self._last_folder = ""
        self._checked = False

    def folder_of(self, application_id: str) -> str:
        """Return the URI of the folder of an application; it need not be there."""
        return f"{self._hdfs.base}{self._root}/applications/{application_id}"

    def put(self, folder: str, name: str, source: Path | bytes) -> StagedFile:
        """Write a file into a folder, which is made when it is missing."""
        self._check_root()
        path = urlsplit(folder).path
        if folder != self._last_folder:
            self._hdfs.make_folder(path)
            self._last_folder = folder
        return StagedFile.of(f"{folder}/{name}", self._hdfs.put(f"{path}/{name}", source))

    def put_once(self, name: str, source: bytes) -> StagedFile:
        """Write a file that many applications share, unless it is there; two at once give one."""
        self._check_root()
        folder = f"{self._root}/archives"
        path, fresh = f"{folder}/{name}", f"{folder}/{name}.{os.getpid()}.{threading.get_ident()}"
        status = self._intact(path, source)
        if status is None:
            self._hdfs.make_folder(folder)
            self._hdfs.put(fresh, source)
            if not self._hdfs.rename(fresh, path) and self._intact(path, source) is None:
                self._hdfs.delete(path)  # another content, or another user's
                self._hdfs.rename(fresh, path)
            self._hdfs.delete(fresh)
            status = self._intact(path, source)
        if status is None:
            raise ClientError("cannot be written", place=f"{self._hdfs.base}{path}", remedy="submit again")
        return StagedFile.of(f"{self._hdfs.base}{path}", status)

    def remove(self, folder: str) -> None:
        """Delete a folder of an application with all in it; nothing happens when there is none."""
        self._hdfs.delete(urlsplit(folder).path)

    def close(self) -> None:
        """Close the connections."""
        self._hdfs.close()

    def _intact(self, path: str, source: bytes) -> FileStatus | None:
        """Return the status of a file that is this user's, and holds these bytes; None for any other."""
        status = self._hdfs.status(path)
        if status is None or status.folder or status.size != len(source):
            return None
        whose = status.owner == self._user and not status.mode & _WRITABLE
        return status if whose and self._hdfs.read(path) == source else None

    def _check_root(self) -> None:
        """Make the root, or check that nobody else can put something into it or in its place. Raises ClientError."""
        if self._checked:
            return
        place = f"{self._hdfs.base}{self._root}"
        status = self._hdfs.status(self._root)
        if status is None:
            self._hdfs.make_folder(self._root)
            status = self._hdfs.status(self._root)
        if status is None or not status.folder:
            raise ClientError("is no folder", place=place, remedy="stage elsewhere: --staging")
        _check_private(place, status.owner, status.owner == self._user, status.mode)
        shared = self._hdfs.status(self._base) if self._base else None
        if shared is not None:
            place, top = f"{self._hdfs.base}{self._base}", self._hdfs.status("/")
            _check_sticky(place, shared.mode, f"hdfs dfs -chmod 1777 {self._base}")
            if shared.owner not in (self._user, top.owner if top is not None else ""):
                raise _replaceable(place, shared.owner, "HDFS's superuser, who owns / ,")
        self._checked = True


class FolderStaging:
    """Folders of the local file system, which all nodes have to see at the same path: `BASE/USER/applications`."""

    def __init__(self, base: Path, user: str) -> None:
        """base: an absolute path, which several users may share."""
        self._base, self._root = base, base / checked_user(user)
        self._checked = False

    def folder_of(self, application_id: str) -> str:
        """Return the URI of the folder of an application; it need not be there."""
        return f"file://{self._root}/applications/{application_id}"

    def put(self, folder: str, name: str, source: Path | bytes) -> StagedFile:
        """Write a file into a folder, which is made when it is missing."""
        self._check_root()
        path = path_of(folder) / name
        self._write(path, source, os.replace)
        return staged_path(path)

    def put_once(self, name: str, source: bytes) -> StagedFile:
        """Write a file that many applications share, unless it is there; two at once give one."""
        self._check_root()
        path = self._root / "archives" / name
        if not self._intact(path, source):
            self._write(path, source, _link)
        if not self._intact(path, source):
            self._write(path, source, os.replace)  # another content, or another user's
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
                fresh.chmod(0o644)
                publish(fresh, path)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(path, error) from error

    def _intact(self, path: Path, source: bytes) -> bool:
        """Return whether a file is this user's or root's alone to write, and holds these bytes. Raises ClientError."""
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                plain = stat.S_ISREG(status.st_mode) and status.st_size == len(source)
                whose = status.st_uid in (0, os.geteuid()) and not status.st_mode & _WRITABLE
                return plain and whose and file.read() == source
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False  # a symbolic link, which is replaced
            raise self._unwritable(path, error) from error

    def _check_root(self) -> None:
        """Make the root, or check that nobody else can put something into it or in its place. Raises ClientError."""
        if self._checked:
            return
        try:
            self._base.mkdir(parents=True, exist_ok=True, mode=0o755)
            self._root.mkdir(exist_ok=True, mode=0o700)
            shared, own = self._base.stat(), self._root.lstat()
        except OSError as error:
            raise self._unwritable(self._root, error) from error
        if not stat.S_ISDIR(own.st_mode):
            raise ClientError("is no folder", place=str(self._root), remedy="stage elsewhere: --staging")
        me = os.geteuid()
        _check_private(str(self._root), f"the user with the number {own.st_uid}", own.st_uid == me, own.st_mode)
        _check_sticky(str(self._base), shared.st_mode, f"chmod 1777 {self._base}")
        if shared.st_uid not in (0, me):
            raise _replaceable(str(self._base), f"the user with the number {shared.st_uid}", "root")
        self._checked = True

    def _unwritable(self, path: Path, error: OSError) -> ClientError:
        remedy = (
            "name a folder that all nodes see with --staging; several users share one that root made: "
            f"`install -d -m 1777 {self._base}`"
        )
        return ClientError(f"cannot be written: {error.strerror}", place=str(path), remedy=remedy)


def checked_user(user: str) -> str:
    """Return the name of a user, as a folder has it. Raises ClientError for what is none."""
    if _USER.fullmatch(user) is None:
        problem, remedy = f"{user[:100]!r} is no name of a user", "use letters, digits and . _ - @ $"
        raise ClientError(problem, place="--staging", remedy=remedy)
    return user


def _check_private(place: str, owner: str, own: bool, mode: int) -> None:
    if not own:
        problem = f"belongs to {owner}: what it holds would run as you"
        raise ClientError(problem, place=place, remedy="have it removed, or stage elsewhere: --staging")
    if mode & _WRITABLE:
        problem = "may be written by others: what they put there would run as you"
        raise ClientError(problem, place=place, remedy="look what is in it, then take their right away: mode 700")


def _check_sticky(place: str, mode: int, remedy: str) -> None:
    if mode & _WRITABLE and not mode & stat.S_ISVTX:
        problem = "may be written by others, and has no sticky bit: they can replace your folder in it"
        raise ClientError(problem, place=place, remedy=f"set the bit: `{remedy}`")


def _replaceable(place: str, owner: str, right: str) -> ClientError:
    remedy = f"have {right} own it, or stage elsewhere: --staging"
    return ClientError(f"belongs to {owner}, who can replace what is in it", place=place, remedy=remedy)


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


def open_staging(site: ClusterSite, login: Login, where: str = "", ca: Path | None = None) -> Staging:
    """Return the staging place: `where`, else the home folder in the cluster's default file system.

    where: `hdfs://HOST:PORT/PATH`, `hdfs:///PATH` or `file:///PATH`. Raises ClientError for anything else.
    """
    parts = urlsplit(where or site.default_fs)
    if parts.scheme == "hdfs":
        authority = parts.netloc or urlsplit(site.default_fs).netloc
        if not authority:
            problem, remedy = f"{where!r} names no NameNode, and fs.defaultFS is no HDFS", "write hdfs://HOST:PORT/PATH"
            raise ClientError(problem, place="--staging", remedy=remedy)
        return HdfsStaging(WebHdfs(site, login, authority, ca), parts.path.rstrip("/"))
    if where and parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return FolderStaging(path_of(where), login.user or getpass.getuser())
    remedy = "name a folder that all nodes see, --staging file:///shared/staging, or one of HDFS, --staging hdfs://.."
    if where:
        raise ClientError(f"{where!r} is no place for files", place="--staging", remedy=remedy)
    place = site.conf.place("fs.defaultFS")
    raise ClientError(f"files cannot be staged in {site.default_fs}", place=place, remedy=remedy)
