"""The aux services' data (the shuffle port) of one NodeManager process is not that of the next one."""

from __future__ import annotations

from hadoop_rpc.connection import Call
from hadoop_rpc.protos import yarn_pb2 as y
from sidecar.gate.container_calls import ServicesMeta
from sidecar.gate.events import GateDecided, UpstreamClosed
from sidecar.gate.gate import Gate
from tests.sidecar.fakes import cid, start_request, starts
from tests.sidecar.gate.test_gate import Talk


class Process:
    """A NodeManager process with a shuffle port of its own."""

    def __init__(self, services: ServicesMeta, port: int) -> None:
        self.services, self.port, self.asked = services, port, 0

    def connect(self) -> Talk:
        """Return an application master's connection, with its login done."""
        talk = Talk()
        talk.gate = Gate(talk.holding, self.services)
        talk.login()
        return talk

    def start(self, talk: Talk, serial: int, *, hold: bool) -> int:
        """Return the port that the application master is told for a start."""
        talk.call("startContainers", starts(start_request(cid(serial), opportunistic=hold)))
        talk.tell(GateDecided(cid(serial), hold=hold))
        for call in talk.arrived():
            assert isinstance(call, Call)
            self.asked += 1
            answer = y.StartContainersResponseProto()
            answer.services_meta_data.add(key="mapreduce_shuffle", value=self.port.to_bytes(4, "big"))
            talk.answer(talk.server.response(call, answer))
        (heard,) = talk.heard()
        response = y.StartContainersResponseProto.FromString(heard.body)  # type: ignore[attr-defined]
        return int.from_bytes(response.services_meta_data[0].value, "big")


def test_it_is_asked_for_again_after_the_end_of_a_connection() -> None:
    services = ServicesMeta()
    before, after = Process(services, 13562), Process(services, 18562)
    first = before.connect()
    assert before.start(first, 2, hold=False) == 13562
    assert before.start(before.connect(), 3, hold=True) == 13562
    assert before.asked == 1
    first.tell(UpstreamClosed())
    assert after.start(after.connect(), 4, hold=True) == 18562
    assert after.start(after.connect(), 5, hold=True) == 18562
    assert after.asked == 1


def test_a_connection_whose_end_is_not_noticed_teaches_nothing() -> None:
    """Its client does not read, so nobody reads it; the silent connection tells that the process ended."""
    services = ServicesMeta()
    before, after = Process(services, 13562), Process(services, 18562)
    stuck = before.connect()
    services.forget()
    assert before.start(stuck, 2, hold=False) == 13562  # what was on its way
    assert after.start(after.connect(), 3, hold=True) == 18562
    assert before.start(stuck, 4, hold=True) == 13562
    stuck.tell(UpstreamClosed())
    assert after.start(after.connect(), 5, hold=True) == 18562
    assert after.asked == 1


def test_a_connection_that_was_made_before_the_end_and_reached_the_next_process() -> None:
    services = ServicesMeta()
    before, after = Process(services, 13562), Process(services, 18562)
    first = before.connect()
    before.start(first, 2, hold=False)
    waiting = Talk()
    waiting.gate = Gate(waiting.holding, services)
    first.tell(UpstreamClosed())
    waiting.login()
    assert after.start(waiting, 3, hold=True) == 18562
