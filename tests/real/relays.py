"""A plain TCP relay in place of proxy and sidecars."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from quicksilver_lab.cluster.spec import ClusterSpec, HostPort

_CHUNK_BYTES = 1 << 16


def overlay_relays(spec: ClusterSpec) -> list[tuple[HostPort, HostPort]]:
    """Return what proxy and sidecars listen on under the overlay, and where each has to relay to."""
    relays = [(spec.scheduler, spec.moved_scheduler)]
    for node in spec.node_addresses:
        relays += [(node.rpc, node.loopback_rpc), (node.web, node.loopback_web)]
    return relays


@contextmanager
def relaying(relays: Sequence[tuple[HostPort, HostPort]]) -> Iterator[None]:
    """Relay TCP connections unchanged, in place of proxy and sidecars, on a thread of its own."""
    loop, stopped = asyncio.new_event_loop(), asyncio.Event()
    listening = threading.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(_relay_all(relays, listening, stopped))
        except OSError as error:
            failure.append(error)
        finally:
            listening.set()
            loop.close()

    thread = threading.Thread(target=run, name="relays")
    thread.start()
    listening.wait()
    try:
        if failure:
            raise failure[0]
        yield
    finally:
        if not failure:
            loop.call_soon_threadsafe(stopped.set)
        thread.join()


async def _relay_all(
    relays: Sequence[tuple[HostPort, HostPort]], listening: threading.Event, stopped: asyncio.Event
) -> None:
    open_tasks: set[asyncio.Task[None]] = set()

    def serve(target: HostPort) -> "asyncio.streams._ClientConnectedCallback":
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_relay(reader, writer, target))
            open_tasks.add(task)
            task.add_done_callback(open_tasks.discard)

        return accepted

    servers = [await asyncio.start_server(serve(target), *listen) for listen, target in relays]
    listening.set()
    await stopped.wait()
    for server in servers:
        server.close()
    for task in open_tasks:
        task.cancel()
    await asyncio.gather(*open_tasks, return_exceptions=True)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: HostPort) -> None:
    try:
        far_reader, far_writer = await asyncio.open_connection(*target)
    except OSError:  # as when nobody listened here: the caller sees the connection end
        writer.close()
        return
    try:
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
    finally:
        far_writer.close()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        writer.transport.abort()  # one side broke off: so does the other
        return
    if writer.can_write_eof():
        writer.write_eof()
