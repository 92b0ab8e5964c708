"""How many modules a message passes on its way through the proxy; they may only become fewer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import Any, Final, NamedTuple

from hadoop_rpc.connection import AM_PROTOCOL, Call
from hadoop_rpc.protos import yarn_pb2 as y
from tests.model.wire import Wire
from tests.rm_proxy.yarn_messages import ALL_Q, container, coordinator, granted_rows, node_id, report, row

PACKAGES: Final = ("hadoop_rpc", "policies", "rm_proxy", "quicksilver")


class Passed(NamedTuple):
    """Modules that were entered, and changes from one to another."""

    modules: int
    changes: int


# Of a new process: in one that ran other tests, more is cached already.
LIMITS: Final = {
    "empty heartbeat, up": Passed(9, 14),
    "empty heartbeat, down": Passed(9, 10),
    "two containers that no rule makes queueable": Passed(25, 75),
    "report of a sidecar": Passed(11, 17),
    "two containers asked for, default preset": Passed(41, 177),  # nodes that changed are ranked, the others not seen
    "two containers asked for, placed at once": Passed(41, 186),
    "two containers granted": Passed(37, 176),
}


@contextmanager
def passed(taken: dict[str, Passed], leg: str) -> Iterator[None]:
    entered: list[str] = []

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.partition(".")[0] in PACKAGES:
            entered.append(name)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)
    taken[leg] = Passed(len(set(entered)), sum(1 for one, next_one in pairwise(entered) if one != next_one))


class Master:
    """An application master that calls on and on, and what its calls pass."""

    def __init__(self, policies: dict[str, Any]) -> None:
        self.world = coordinator(policies)
        self.wire, self.response_id = Wire(self.world), 0
        self.world.grants.granted()  # the first grant is noted
        self.register()
        self.beat(row("*", 1, priority=10))  # what is made once is made
        for _ in range(3):
            self.beat(row("*", 0, priority=10))

    def request(self, *rows: y.ResourceRequestProto) -> bytes:
        return self.wire.client.call(
            "allocate", AM_PROTOCOL, y.AllocateRequestProto(response_id=self.response_id, ask=rows)
        )

    def answer(self, call: object, *allocated: y.ContainerProto) -> bytes:
        assert isinstance(call, Call)
        self.response_id += 1
        body = y.AllocateResponseProto(
            response_id=self.response_id, num_cluster_nodes=3, allocated_containers=allocated
        )
        return self.wire.server.response(call, body)

    def register(self) -> None:
        (call,) = self.wire.up(
            self.wire.client.call("registerApplicationMaster", AM_PROTOCOL, y.RegisterApplicationMasterRequestProto())
        )
        assert isinstance(call, Call)
        self.wire.down(self.wire.server.response(call, y.RegisterApplicationMasterResponseProto()))

    def beat(self, *rows: y.ResourceRequestProto) -> None:
        (call,) = self.wire.up(self.request(*rows))
        self.wire.down(self.answer(call))


def test_no_message_passes_more_modules_than_before() -> None:
    taken: dict[str, Passed] = {}
    master = Master({})
    request = master.request()
    with passed(taken, "empty heartbeat, up"):
        (call,) = master.wire.up(request)
    answer = master.answer(call)
    with passed(taken, "empty heartbeat, down"):
        master.wire.down(answer)
    request = master.request(row("*", 2))
    with passed(taken, "two containers that no rule makes queueable"):
        master.wire.up(request)
    with passed(taken, "report of a sidecar"):
        master.world.reports.report(node_id(1), report(1, seq=2), 1.0)

    master = Master({"preset": "default"})
    request = master.request(row("*", 2))
    with passed(taken, "two containers asked for, default preset"):
        master.wire.up(request)

    master = Master(dict(ALL_Q))
    request = master.request(row("*", 2))
    with passed(taken, "two containers asked for, placed at once"):
        (call,) = master.wire.up(request)
    assert isinstance(call, Call)
    rows = granted_rows(y.AllocateRequestProto.FromString(call.body).ask).values()
    answer = master.answer(call, *(container(number, 1, asked) for number, asked in enumerate(rows, 1)))
    with passed(taken, "two containers granted"):
        master.wire.down(answer)

    assert taken.keys() == LIMITS.keys() and len(rows) == 2
    above = {
        leg: now for leg, now in taken.items() if now.modules > LIMITS[leg].modules or now.changes > LIMITS[leg].changes
    }
    assert above == {}, "give the new code a place off this way, or a reason here"
