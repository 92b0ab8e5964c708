"""ContainerManagement of an emulated node: starts, stops and statuses, refused in the words of a NodeManager."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import Final

from hadoop_rpc.protos.yarn_pb2 import (
    OPPORTUNISTIC,
    ContainerIdProto,
    ContainerStatusProto,
    ContainerTokenIdentifierProto,
    StartContainerRequestProto,
)
from quicksilver_lab.bench.emulator.nodes import nm
from quicksilver_lab.bench.emulator.nodes import nm_events as ev
from quicksilver_lab.bench.emulator.nodes.node_login import signature
from quicksilver_lab.bench.emulator.nodes.tally import NodeTally
from quicksilver_lab.bench.emulator.nodes.tracker import Tracker, container_status
from sidecar.gate.start_messages import application_id, container_id
from sidecar.node.container import app_of

COMMAND: Final = "emulated"
"""First word of a launch context's command; the seconds that the process runs follow, and its exit code if not 0."""


class ContainerService:
    """Implements `quicksilver_lab.bench.emulator.nodes.node_server.Service` with the machine of one NodeManager."""

    def __init__(
        self, machine: nm.NodeManager, tracker: Tracker, tell: Callable[[ev.Event], None], tally: NodeTally
    ) -> None:
        """`tell` passes an event to the machine and carries out its commands."""
        self._machine, self._tracker, self._tell, self._tally = machine, tracker, tell, tally

    @property
    def token_key(self) -> bytes:
        """The NMToken master key."""
        return self._tracker.nm_token_key.bytes

    def broken(self, why: str) -> None:
        """Count a session that is closed because of what came."""
        self._refuse(why)

    def start_container(self, attempt_id: str, request: StartContainerRequestProto) -> tuple[ContainerIdProto, str]:
        """Start a container; return which one, and why not, or ""."""
        identifier = request.container_token.identifier
        token = ContainerTokenIdentifierProto.FromString(identifier)
        name = container_id(token.containerId)
        why = self._why_not(attempt_id, name, token, request)
        if not why:
            why = self._started(name, token, request)
        if why:
            self._refuse(why)
        return token.containerId, why

    def _why_not(
        self, attempt_id: str, name: str, token: ContainerTokenIdentifierProto, request: StartContainerRequestProto
    ) -> str:
        """Say why a NodeManager refuses a token, in its words."""
        password = signature(request.container_token.identifier, self._tracker.container_key.bytes)
        if not hmac.compare_digest(password, request.container_token.password):
            return f"Given Container {name} seems to have an illegally generated token."
        if app_of(name).partition("_")[2] not in attempt_id:
            return "Unauthorized request to start container.\nNMToken for application attempt : " + attempt_id
        if token.expiryTimeStamp < time.time() * 1000:
            return f"Unauthorized request to start container.\nThis token is expired. found {token.expiryTimeStamp}"
        if token.rmIdentifier != self._tracker.rm_identifier:
            return f"\nContainer {name} rejected as it is allocated by a previous RM"
        if name in self._machine.containers:
            return f"Container {name} already is running on this node!!"
        return ""

    def _started(self, name: str, token: ContainerTokenIdentifierProto, request: StartContainerRequestProto) -> str:
        words = " ".join(request.container_launch_context.command).split()
        try:
            if not 2 <= len(words) <= 3 or words[0] != COMMAND:
                raise ValueError(words)
            runs_s, code = float(words[1]), int(words[2]) if len(words) == 3 else ev.SUCCESS
        except ValueError:
            return f"the command {' '.join(words)!r} cannot be emulated: give `{COMMAND} SECONDS [EXIT CODE]`"
        app = token.containerId.app_attempt_id.application_id
        spec = ev.NmAsked(
            name,
            application_id(app.cluster_timestamp, app.id),
            ev.NmSize(token.resource.memory, token.resource.virtual_cores),
            token.executionType == OPPORTUNISTIC,
            runs_s,
            code,
        )
        self._tell(ev.NmStart(spec, time.monotonic()))
        return ""

    def stop_container(self, attempt_id: str, name: str) -> str:
        """Have a container killed; return why not, or ""."""
        if app_of(name).partition("_")[2] not in attempt_id:
            return f"{attempt_id} attempted to stop non-application container : {name}"
        if name not in self._machine.containers:
            return f"Container {name} is not handled by this NodeManager"
        self._tell(ev.NmStop(name, ev.KILLED_BY_APPMASTER, ev.BY_APPMASTER, time.monotonic()))
        return ""

    def status(self, name: str) -> ContainerStatusProto | None:
        """Return a container's status, None for one that is not known."""
        container = self._machine.containers.get(name)
        return None if container is None else container_status(name, container)

    def _refuse(self, why: str) -> None:
        self._tally.refused[why.strip().partition("\n")[0][:120]] += 1
