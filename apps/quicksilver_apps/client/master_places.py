"""Where application masters listen. The address is the master's own word; the node where it runs is YARN's."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final
from urllib.parse import urlsplit

from hadoop_rpc.protos import yarn_client_pb2 as client_pb2
from hadoop_rpc.protos.yarn_pb2 import ApplicationAttemptIdProto
from quicksilver_apps.client.errors import ClientError, NotRunningError
from quicksilver_apps.client.rm import Rm
from quicksilver_apps.yarn.yarn_client import RemoteCallError

PLACES: Final = 10_000
"""Attempts whose node is remembered."""
MASTER_URL_CHARACTERS: Final = 500


class MisplacedMasterError(ClientError):
    """A master names an address that is not its own; nobody is asked there."""


class MasterPlaces:
    """Finds the addresses of masters; an address counts only on the node where YARN runs the master."""

    def __init__(self) -> None:
        """Begin without any."""
        self._hosts: OrderedDict[tuple[int, int, int], str] = OrderedDict()

    async def url_of(self, rm: Rm, report: client_pb2.ApplicationReportProto) -> str:
        """Return the address of the master of an application, `http://host:port`; "" while none listens.

        Raises MisplacedMasterError, NotRunningError when YARN does not know its container any more, ClientError.
        """
        url = report.originalTrackingUrl
        if report.yarn_application_state != client_pb2.RUNNING or not url.startswith("http"):
            return ""
        host, named = await self._host(rm, report.currentApplicationAttemptId), host_of(url)
        if not host or named != host:
            problem = (
                f"the application master says that it is at {url[:100]!r}, and YARN runs it on {host or 'no node'}"
            )
            raise MisplacedMasterError(
                problem, remedy="end the application with `yarn application -kill`; it has no master of quicksilver"
            )
        return url.rstrip("/")

    async def _host(self, rm: Rm, attempt: ApplicationAttemptIdProto) -> str:
        app = attempt.application_id
        key = (app.cluster_timestamp, app.id, attempt.attemptId)
        if key not in self._hosts:
            try:
                container = (await rm.call(lambda client: client.attempt_report(attempt))).am_container_id
                report = await rm.call(lambda client: client.container_report(container))
            except RemoteCallError as error:
                problem = f"YARN does not say where the master runs: {error}"
                raise NotRunningError(problem, remedy="try once more") from error
            self._hosts[key] = _plain(report.node_id.host)
            if len(self._hosts) > PLACES:
                self._hosts.popitem(last=False)
        return self._hosts[key]


def host_of(url: str) -> str:
    """Return the host of a master's address, "" for what is no such address: a path or a user name is none of ours."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    plain = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if len(url) > MASTER_URL_CHARACTERS or parts.scheme not in ("http", "https") or not plain or not port:
        return ""
    return _plain(parts.hostname or "")


def _plain(host: str) -> str:
    return host.lower().removesuffix(".").strip("[]")
