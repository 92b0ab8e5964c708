"""Stops a container on its attempt's session, and waits until the NodeManager reports that it is gone.

A container that is being localized is stopped only when it runs: a NodeManager (3.4) interrupts the localizer of a
container that it kills, and if the localizer is in a call, it dies with the lock of the resource that it was
downloading; every other container of the application on that node waits for this lock for ever
(ResourceLocalizationService.LocalizerRunner.run).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from google.protobuf.message import DecodeError

from hadoop_rpc.connection import Failure, Response
from hadoop_rpc.protos.yarn_pb2 import (
    C_COMPLETE,
    CSS_SCHEDULED,
    GetContainerStatusesRequestProto,
    GetContainerStatusesResponseProto,
    StopContainersRequestProto,
    StopContainersResponseProto,
)
from sidecar.gate.start_messages import container_proto, exception_text

Call = Callable[[str, bytes], Awaitable[Response | Failure | None]]
"""Method and parameter to the answer; None when there is no session."""
_LOCALIZING_POLL_S: Final = 0.1
_UNKNOWN = ("was recently stopped", "is not handled by this nodemanager")


async def stop_and_see_gone(
    container_id: str,
    call: Call,
    *,
    poll_s: float,
    wait_s: float,
    localizing_s: float,
    localized: Callable[[], bool] = lambda: False,
) -> tuple[bool, str]:
    """Return whether the container is gone within `wait_s`, and else why not. It is polled every `poll_s`.

    localizing_s: how long the end of its localization is waited for before; then it is stopped all the same.
    localized: returns whether that end is known, as the status says SCHEDULED also of a container that is queued.
    """
    text = ""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(localizing_s):
                while not localized() and await _is_localizing(container_id, call):  # noqa: ASYNC110 - the NodeManager is asked
                    await asyncio.sleep(_LOCALIZING_POLL_S)
        async with asyncio.timeout(wait_s):
            stopped, text = await _stop(container_id, call)
            if not stopped:
                return False, text
            while True:
                gone, text = await _is_gone(container_id, call)
                if gone is not None:
                    return gone, text
                await asyncio.sleep(poll_s)
    except TimeoutError:
        return False, f"it is not gone after {wait_s:g} s"
    except DecodeError as error:
        return False, f"the NodeManager's answer cannot be read: {error}"


async def see_gone(container_id: str, call: Call, *, poll_s: float, wait_s: float) -> None:
    """Return when the NodeManager knows that the container is gone, cannot say so, or after `wait_s`."""
    with suppress(TimeoutError, DecodeError):
        async with asyncio.timeout(wait_s):
            while (await _is_gone(container_id, call))[0] is None:  # noqa: ASYNC110 - the NodeManager is asked
                await asyncio.sleep(poll_s)


async def _is_localizing(container_id: str, call: Call) -> bool:
    """Return whether the NodeManager has it and it does not run yet; False when the NodeManager cannot answer."""
    request = GetContainerStatusesRequestProto(container_id=[container_proto(container_id)])
    answer = await call("getContainerStatuses", request.SerializeToString())
    if not isinstance(answer, Response):
        return False
    statuses = GetContainerStatusesResponseProto.FromString(answer.body).status
    return any(
        s.state != C_COMPLETE and s.HasField("container_sub_state") and s.container_sub_state == CSS_SCHEDULED
        for s in statuses
    )


async def _stop(container_id: str, call: Call) -> tuple[bool, str]:
    request = StopContainersRequestProto(container_id=[container_proto(container_id)])
    answer = await call("stopContainers", request.SerializeToString())
    if not isinstance(answer, Response):
        return False, _words(answer)
    for failed in StopContainersResponseProto.FromString(answer.body).failed_requests:
        text = exception_text(failed.exception)
        if not any(part in text.lower() for part in _UNKNOWN):
            return False, text
    return True, ""


async def _is_gone(container_id: str, call: Call) -> tuple[bool | None, str]:
    """Return True when it is gone, False when that cannot be known, None while it is there."""
    request = GetContainerStatusesRequestProto(container_id=[container_proto(container_id)])
    answer = await call("getContainerStatuses", request.SerializeToString())
    if not isinstance(answer, Response):
        return False, _words(answer)
    statuses = GetContainerStatusesResponseProto.FromString(answer.body)
    if statuses.failed_requests:
        return True, ""  # the NodeManager has forgotten it
    return (True if any(status.state == C_COMPLETE for status in statuses.status) else None), ""


def _words(answer: Failure | None) -> str:
    if answer is None:
        return "there is no session with the NodeManager"
    return f"{answer.exception_class}: {answer.text}"
