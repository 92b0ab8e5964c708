"""64 emulated nodes with 4 slots each at a real ResourceManager: containers of both types run to their end."""

import asyncio
from pathlib import Path

import pytest

from hadoop_rpc.protos import yarn_pb2 as y
from hadoop_rpc.protos.rpc_pb2 import TokenProto
from quicksilver_apps.yarn.yarn_client import AmClient, NmClient, RmClient
from quicksilver_lab.bench.emulator.nodes.nm import NmCounts
from quicksilver_lab.bench.emulator.nodes.nodes import EmulatedNodes, NodeSettings
from quicksilver_lab.bench.emulator.rm import (
    OPPORTUNISTIC,
    NodeShape,
    RmOptions,
    Running,
    resource_manager,
    until_running,
)
from quicksilver_lab.cluster.ports import free_base_port
from sidecar.gate.start_messages import container_id

pytestmark = pytest.mark.hadoop

NODES, SLOTS, EACH = 64, 4, 40


def ask(priority: int, kind: y.ExecutionTypeProto.ValueType) -> y.ResourceRequestProto:
    made = y.ResourceRequestProto(resource_name="*", num_containers=EACH, relax_locality=True)
    made.priority.priority = priority
    made.capability.memory, made.capability.virtual_cores = 1024, 1
    made.execution_type_request.execution_type = kind
    made.execution_type_request.enforce_execution_type = True
    return made


async def run_all(master: AmClient) -> tuple[dict[str, y.ExecutionTypeProto.ValueType], dict[str, int]]:
    """Ask for containers of both types, start each, and return their types and exit codes once all have ended."""
    asks = [ask(20, y.GUARANTEED), ask(10, y.OPPORTUNISTIC)]
    request: y.AllocateRequestProto | None = y.AllocateRequestProto(progress=0.1, ask=asks)
    tokens: dict[str, TokenProto] = {}
    kinds: dict[str, y.ExecutionTypeProto.ValueType] = {}
    ended: dict[str, int] = {}
    while len(ended) < 2 * EACH:
        answer, request = await master.allocate(request), None
        tokens.update((one.nodeId.host, one.token) for one in answer.nm_tokens)
        for container in answer.allocated_containers:
            host, port = container.nodeId.host, container.nodeId.port
            async with NmClient(host, port, tokens[host]) as node:
                await node.start(container, "emulated 1")
            kinds[container_id(container.id)] = container.execution_type
        for status in answer.completed_container_statuses:
            assert container_id(status.container_id) not in ended
            ended[container_id(status.container_id)] = status.exit_status
        await asyncio.sleep(0.2)
    return kinds, ended


async def work(rm: Running, nodes: EmulatedNodes) -> None:
    began: dict[str, float] = {}
    done: dict[str, float] = {}
    nodes.umbilical = lambda name, kind, now_s: (began if kind == "began" else done).__setitem__(name, now_s)
    await nodes.start(NODES, rm.addresses.tracker)
    await until_running(rm, NODES)
    async with RmClient(*rm.addresses.client, user="bench") as client:
        token = await client.am_rm_token(await client.submit_unmanaged())
    async with AmClient(*rm.addresses.scheduler, token) as master:
        await master.register()
        kinds, ended = await run_all(master)
        await master.finish()
    assert sorted(kinds) == sorted(ended)
    assert sorted(kinds.values()) == [y.GUARANTEED] * EACH + [y.OPPORTUNISTIC] * EACH
    assert all(ended[name] == 0 for name, kind in kinds.items() if kind == y.GUARANTEED)
    assert set(ended.values()) <= {0, -108}  # an opportunistic one may have made room, or been shed
    assert done.keys() == {name for name, status in ended.items() if status == 0}
    assert all(0.999 <= done[name] - began[name] < 30 for name in done)
    counts: NmCounts = nodes.counts()
    assert counts.succeeded == len(done) and counts.started == len(began)
    assert counts.killed_for_room + counts.shed + counts.queue_full == 2 * EACH - len(done)
    assert nodes.tally.processes == nodes.tally.missed == 0 and not nodes.tally.refused
    assert max(sample.used_slots for sample in nodes.samples) <= NODES * SLOTS


def test_guaranteed_and_opportunistic_containers_run_to_their_end(tmp_path: Path) -> None:
    port = free_base_port(nodes=1)

    async def go() -> None:
        shape, options = NodeShape(SLOTS, 1024 * SLOTS), RmOptions(base_port=port, yarn=OPPORTUNISTIC, java=())
        async with asyncio.timeout(240), resource_manager(tmp_path / "rm", shape, options) as rm:
            nodes = EmulatedNodes(
                NodeSettings(vcores=SLOTS, memory_mb=1024 * SLOTS, max_queue_length=10, port=port + 100)
            )
            try:
                await work(rm, nodes)
            finally:
                await nodes.stop()

    asyncio.run(go())
