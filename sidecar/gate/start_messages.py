"""Reads startContainers requests and their answers: parses tokens, merges answers, classifies failures."""

from __future__ import annotations

from collections.abc import Iterable

from hadoop_rpc.connection import Failure, Response
from hadoop_rpc.messages import as_text
from hadoop_rpc.protos.yarn_pb2 import (
    APPLICATION_MASTER,
    C_RUNNING,
    CSS_SCHEDULED,
    OPPORTUNISTIC,
    ApplicationAttemptIdProto,
    ContainerIdProto,
    ContainerStatusProto,
    ContainerTokenIdentifierProto,
    NMTokenIdentifierProto,
    SerializedExceptionProto,
    StartContainerRequestProto,
    StartContainersResponseProto,
)
from policies.model import Resources
from sidecar.node.container import CONTAINER_ID
from sidecar.node.events import Outcome, Start

_SERIAL_BITS = 40
_LOST = (
    "allocated by a previous rm",
    "token is expired",
    "invalidtoken",
    "nmnotyetready",
    "process of shutting down",
)
"""Parts of NodeManager messages that mean: not the application's fault, ask for another container."""
_EARLY = "allocated by a previous rm"
_THERE = ("already is running on this node", "attempt to relaunch the same")
"""Parts that mean: an earlier try of this start went through."""


def application_id(timestamp: int, number: int) -> str:
    """Return YARN's text form of an application id."""
    return f"application_{timestamp}_{number:04d}"


def attempt_id(attempt: ApplicationAttemptIdProto) -> str:
    """Return YARN's text form of an application attempt id."""
    app = attempt.application_id
    return f"appattempt_{app.cluster_timestamp}_{app.id:04d}_{attempt.attemptId:06d}"


def container_id(container: ContainerIdProto) -> str:
    """Return YARN's text form of a container id; the epoch of the ResourceManager is in its upper bits."""
    attempt = container.app_attempt_id
    app = attempt.application_id
    epoch, serial = container.id >> _SERIAL_BITS, container.id & ((1 << _SERIAL_BITS) - 1)
    prefix = f"container_e{epoch:02d}_" if epoch > 0 else "container_"
    return f"{prefix}{app.cluster_timestamp}_{app.id:04d}_{attempt.attemptId:02d}_{serial:06d}"


def container_proto(text: str) -> ContainerIdProto:
    """Parse the text form of a YARN container id. Raises ValueError for anything else."""
    match = CONTAINER_ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no container id")
    epoch, timestamp, app, attempt, serial = [int(part or 0) for part in match.groups()]
    proto = ContainerIdProto(id=(epoch << _SERIAL_BITS) | serial)
    proto.app_attempt_id.attemptId = attempt
    proto.app_attempt_id.application_id.id = app
    proto.app_attempt_id.application_id.cluster_timestamp = timestamp
    return proto


def attempt_of_nm_token(identifier: bytes) -> str:
    """Return the application attempt of an NMToken's identifier. Raises DecodeError or ValueError."""
    token = NMTokenIdentifierProto.FromString(identifier)
    if not token.HasField("appAttemptId"):
        raise ValueError("the NMToken names no application attempt")
    return attempt_id(token.appAttemptId)


def read_start(request: StartContainerRequestProto, session_attempt: str) -> Start:
    """Parse the request's container token. Raises DecodeError or ValueError when it cannot be read."""
    token = ContainerTokenIdentifierProto.FromString(request.container_token.identifier)
    if not token.containerId.app_attempt_id.HasField("application_id"):
        raise ValueError("the container token names no container")
    app = token.containerId.app_attempt_id.application_id
    return Start(
        container_id=container_id(token.containerId),
        app_id=application_id(app.cluster_timestamp, app.id),
        attempt_id=session_attempt,
        resources=Resources(token.resource.memory, token.resource.virtual_cores),
        opportunistic=token.executionType == OPPORTUNISTIC,
        am=token.containerType == APPLICATION_MASTER,
        priority=token.priority.priority,
        user=as_text(token.appSubmitter),
        expires_s=token.expiryTimeStamp / 1000,
        payload=request.SerializeToString(),
    )


def waiting_status(container: str, resources: Resources) -> ContainerStatusProto:
    """Return the status of a held container: as the NodeManager shows one that waits in its own queue."""
    status = ContainerStatusProto(
        container_id=container_proto(container),
        state=C_RUNNING,
        container_sub_state=CSS_SCHEDULED,
        diagnostics="",
        exit_status=-1000,
        executionType=OPPORTUNISTIC,
    )
    status.capability.memory = resources.memory_mb
    status.capability.virtual_cores = int(resources.vcores)
    return status


def outcome_in(answer: StartContainersResponseProto, container: str) -> tuple[Outcome, str]:
    """Return the outcome of an answered start for one container, with the NodeManager's message."""
    for failed in answer.failed_requests:
        if container_id(failed.container_id) == container:
            return classify(exception_text(failed.exception))
    return Outcome.STARTED, ""


def as_started(answer: StartContainersResponseProto, container: str) -> StartContainersResponseProto:
    """Return an answer in which one container has started instead of failed."""
    changed = StartContainersResponseProto()
    changed.CopyFrom(answer)
    for at, failed in enumerate(changed.failed_requests):
        if container_id(failed.container_id) == container:
            del changed.failed_requests[at]
            changed.succeeded_requests.append(container_proto(container))
            break
    return changed


def outcome_of(answer: Response | Failure | None, container: str) -> tuple[Outcome, str]:
    """Return the outcome of the only start of a call; the answer None is a lost connection."""
    if answer is None:
        return Outcome.LOST, "the connection to the NodeManager was lost"
    if isinstance(answer, Failure):
        return classify(f"{answer.exception_class}: {answer.text}")
    return outcome_in(StartContainersResponseProto.FromString(answer.body), container)


def classify(text: str) -> tuple[Outcome, str]:
    """Classify the NodeManager's message: it runs already, it is not the application's fault, or it is refused."""
    words = text.lower()
    if any(part in words for part in _THERE):
        return Outcome.STARTED, text
    return (Outcome.LOST if any(part in words for part in _LOST) else Outcome.REFUSED), text


def is_early(text: str) -> bool:
    """Return whether the NodeManager refuses a start only because it has not registered yet."""
    return _EARLY in text.lower()


def exception_text(exception: SerializedExceptionProto, depth: int = 4) -> str:
    """Return a Java exception's class and message, with up to `depth` causes."""
    text = ": ".join(part for part in (as_text(exception.class_name), as_text(exception.message).strip()) if part)
    if depth > 0 and exception.HasField("cause"):
        text += f"; caused by {exception_text(exception.cause, depth - 1)}"
    return text or "an exception without words"


def merged(parts: Iterable[StartContainersResponseProto]) -> StartContainersResponseProto:
    """Return several answers as one: all successes, all failures, the aux services' data once."""
    whole = StartContainersResponseProto()
    for part in parts:
        whole.succeeded_requests.extend(part.succeeded_requests)
        whole.failed_requests.extend(part.failed_requests)
        if not whole.services_meta_data:
            whole.services_meta_data.extend(part.services_meta_data)
    return whole
