"""A burst of logins is larger than a channel: all of them reach the worker, in order, and copies are closed."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import psutil
import pytest

from rm_proxy.service.workers import channel_writer, sockets
from rm_proxy.service.workers.channel_writer import ChannelWriter

BURST = 600


def login(number: int) -> sockets.MasterLogin:
    return sockets.MasterLogin(((True, bytes(1000)),), number)


def open_files() -> int:
    return psutil.Process().num_fds()


def test_a_burst_waits_for_room_and_comes_in_order() -> None:
    async def passed() -> list[int]:
        front, worker = sockets.channel()
        with front, worker, socket.socket() as master, socket.socket() as rm:
            writer, before = ChannelWriter(front), open_files()
            numbers: list[int] = []
            for number in range(BURST):
                writer.send(login(number), (master.fileno(), rm.fileno()))
            assert open_files() > before  # the channel did not have room for all
            while len(numbers) < BURST:
                for message, ends in sockets.receive(worker):
                    assert isinstance(message, sockets.MasterLogin) and len(ends) == 2
                    numbers.append(message.relayed)
                    for end in ends:
                        end.close()
                await asyncio.sleep(0)
            assert open_files() == before
            return numbers

    assert asyncio.run(asyncio.wait_for(passed(), 30)) == list(range(BURST))


def test_too_many_that_wait_are_refused_and_closing_leaves_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_writer, "MOST_WAITING", 3)

    async def fill() -> None:
        front, worker = sockets.channel()
        with front, worker, socket.socket() as master:
            writer, before = ChannelWriter(front), open_files()
            with pytest.raises(BlockingIOError, match="3 messages wait"):
                for number in range(BURST):
                    writer.send(login(number), (master.fileno(),))
            writer.close()
            assert open_files() == before
            assert not asyncio.get_running_loop().remove_writer(front)

    asyncio.run(fill())


def test_what_waits_for_a_worker_that_is_gone_is_closed() -> None:
    async def lose() -> None:
        front, worker = sockets.channel()
        with front, worker, socket.socket() as master:
            writer, before = ChannelWriter(front), open_files()
            for number in range(BURST):
                writer.send(login(number), (master.fileno(),))
            worker.close()
            for _ in range(500):
                await asyncio.sleep(0.01)
                if open_files() == before - 1:
                    return
            raise AssertionError("copies of sockets stay open")

    asyncio.run(lose())


def test_without_open_files_nothing_waits_and_no_copy_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill() -> None:
        front, worker = sockets.channel()
        with front, worker, socket.socket() as master, socket.socket() as rm:
            writer, before = ChannelWriter(front), open_files()
            copy = os.dup

            def dup(number: int) -> int:
                if number == rm.fileno():
                    raise OSError(errno.EMFILE, "Too many open files")
                return copy(number)

            monkeypatch.setattr(os, "dup", dup)
            with pytest.raises(OSError, match="Too many open files"):
                for number in range(BURST):
                    writer.send(login(number), (master.fileno(), rm.fileno()))
            assert open_files() == before
            writer.close()

    asyncio.run(fill())
