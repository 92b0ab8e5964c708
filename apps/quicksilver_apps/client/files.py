"""The files of a description: those here are uploaded, those that the cluster has are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.hdfs.staging import StagedFile, Staging, path_of, staged_path
from quicksilver_apps.client.hdfs.webhdfs import WebHdfs
from quicksilver_apps.client.launch import NeededFile
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.description.model import Application, File
from quicksilver_apps.master.archive import NAME as ARCHIVE

_RESERVED: Final = frozenset((ARCHIVE, "application.json", "resources.json"))


@dataclass(frozen=True, slots=True)
class DescribedFile:
    """A file of a description and whose it is."""

    service: str
    """"": of all services."""
    file: File

    @property
    def name(self) -> str:
        """Its name in the working directory of an instance."""
        return self.file.name or self.file.source.rstrip("/").rpartition("/")[2]

    @property
    def place(self) -> str:
        """Where the description has it."""
        return f"files of service {self.service}" if self.service else "files"


def described_files(application: Application) -> Iterator[DescribedFile]:
    """Yield the files of all services, then those of each. Raises ClientError for a name that is taken."""
    common = [DescribedFile("", file) for file in application.files]
    for service in ("", *(each.name for each in application.services)):
        own = next((each.files for each in application.services if each.name == service), ())
        files = [DescribedFile(service, file) for file in own]
        names = [each.name for each in (*common, *files)]
        for each in files if service else common:
            if not each.name or "/" in each.name or each.name in _RESERVED or names.count(each.name) > 1:
                problem = f"{each.name!r} cannot be the name of {each.file.source}: it is empty, taken or has a slash"
                raise ClientError(problem, place=each.place, remedy="give it another `name`")
        yield from files if service else common


def check_sources(application: Application, folder: Path) -> None:
    """Check that the local files of a description are there, before anything is uploaded. Raises ClientError."""
    for each in described_files(application):
        if not urlsplit(each.file.source).scheme:
            _local(each, folder)


def _local(described: DescribedFile, folder: Path) -> Path:
    path = folder / described.file.source
    try:
        if not path.is_file():
            why = "is a folder; make an archive of it" if path.is_dir() else "is not there; correct the path"
            raise ClientError(f"{path} {why}", place=described.place)
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}", place=described.place) from error
    return path


class Uploads:
    """Gets the files of descriptions to where YARN localises them from; used by one thread at a time."""

    def __init__(self, site: ClusterSite, login: Login, staging: Staging, ca: Path | None = None) -> None:
        self._site, self._login, self._staging, self._ca = site, login, staging, ca
        self._file_systems: dict[str, WebHdfs] = {}

    def stage(self, application: Application, folder: Path, target: str) -> list[NeededFile]:
        """Upload the local files of a description, whose paths begin at `folder`, into `target`; look the others up.

        Raises ClientError.
        """
        files = []
        for each in described_files(application):
            parts = urlsplit(each.file.source)
            if not parts.scheme:
                name = f"{each.service}.{each.name}" if each.service else each.name
                staged = self._staging.put(target, f"files.{name}", _local(each, folder))
            elif parts.scheme == "file":
                staged = staged_path(path_of(each.file.source))
            else:
                staged = self._remote(each)
            files.append(NeededFile(each.service, each.name, each.file.kind, staged))
        return files

    def close(self) -> None:
        """Close the connections."""
        for each in self._file_systems.values():
            each.close()

    def _remote(self, described: DescribedFile) -> StagedFile:
        source = described.file.source
        parts = urlsplit(source)
        if parts.scheme != "hdfs":
            remedy = "copy it to HDFS, or name a local file"
            raise ClientError(f"{source} is neither in HDFS nor here", place=described.place, remedy=remedy)
        authority = parts.netloc or urlsplit(self._site.default_fs).netloc
        if authority not in self._file_systems:
            self._file_systems[authority] = WebHdfs(self._site, self._login, authority, self._ca)
        hdfs = self._file_systems[authority]
        status = hdfs.status(parts.path)
        if status is None or status.folder:
            why = "is not there; correct the path" if status is None else "is a folder; make an archive of it"
            raise ClientError(f"{source} {why}", place=described.place)
        return StagedFile.of(f"{hdfs.base}{parts.path}", status)
