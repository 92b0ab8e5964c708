"""Both ends of a connection within the process."""

from __future__ import annotations

import asyncio
from typing import cast

from quicksilver_lab.bench.emulator.pipe import Pipe, join


class End(asyncio.Protocol):
    def __init__(self, answers: bool = False) -> None:
        self.seen: list[str | bytes] = []
        self.answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(Pipe, transport)

    def data_received(self, data: bytes) -> None:
        self.seen.append(data)
        if self.answers:
            self.transport.write(data.upper())

    def pause_writing(self) -> None:
        self.seen.append("pause")

    def resume_writing(self) -> None:
        self.seen.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.append("lost")


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def joined(answers: bool = False) -> tuple[End, End]:
    one, other = End(), End(answers)
    join(one, other)
    return one, other


async def test_what_is_written_is_read_in_a_later_turn_and_in_order() -> None:
    one, other = joined(answers=True)
    one.transport.write(b"a")
    one.transport.writelines([b"b", b"c"])
    assert other.seen == []
    await turns()
    assert (other.seen, one.seen) == ([b"abc"], [b"ABC"])


async def test_what_was_sent_is_read_before_the_end() -> None:
    one, other = joined()
    one.transport.write(b"last words")
    one.transport.close()
    one.transport.write(b"too late")
    await turns()
    assert (other.seen, one.seen) == ([b"last words", "lost"], ["lost"])
    assert other.transport.is_closing()
    other.transport.write(b"nobody is there")
    await turns()
    assert one.seen == ["lost"]


async def test_both_may_close_at_once() -> None:
    one, other = joined()
    one.transport.close()
    other.transport.abort()
    await turns()
    assert (other.seen, one.seen) == (["lost"], ["lost"])


async def test_a_writer_is_held_while_the_reader_pauses() -> None:
    one, other = joined()
    one.transport.set_write_buffer_limits(high=3)
    other.transport.pause_reading()
    one.transport.write(b"abc")
    assert one.seen == []
    one.transport.write(b"d")
    await turns()
    assert (one.seen, other.seen, one.transport.get_write_buffer_size()) == (["pause"], [], 4)
    other.transport.resume_reading()
    await turns()
    assert (one.seen, other.seen, one.transport.get_write_buffer_size()) == (["pause", "resume"], [b"abcd"], 0)
