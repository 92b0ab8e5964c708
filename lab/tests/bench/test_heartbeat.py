"""The load generator's bytes are those of a real client, and it takes nothing but the right answer for one."""

import pytest

from hadoop_rpc.connection import AM_PROTOCOL, AUTH_SASL, Call, ClientConnection, ServerConnection
from hadoop_rpc.protos.yarn_pb2 import AllocateRequestProto, AllocateResponseProto, ContainerProto, ResourceProto
from quicksilver_lab.bench.load.heartbeat import beat, is_plain_answer

CLIENT = ClientConnection(client_id=b"sixteen bytes ok")
NUMBERS = (0, 1, 63, 64, 127, 128, 300, 16383, 16384, 2_000_000)


def received(number: int) -> tuple[ServerConnection, Call]:
    server, expected = ServerConnection(), beat(number)
    server.receive_data(CLIENT.preamble(AUTH_SASL))
    [call] = server.receive_data(expected.head + CLIENT.client_id + expected.tail)
    assert isinstance(call, Call)
    return server, call


@pytest.mark.parametrize("number", NUMBERS)
def test_beat_is_an_empty_allocate(number: int) -> None:
    _, call = received(number)
    assert (call.call_id, call.client_id, call.protocol, call.method) == (
        number,
        CLIENT.client_id,
        AM_PROTOCOL,
        "allocate",
    )
    request = AllocateRequestProto.FromString(call.body)
    assert request.response_id == number and request.HasField("blacklist_request")
    assert not (request.ask or request.release or request.blacklist_request.blacklist_additions)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("nodes", (0, 1))
def test_an_answer_counts_only_whole_and_in_turn(number: int, nodes: int) -> None:
    server, call = received(number)
    limit = ResourceProto(memory=1 << 20, virtual_cores=8)
    answer = AllocateResponseProto(response_id=number + 1, limit=limit, num_cluster_nodes=nodes)
    answer.allocated_containers.extend(ContainerProto() for _ in range(70 * nodes))  # the length takes two bytes
    raw = server.response(call, answer)
    assert is_plain_answer(raw, beat(number))
    assert not is_plain_answer(raw[:-1], beat(number))
    assert not is_plain_answer(raw + b"\0", beat(number))
    assert not is_plain_answer(raw, beat(number + 1))


def test_failures_and_repetitions_need_a_closer_look() -> None:
    server, call = received(7)
    assert not is_plain_answer(server.error(call, "java.io.IOException", "no"), beat(7))
    assert not is_plain_answer(server.response(call, AllocateResponseProto(response_id=7)), beat(7))
    assert not is_plain_answer(b"", beat(7))
