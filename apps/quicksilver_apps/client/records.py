"""What the submitter remembers of an application: the key that its master wants, and where its files are staged.

One file each, mode 0600: ~/.quicksilver/applications/APPLICATION_ID.json.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from quicksilver.common.process.whole_file import write_whole
from quicksilver_apps.client.errors import ClientError

_ID: Final = re.compile(r"application_\d+_\d+")
HOME: Final = "QUICKSILVER_HOME"
"""Environment variable that names another folder than ~/.quicksilver."""


class ClientRecord(BaseModel):
    """One application that was submitted from here."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    application_id: str
    key: str
    """The secret of calls that change the application."""
    name: str
    submitted_s: float
    """Unix time."""
    rm: str
    """`host:port` of the ResourceManager."""
    staging: str = ""
    """URI of the folder with its files; "": they are removed."""
    containers: dict[str, str] = {}
    """Whose each container was, such as `worker[2]`: by that its logs are found after the end."""


class ClientRecords:
    """The folder of records."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use `folder`, else $QUICKSILVER_HOME/applications, else ~/.quicksilver/applications."""
        home = Path(os.environ.get(HOME) or Path.home() / ".quicksilver")
        self.folder = folder or home / "applications"

    def save(self, record: ClientRecord) -> None:
        """Write a record, whole or not at all. Raises ClientError when the folder cannot be written."""
        path = self._path(record.application_id)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, record.model_dump_json(indent=2).encode())
        except OSError as error:
            remedy = f"name a folder that can be written with ${HOME}"
            raise ClientError(f"cannot be written: {error.strerror}", place=str(path), remedy=remedy) from error

    def find(self, application_id: str) -> ClientRecord | None:
        """Return the record of an application; None when it was submitted elsewhere. Raises ClientError."""
        path = self._path(application_id)
        try:
            return ClientRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            remedy = "run this as the user that submitted it"
            raise ClientError(f"cannot be read: {error.strerror}", place=str(path), remedy=remedy) from error
        except ValidationError as error:
            problem = f"is no record of an application: {error.errors()[0]['msg']}"
            raise ClientError(problem, place=str(path), remedy="delete the file") from error

    def required(self, application_id: str) -> ClientRecord:
        """Return the record of an application. Raises ClientError when there is none."""
        record = self.find(application_id)
        if record is None:
            raise ClientError(
                f"{application_id} was not submitted from here, so that its key is unknown",
                place=str(self.folder),
                remedy="run this where and as whom it was submitted, or copy the file from there",
            )
        return record

    def all(self) -> list[ClientRecord]:
        """Return all records, the oldest first. Raises ClientError."""
        names = sorted(self.folder.glob("application_*.json")) if self.folder.is_dir() else []
        records = [self.find(path.stem) for path in names]
        return sorted((each for each in records if each is not None), key=lambda each: each.submitted_s)

    def remove(self, application_id: str) -> None:
        """Delete the record of an application, if there is one."""
        self._path(application_id).unlink(missing_ok=True)

    def _path(self, application_id: str) -> Path:
        return self.folder / f"{checked_id(application_id)}.json"


def checked_id(text: str) -> str:
    """Return an application id. Raises ClientError when it is none."""
    if _ID.fullmatch(text) is None:
        remedy = (
            "`quicksilver app submit` prints it, and `yarn application -list` has it: application_1700000000000_0001"
        )
        raise ClientError(f"{text!r} is no id of an application", remedy=remedy)
    return text
