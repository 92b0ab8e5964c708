"""A whole emulated node without a ResourceManager: tokens are checked, containers run, heartbeats go out of turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hadoop_rpc.errors import LoginRefusedError
from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos import yarn_server_pb2 as s
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import ContainerRefusedError, NmClient
from quicksilver_lab.bench.emulator.nodes.nm import NodeManager
from quicksilver_lab.bench.emulator.nodes.nm_events import NmSize
from quicksilver_lab.bench.emulator.nodes.node import EmulatedNode, NodeDelays
from quicksilver_lab.bench.emulator.nodes.node_login import signature
from quicksilver_lab.bench.emulator.nodes.rm_link import Answered
from quicksilver_lab.bench.emulator.nodes.tally import NodeTally
from quicksilver_lab.bench.emulator.nodes.tracker import HEARTBEAT, REGISTER, TurnedAwayError
from quicksilver_lab.bench.emulator.pipe import join
from sidecar.gate.start_messages import container_id, container_proto

KEY, NM_KEY = b"container key", b"nm key"
NAME = "container_1700000000000_0007_01_000001"


class FakeRm:
    """Answers as a ResourceManager without wishes."""

    def __init__(self) -> None:
        self.beats: list[s.NodeHeartbeatRequestProto] = []
        self.held: list[Answered] | None = None
        """Answers that are held back, when it holds any."""
        self.registrations: list[s.RegisterNodeManagerRequestProto] = []

    def call(self, method: str, request: bytes, answered: Answered) -> None:
        if method == REGISTER:
            self.registrations.append(s.RegisterNodeManagerRequestProto.FromString(request))
            answer = s.RegisterNodeManagerResponseProto(nodeAction=s.NORMAL, rm_identifier=42)
            answer.container_token_master_key.bytes, answer.nm_token_master_key.bytes = KEY, NM_KEY
            answered(answer.SerializeToString())
            return
        assert method == HEARTBEAT
        self.beats.append(s.NodeHeartbeatRequestProto.FromString(request))
        if self.held is None:
            self.answer(answered)
        else:
            self.held.append(answered)

    def answer(self, answered: Answered, action: s.NodeActionProto.ValueType = s.NORMAL) -> None:
        reply = s.NodeHeartbeatResponseProto(response_id=len(self.beats), nextHeartBeatInterval=3_600_000)
        reply.nodeAction = action
        answered(reply.SerializeToString())

    def ends(self) -> list[tuple[str, int]]:
        return [
            (container_id(one.container_id), one.exit_status)
            for beat in self.beats
            for one in beat.node_status.containersStatuses
            if one.state == y.C_COMPLETE
        ]


def container(name: str = NAME, key: bytes = KEY, identifier: int = 42, expires_s: float = 3600) -> y.ContainerProto:
    token = y.ContainerTokenIdentifierProto(
        containerId=container_proto(name),
        expiryTimeStamp=int((time.time() + expires_s) * 1000),
        rmIdentifier=identifier,
        resource=y.ResourceProto(memory=1024, virtual_cores=1),
    ).SerializeToString()
    signed = TokenProto(identifier=token, password=signature(token, key), kind="ContainerToken", service="")
    return y.ContainerProto(id=container_proto(name), container_token=signed)


def nm_token(key: bytes = NM_KEY, app: int = 7) -> TokenProto:
    said = y.NMTokenIdentifierProto()
    said.appAttemptId.attemptId = 1
    said.appAttemptId.application_id.id = app
    said.appAttemptId.application_id.cluster_timestamp = 1700000000000
    identifier = said.SerializeToString()
    return TokenProto(identifier=identifier, password=signature(identifier, key), kind="NMToken", service="")


class Bench:
    """One node that listens, and what it told its master."""

    def __init__(self) -> None:
        self.rm, self.tally = FakeRm(), NodeTally()
        self.told: list[tuple[str, str]] = []
        self.done = asyncio.Event()
        machine = NodeManager(NmSize(1024, 1), 2)
        self.node = EmulatedNode("127.64.0.1:1", machine, NodeDelays(0, 0), self.rm, self.tally, self._umbilical)

    def _umbilical(self, name: str, kind: str, now_s: float) -> None:
        self.told.append((name, kind))
        if kind == "done":
            self.done.set()

    @asynccontextmanager
    async def client(self, token: TokenProto | None = None) -> AsyncIterator[NmClient]:
        server = await asyncio.get_running_loop().create_server(self.node.connected, "127.0.0.1", 0)
        try:
            async with NmClient(*server.sockets[0].getsockname(), token or nm_token()) as client:
                yield client
        finally:
            server.close()
            self.node.stop()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something holds; `run` bounds it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work

    asyncio.run(bounded())


def test_a_container_starts_runs_and_is_told_out_of_turn() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        await asyncio.sleep(0)
        async with bench.client() as client:
            await client.start(container(), "emulated 0.01")
            await bench.done.wait()
            status = await client.status(container_proto(NAME))
            await client.start(container(NAME[:-1] + "2"), "emulated 0 3")
            await until(lambda: len(bench.rm.ends()) == 2)
        assert (status.state, status.exit_status) == (y.C_COMPLETE, 0)
        assert bench.rm.ends() == [(NAME, 0), (NAME[:-1] + "2", 3)]
        assert bench.told == [(NAME, "began"), (NAME, "done"), (NAME[:-1] + "2", "began")]  # a failure is not told
        assert (bench.tally.processes, bench.tally.used_vcores) == (0, 0)

    run(go())


def test_an_end_during_a_heartbeat_waits_for_the_next_one() -> None:
    async def go() -> None:
        bench = Bench()
        bench.rm.held = []
        await bench.node.start()
        await until(lambda: bench.rm.beats)
        async with bench.client() as client:
            await client.start(container(), "emulated 0")
            await bench.done.wait()
            await asyncio.sleep(0)
            assert len(bench.rm.beats) == 1
            bench.rm.answer(bench.rm.held.pop())
            await asyncio.sleep(0)
        assert len(bench.rm.beats) == 1 and bench.rm.ends() == []
        counts = bench.tally.counts()
        assert counts.pop("nm_answer_us") > 0
        assert counts == {"nm_heartbeats": 1, "nm_missed": 0, "nm_late_ends": 1}

    run(go())


def test_stops_end_a_process_and_unknown_containers_are_refused() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        async with bench.client() as client:
            await client.start(container(), "emulated 3600")
            await until(lambda: bench.told)
            await client.stop(container_proto(NAME))
            await until(lambda: not bench.tally.processes)
            with pytest.raises(ContainerRefusedError, match="is not handled by this NodeManager"):
                await client.stop(container_proto(NAME[:-1] + "5"))
            with pytest.raises(ContainerRefusedError, match="is not handled by this NodeManager"):
                await client.status(container_proto(NAME[:-1] + "5"))
        assert bench.told == [(NAME, "began")]

    run(go())


@pytest.mark.parametrize(
    ("allocated", "command", "complaint"),
    [
        ({"key": b"another"}, "emulated 1", "illegally generated token"),
        ({"identifier": 41}, "emulated 1", "allocated by a previous RM"),
        ({"expires_s": -1}, "emulated 1", "This token is expired"),
        ({"name": "container_1700000000000_0008_01_000001"}, "emulated 1", "NMToken for application attempt"),
        ({}, "sleep 1", "cannot be emulated: give `emulated SECONDS"),
        ({}, "emulated soon", "cannot be emulated"),
    ],
)
def test_a_start_is_refused_as_a_node_manager_does(allocated: dict[str, Any], command: str, complaint: str) -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        async with bench.client() as client:
            with pytest.raises(ContainerRefusedError) as refused:
                await client.start(container(**allocated), command)
        assert complaint in refused.value.text
        assert sum(bench.tally.refused.values()) == 1 and not bench.node.machine.containers

    run(go())


def test_a_container_starts_once() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        async with bench.client() as client:
            await client.start(container(), "emulated 3600")
            with pytest.raises(ContainerRefusedError, match="already is running on this node"):
                await client.start(container(), "emulated 3600")

    run(go())


def test_a_token_with_another_signature_does_not_log_in() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        with pytest.raises(LoginRefusedError, match="not signed with the key"):
            async with bench.client(nm_token(key=b"another")):
                pass

    run(go())


def test_a_slowed_process_takes_longer_and_a_frozen_one_for_ever() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.node.start()
        async with bench.client() as client:
            await client.start(container(), "emulated 3600")
            await until(lambda: bench.told)
            bench.node.speed(NAME, 0.0)
            before = bench.node.served_s(NAME)
            await asyncio.sleep(0.01)
            assert before == bench.node.served_s(NAME)
            bench.node.speed(NAME, 1e9)
            await bench.done.wait()
            assert bench.node.served_s(NAME) is None
            bench.node.speed(NAME, 1.0)  # over: nothing happens

    run(go())


def test_what_is_no_hadoop_is_hung_up_on() -> None:
    class Other(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"GET / HTTP/1.1\r\n\r\n")

        def connection_lost(self, exc: Exception | None) -> None:
            lost.set()

    async def go() -> None:
        bench = Bench()
        join(Other(), bench.node.connected())
        await lost.wait()
        [why] = bench.tally.refused
        assert "wrong magic" in why and not bench.node.sessions

    lost = asyncio.Event()
    run(go())


def test_a_node_whose_resource_manager_is_gone_says_why() -> None:
    async def go() -> None:
        bench = Bench()
        bench.rm.held = []
        await bench.node.start()
        await until(lambda: bench.rm.beats)
        bench.rm.held.pop()(ConnectionResetError("the ResourceManager closed the connection"))
        assert isinstance(bench.node.failure, ConnectionResetError)
        await asyncio.sleep(0)
        assert len(bench.rm.beats) == 1

    run(go())


def test_a_node_that_is_not_known_any_more_registers_again_and_beats_on() -> None:
    async def go() -> None:
        bench = Bench()
        bench.rm.held = []
        await bench.node.start()
        await until(lambda: bench.rm.beats)
        async with bench.client() as client:
            await client.start(container(), "emulated 3600")
            bench.rm.answer(bench.rm.held.pop(), s.RESYNC)
            await until(lambda: len(bench.rm.beats) == 2)
        first, again = bench.rm.registrations
        assert not first.container_statuses
        assert [container_id(one.container_id) for one in again.container_statuses] == [NAME]
        assert bench.rm.beats[1].node_status.response_id == 0

    run(go())


def test_a_node_that_is_turned_away_says_so() -> None:
    async def go() -> None:
        bench = Bench()
        bench.rm.held = []
        await bench.node.start()
        await until(lambda: bench.rm.beats)
        bench.rm.answer(bench.rm.held.pop(), s.SHUTDOWN)
        assert isinstance(bench.node.failure, TurnedAwayError)

    run(go())
