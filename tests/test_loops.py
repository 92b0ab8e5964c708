import asyncio
import warnings

import pytest

from tests.loops import run

OPEN: list[asyncio.Server] = []


async def leave_open(error: Exception | None) -> None:
    OPEN.append(await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0))
    if error is not None:
        raise error


def test_a_story_that_fails_with_a_server_open_ends() -> None:
    with pytest.raises(ValueError, match="it fails"):
        run(leave_open(ValueError("it fails")))


def test_what_is_left_open_is_named() -> None:
    with pytest.raises(AssertionError, match="unclosed resource <TCPServer"):
        run(leave_open(None))


def test_other_warnings_are_errors_as_elsewhere() -> None:
    async def story() -> None:
        warnings.warn("something else", ResourceWarning, stacklevel=1)

    with pytest.raises(ResourceWarning, match="something else"):
        run(story())
