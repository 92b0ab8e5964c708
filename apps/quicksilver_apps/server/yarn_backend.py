"""A YARN cluster as the app server's backend, by the parts of `apps/quicksilver_apps/client`.

Its calls of REST and of file systems block; they run in threads of their own, a bounded number.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import requests

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos import yarn_pb2
from quicksilver.common.http.rest_errors import ApiError, RefusedError
from quicksilver.common.process.logs import get_logger
from quicksilver_apps.client.errors import ClientError, NotRunningError
from quicksilver_apps.client.errors import SubmissionRefusedError as ClientRefusedError
from quicksilver_apps.client.launch import ApplicationLaunch
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.logs.logs import FILES, LogPlace, Logs, Tail, check_container, node_scheme, node_url_of
from quicksilver_apps.client.master_api import MasterApi
from quicksilver_apps.client.master_places import PLACES, MasterPlaces, MisplacedMasterError
from quicksilver_apps.client.rm import Rm, id_of, name_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.client.submission import Described, Stager
from quicksilver_apps.server.backend import (
    REQUEST_TAG,
    BackendUnavailableError,
    Largest,
    LogPart,
    LogSource,
    MasterAddress,
    StartOrder,
    StartRefusedError,
    YarnReport,
    YarnState,
)
from quicksilver_apps.server.config import AppServerSettings
from quicksilver_apps.yarn.yarn_client import RemoteCallError

T = TypeVar("T")
log = get_logger(__name__)
_UNKNOWN: Final = "ApplicationNotFoundException"
_NOWHERE: Final = Path("/nonexistent")
"""Where local files of descriptions would begin; the app server takes none."""
_NOTHING: Final = "N/A"
"""What YARN says where it has nothing to say."""
REPORT_TEXT_CHARACTERS: Final = 4000
"""Of what a master says at its end, or as its address."""
_NODES_S: Final = 5.0
"""A list of nodes that is not older says which nodes there are."""
_PATIENCE_S: Final = 5.0
_STAGERS: Final = 16
"""Users whose connections to the file system are kept."""
_STATES: Final = {
    client_pb2.ACCEPTED: YarnState.ACCEPTED,
    client_pb2.RUNNING: YarnState.RUNNING,
    client_pb2.FINISHED: YarnState.FINISHED,
    client_pb2.FAILED: YarnState.FAILED,
    client_pb2.KILLED: YarnState.KILLED,
}
_SUCCESS: Final = {yarn_pb2.APP_SUCCEEDED: True, yarn_pb2.APP_FAILED: False, yarn_pb2.APP_KILLED: False}
_NO_RETRY: Final = re.compile(r"is not there|is a folder|is neither in HDFS|cannot be the name|is no tag|, of which")
"""Errors of files and tags of a description, which stay when it is tried again."""


class YarnBackend:
    """One cluster. On an insecure one applications run as their users; on a secure one as this process's principal."""

    def __init__(self, session: Session, settings: AppServerSettings) -> None:
        self._session, self._settings = session, settings
        self._threads = ThreadPoolExecutor(settings.masters + settings.submissions + 4, "backend")
        self._rms: dict[str | None, tuple[Rm, asyncio.Lock]] = {}
        self._stagers: dict[str | None, Stager] = {}
        self._staging = asyncio.Lock()
        self._places = MasterPlaces()
        self._misplaced: set[str] = set()
        """Applications whose master's address is not believed, which the log has."""
        self._nodes: tuple[frozenset[str], float] = frozenset(), 0.0

    @classmethod
    def of(
        cls,
        conf_dir: Path | None,
        settings: AppServerSettings,
        principal: str | None = None,
        keytab: Path | None = None,
        ca: Path | None = None,
    ) -> YarnBackend:
        """Return the backend of the cluster that site files describe.

        Raises SettingsError, KerberosError, ClientError.
        """
        site = ClusterSite.load(conf_dir)
        return cls(Session(site, Login.of(site, principal, keytab), settings.staging, ca), settings)

    async def largest(self) -> Largest:
        """Return the largest container that the cluster grants."""
        answer = await self._ask(None, lambda rm: rm.call(lambda client: client.new_application()))
        return Largest(int(answer.maximumCapability.memory), answer.maximumCapability.virtual_cores)

    async def new_id(self) -> str:
        """Return a YARN application id that nobody has."""
        return name_of(await self._ask(None, lambda rm: rm.new_id()))

    async def submit(self, order: StartOrder) -> None:
        """Upload files and submit. Raises StartRefusedError."""
        user = self._user(order.user)
        try:
            launch = await self._launch(order, user)
            context = launch.context(id_of(order.yarn_id))
            await self._ask(user, lambda rm: rm.submit(context))
        except ClientRefusedError as error:
            raise StartRefusedError(error.message, place=error.place, remedy=error.remedy) from error
        except ClientError as error:
            if _NO_RETRY.search(error.message):
                raise StartRefusedError(error.message, place=error.place, remedy=error.remedy) from error
            raise BackendUnavailableError(error.message, place=error.place, remedy=error.remedy) from error

    async def reports(self, yarn_ids: Collection[str]) -> Mapping[str, YarnReport]:
        """Return YARN's reports of these applications; those that it does not know are missing."""
        reports: dict[str, YarnReport] = {}
        for yarn_id in yarn_ids:
            request = id_of(yarn_id)
            try:
                report = await self._ask(None, lambda rm: rm.call(lambda client: client.report(request)))  # noqa: B023
            except RemoteCallError as error:
                if error.exception_class.endswith(_UNKNOWN):
                    continue
                raise BackendUnavailableError(str(error)) from error
            reports[yarn_id] = report_of(report, await self._master_url(yarn_id, report))
        return reports

    async def _master_url(self, yarn_id: str, report: client_pb2.ApplicationReportProto) -> str:
        """Return where the master listens, "" where it does not, or names an address that is not its own."""
        try:
            url: str = await self._ask(None, lambda rm: self._places.url_of(rm, report))
        except NotRunningError:
            return ""
        except MisplacedMasterError as error:
            if yarn_id not in self._misplaced:
                log.warning("a master is not asked", application=yarn_id, why=error.message)
            if len(self._misplaced) >= PLACES:
                self._misplaced.clear()
            self._misplaced.add(yarn_id)
            return ""
        return url

    async def kill(self, yarn_id: str, user: str, why: str) -> None:
        """Have YARN kill an application; harmless when it has ended."""
        try:
            await self._ask(self._user(user), lambda rm: rm.kill(id_of(yarn_id), why, 0.0))
        except ClientError as error:
            raise BackendUnavailableError(error.message, place=error.place, remedy=error.remedy) from error

    async def clean(self, yarn_id: str, user: str) -> None:
        """Delete the uploaded files of an application that has ended."""
        session = self._session_of(self._user(user))

        def removed() -> None:
            staging = session.staging()
            try:
                staging.remove(staging.folder_of(yarn_id))
            finally:
                staging.close()

        try:
            await self._run(removed)
        except ClientError as error:
            raise BackendUnavailableError(error.message, place=error.place, remedy=error.remedy) from error

    async def view(self, master: MasterAddress) -> dict[str, Any]:
        """Return what a master says of its application."""
        return await self._master(master, lambda api: api.application())

    async def scale(self, master: MasterAddress, service: str, count: int) -> dict[str, Any]:
        """Set the elastic instances that a service shall have. Raises ApiError with the master's refusal."""
        return await self._master(master, lambda api: api.scale(service, count))

    async def stop(self, master: MasterAddress, reason: str) -> None:
        """Have a master end its application in order."""
        await self._master(master, lambda api: api.stop("killed", reason))

    async def log(self, source: LogSource, file: str, limit_bytes: int) -> LogPart:
        """Return the end of a container's log file. Raises ApiError 404 when there is none."""
        try:
            check_container(source.container_id, source.yarn_id)
        except ClientError as error:
            raise ApiError(404, "foreign-container", str(error)) from error
        node_url = await self._node_url(source)
        try:
            tail = await self._run(partial(self._tail, source, node_url, file, limit_bytes))
        except ClientError as error:
            raise BackendUnavailableError(error.message, place=error.place, remedy=error.remedy) from error
        if tail is None:
            raise ApiError(404, "unknown-file", f"{source.container_id} has no log file {file}, or not any more")
        return LogPart(tail.data, len(tail.data) >= tail.length)

    async def files(self, source: LogSource) -> Sequence[str]:
        """Return the names of a container's log files."""
        return FILES

    async def close(self) -> None:
        """Close connections."""
        for rm, lock in self._rms.values():
            async with lock:
                await rm.close()
        async with self._staging:
            for stager in self._stagers.values():
                stager.close()
            self._stagers.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _user(self, user: str) -> str | None:
        """Return as whom calls for a user are made; None: as this process's principal."""
        return user if self._session.login.user is not None else None

    def _session_of(self, user: str | None) -> Session:
        return self._session if user is None else replace(self._session, login=replace(self._session.login, user=user))

    async def _launch(self, order: StartOrder, user: str | None) -> ApplicationLaunch:
        """Stage the files of an application; one user's connections serve one submission at a time."""
        session = self._session_of(user)
        async with self._staging:
            stager = self._stagers.pop(user, None)
        if stager is None:
            stager = await self._run(lambda: Stager(session))
        folder = stager.staging.folder_of(order.yarn_id)
        described = Described(order.application, _NOWHERE, order.application.name)
        try:
            archive, description, resources = await self._run(partial(stager.stage, described, folder, "python3"))
            tokens = await self._run(partial(session.tokens_for, folder))
        except BaseException:
            stager.close()
            raise
        async with self._staging:
            if user in self._stagers or len(self._stagers) >= _STAGERS:
                stager.close()
            else:
                self._stagers[user] = stager
        return ApplicationLaunch(
            application=order.application,
            archive=archive,
            description=description,
            resources=resources,
            key=order.key,
            user=user,
            tokens=tokens,
            tags=order.tags,
        )

    async def _ask(self, user: str | None, do: Callable[[Rm], Any]) -> Any:
        """Return what a call of the ResourceManager returns, over the kept connection of a user."""
        if user not in self._rms:
            if len(self._rms) >= _STAGERS:
                old = next(name for name in self._rms if name is not None)
                rm, lock = self._rms.pop(old)
                async with lock:
                    await rm.close()
            self._rms[user] = (await self._run(lambda: self._session_of(user).rm(_PATIENCE_S)), asyncio.Lock())
        rm, lock = self._rms[user]
        async with lock:
            try:
                return await do(rm)
            except (ClientRefusedError, RemoteCallError, NotRunningError, MisplacedMasterError):
                raise
            except ClientError as error:
                raise BackendUnavailableError(error.message, place=error.place, remedy=error.remedy) from error

    async def _node_url(self, source: LogSource) -> str:
        """Return the web server of a container's node, "" when YARN knows no such node."""
        addresses, at_s = self._nodes
        scheme = node_scheme(self._session.site)
        url = node_url_of(source.log_url, addresses, scheme)
        if not url and time.monotonic() - at_s > _NODES_S:
            addresses = await self._ask(None, lambda rm: rm.node_addresses())
            self._nodes = addresses, time.monotonic()
            url = node_url_of(source.log_url, addresses, scheme)
        return url

    async def _master(self, master: MasterAddress, do: Callable[[MasterApi], Awaitable[T]]) -> T:
        try:
            async with MasterApi(master.url, master.yarn_id, master.key) as api:
                return await do(api)
        except NotRunningError as error:
            raise BackendUnavailableError(error.message, place=error.place) from error
        except RefusedError as error:
            if error.status in (400, 404, 409):
                raise ApiError(error.status, error.code, error.message) from error
            raise BackendUnavailableError(error.message, place=error.place) from error

    def _tail(self, source: LogSource, node_url: str, file: str, limit_bytes: int) -> Tail | None:
        """Return the end of a log: from its node, and where that has none any more, from the cluster's log server."""
        logs = Logs(self._session_of(self._user(source.user)))
        container = LogPlace("", 0, source.container_id, node_url)
        try:
            tail = None
            if container.node_url:
                try:
                    tail = logs.of_node(container, file, limit_bytes)
                except ClientError:
                    if not source.ended:
                        raise
            return tail if tail is not None or not source.ended else logs.aggregated(container, file, limit_bytes)
        finally:
            logs.close()

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except requests.RequestException as error:
            raise BackendUnavailableError(str(error)) from error


def report_of(report: client_pb2.ApplicationReportProto, master_url: str) -> YarnReport:
    """Return YARN's report as the app server has it; what the master said in it is cut."""
    tags = [tag for tag in report.applicationTags if tag.startswith(REQUEST_TAG)]
    final = report.final_application_status
    message = report.diagnostics[:REPORT_TEXT_CHARACTERS].replace("\0", " ")
    tracking_url = report.trackingUrl
    shown = tracking_url.startswith("http") and len(tracking_url) <= REPORT_TEXT_CHARACTERS and "\0" not in tracking_url
    return YarnReport(
        yarn_id=name_of(report.applicationId),
        state=_STATES.get(report.yarn_application_state, YarnState.NEW),
        request_id=tags[0].removeprefix(REQUEST_TAG) if tags else "",
        succeeded=_SUCCESS.get(final),
        killed=final == yarn_pb2.APP_KILLED,
        diagnostics="" if message == _NOTHING else message,
        master_url=master_url,
        tracking_url=tracking_url if shown else "",
        started_s=report.startTime / 1000.0,
        ended_s=report.finishTime / 1000.0,
    )
