"""Submitting: files staged, the master's container described, accepted by the scheduler or refused with its reason."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.client.errors import ClientError, SubmissionRefusedError
from quicksilver_apps.client.files import Uploads, check_sources
from quicksilver_apps.client.hdfs.staging import StagedFile, Staging
from quicksilver_apps.client.launch import ApplicationLaunch, NeededFile, resources_json, tags_of
from quicksilver_apps.client.records import ClientRecord, ClientRecords
from quicksilver_apps.client.rm import Rm, name_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.description.model import Application, as_json
from quicksilver_apps.master.archive import build

_CONNECTIONS: Final = 4
"""To the ResourceManager; that many applications are submitted at a time."""


@dataclass(frozen=True, slots=True)
class Described:
    """An application to submit, filled, and the folder where the paths of its files begin."""

    application: Application
    folder: Path
    source: str
    """As results name it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a submission may say beside the description."""

    python: str = "python3"
    view_acl: str = ""
    modify_acl: str = ""


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """What became of one submission: an id once it is accepted, else the reason of the refusal."""

    described: Described
    application_id: str = ""
    queue: str = ""
    refusal: str = ""
    elapsed_s: float = 0.0

    @property
    def accepted(self) -> bool:
        """Whether the scheduler has taken it."""
        return not self.refusal


class Submitter:
    """Submits applications to one cluster, several at a time."""

    def __init__(self, session: Session, options: Options = Options(), records: ClientRecords | None = None) -> None:
        self._session, self._options, self._records = session, options, records or ClientRecords()
        self._tokens: bytes | None = None
        self._lock = asyncio.Lock()

    async def submit(self, described: Described) -> ClientRecord:
        """Submit one application; return its record, which is written, too. Raises QuicksilverError."""
        worker = await asyncio.to_thread(Stager, self._session)
        try:
            async with await asyncio.to_thread(self._session.rm) as rm:
                return (await self._submit(rm, worker, described))[0]
        finally:
            worker.close()

    async def submit_all(
        self, all_described: Sequence[Described], on_result: Callable[[SubmissionResult], None]
    ) -> None:
        """Submit many over a few connections; `on_result` gets a result for each one, as they come.

        A QuicksilverError is the result of its own submission alone; any other error ends all.
        """
        waiting = deque(all_described)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONNECTIONS, len(waiting))):
                group.create_task(self._work(waiting, on_result))

    async def _work(self, waiting: deque[Described], on_result: Callable[[SubmissionResult], None]) -> None:
        worker: Stager | None = None
        rm: Rm | None = None
        try:
            while waiting:
                described, began_s = waiting.popleft(), time.monotonic()
                try:
                    if worker is None:
                        worker = await asyncio.to_thread(Stager, self._session)
                    if rm is None:
                        rm = await asyncio.to_thread(self._session.rm)
                    record, queue = await self._submit(rm, worker, described)
                    result = SubmissionResult(described, record.application_id, queue, "", time.monotonic() - began_s)
                except QuicksilverError as error:
                    result = SubmissionResult(described, refusal=str(error), elapsed_s=time.monotonic() - began_s)
                on_result(result)
        finally:
            if rm is not None:
                await rm.close()
            if worker is not None:
                worker.close()

    async def _submit(self, rm: Rm, worker: Stager, described: Described) -> tuple[ClientRecord, str]:
        app, key = described.application, secrets.token_urlsafe(24)
        tags_of(app)  # what YARN would refuse costs no upload
        check_sources(app, described.folder)
        app_id = await rm.new_id()
        name = name_of(app_id)
        folder = worker.staging.folder_of(name)
        record = ClientRecord(
            application_id=name, key=key, name=app.name, submitted_s=time.time(), rm=str(rm.address), staging=folder
        )
        self._records.save(record)  # before: whatever happens now, `app clean` finds the files
        try:
            launch = await self._launch(worker, described, folder, key)
        except ClientError:
            await self._forget(worker, record)
            raise
        try:
            await rm.submit(launch.context(app_id))
            report = await rm.accepted(app_id)
        except SubmissionRefusedError:
            await self._forget(worker, record)
            raise
        except ClientError as error:
            remedy = f"see what became of it with `quicksilver app wait {name}`"
            raise ClientError(
                f"{error.message}; it may have been submitted", place=error.place, remedy=remedy
            ) from error
        return record, report.queue

    async def _forget(self, worker: Stager, record: ClientRecord) -> None:
        await asyncio.to_thread(worker.staging.remove, record.staging)
        self._records.remove(record.application_id)

    async def _launch(self, worker: Stager, described: Described, folder: str, key: str) -> ApplicationLaunch:
        python, options = self._options.python, self._options
        archive, description, resources = await asyncio.to_thread(worker.stage, described, folder, python)
        async with self._lock:  # the tokens of one serve for all
            if self._tokens is None:
                self._tokens = await asyncio.to_thread(self._session.tokens_for, folder)
        return ApplicationLaunch(
            application=described.application,
            archive=archive,
            description=description,
            resources=resources,
            key=key,
            user=self._session.login.user,
            python=python,
            tokens=self._tokens,
            view_acl=options.view_acl,
            modify_acl=options.modify_acl,
        )


class Stager:
    """The file systems of one of several that submit."""

    def __init__(self, session: Session) -> None:
        self._site = session.site
        self.staging: Staging = session.staging()
        self._uploads = Uploads(session.site, session.login, self.staging, session.ca)
        self._archive: StagedFile | None = None

    def stage(self, described: Described, folder: str, python: str) -> tuple[StagedFile, StagedFile, StagedFile]:
        """Upload all of one application; return archive, description and resources. Raises ClientError."""
        if self._archive is None:
            self._archive = staged_archive(self.staging)
        app = described.application
        files: list[NeededFile] = self._uploads.stage(app, described.folder, folder)
        listed = resources_json(self._archive, files, self._site.schedulers, python)
        description = json.dumps(as_json(app), indent=1).encode()
        return (
            self._archive,
            self.staging.put(folder, "application.json", description),
            self.staging.put(folder, "resources.json", listed),
        )

    def close(self) -> None:
        """Close the connections."""
        self._uploads.close()
        self.staging.close()


def staged_archive(staging: Staging) -> StagedFile:
    """Upload the master's archive, unless one with the same bytes is there. Raises ClientError."""
    name, data = _archive()
    return staging.put_once(name, data)


@cache
def _archive() -> tuple[str, bytes]:
    """Return the archive's name, which says what is in it, and its bytes."""
    with tempfile.TemporaryDirectory(prefix="quicksilver-") as folder:
        data = build(Path(folder) / "app.zip").read_bytes()
    return f"quicksilver-app-{hashlib.sha256(data).hexdigest()[:16]}.zip", data


def is_over(report: client_pb2.ApplicationReportProto) -> bool:
    """Return whether an application has ended."""
    return report.yarn_application_state in (client_pb2.FINISHED, client_pb2.FAILED, client_pb2.KILLED)
