"""For tests and benchmarks: a free port range, a plain TCP relay, and a pytest fixture with a running cluster."""

import asyncio
import os
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from quicksilver.cluster.archive import make_archive
from quicksilver.cluster.cluster import Cluster
from quicksilver.cluster.errors import PortInUseError
from quicksilver.cluster.ports import ANY, Listen, check_free
from quicksilver.cluster.spec import LAST_FIXED_PORT, ClusterSpec, HostPort

_STEP = 200
_CHUNK_BYTES = 1 << 16


def free_base_port(nodes: int = 3, lowest: int = 20000) -> int:
    """Return a base_port whose whole range is free now; drawn at random, so that test runs side by side seldom meet.

    Those of one `pytest -n` never meet: each takes from bases of its own. Raises PortInUseError when there is none.
    """
    worker, workers = worker_of(os.environ)
    span = ClusterSpec(base_port=1024, nodes=nodes).last_port - 1024 + 1
    bases = list(range(lowest, LAST_FIXED_PORT + 1 - span, _STEP))[worker::workers]
    random.shuffle(bases)
    for base in bases:
        try:
            check_free((Listen(HostPort(ANY, base + offset), "test cluster") for offset in range(span)), "")
        except PortInUseError:
            continue
        return base
    raise PortInUseError(f"no {span} free ports in a row between {lowest} and {LAST_FIXED_PORT}. End other clusters.")


def worker_of(env: Mapping[str, str]) -> tuple[int, int]:
    """Return which process of how many this is under `pytest -n`, counted from 0; (0, 1) without."""
    return int(env.get("PYTEST_XDIST_WORKER", "gw0")[2:]), int(env.get("PYTEST_XDIST_WORKER_COUNT", "1"))


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


@pytest.fixture(scope="session", autouse=True)
def shared_classes(request: pytest.FixtureRequest) -> None:
    """Make the archive of Hadoop's classes, unless it is there, before tests that start many of its JVMs."""
    if any(item.get_closest_marker("hadoop") for item in request.session.items):
        make_archive(free_base_port(1))


@pytest.fixture(scope="session")
def hadoop_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running plain cluster of 3 nodes for the whole session; use restart_yarn to change it.

    A test that needs it otherwise than `spec.overlay` says calls restart_yarn; nobody turns it back.
    """
    spec = ClusterSpec(workdir=tmp_path_factory.mktemp("cluster"), base_port=free_base_port(), overlay=False)
    cluster = Cluster(spec)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
