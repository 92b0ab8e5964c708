"""Calls at whichever ResourceManager answers."""

from __future__ import annotations

import asyncio

import pytest

from hadoop_rpc.connection import Failure
from hadoop_rpc.protos import yarn_client_pb2 as c
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver.common.address import Address
from quicksilver_apps.client.errors import ClientError, SubmissionRefusedError
from quicksilver_apps.client.rm import Rm, id_of, name_of, one_line
from quicksilver_apps.yarn.yarn_client import RemoteCallError, RmClient

ADDRESSES = (Address("rm1", 1), Address("rm2", 2))
REFUSAL = "org.apache.hadoop.yarn.exceptions.YarnException: java.lang.X: Queue q is full\n\tat Y"


def failed(name: str, text: str = "") -> RemoteCallError:
    failure = Failure(1, f"org.apache.hadoop.{name}", text, False, 0, b"")
    return RemoteCallError("submitApplication", failure)


class Client(RmClient):
    """A ResourceManager without a wire; what it does next is in `script`, an answer or an error to raise."""

    def __init__(self, address: Address, script: list[object], calls: list[str]) -> None:
        super().__init__(address.host, address.port, user="a")
        self.host, self.script, self.calls = address.host, script, calls

    async def connect(self) -> None:
        self.calls.append(f"dial {self.host}")
        if self.host == "rm1":
            raise ConnectionRefusedError("refused")

    async def close(self) -> None:
        self.calls.append(f"close {self.host}")

    async def call(self, method: str, parameter: object, result: object) -> object:  # type: ignore[override]
        step = self.script.pop(0)
        self.calls.append(method)
        if isinstance(step, BaseException):
            raise step
        return step


def rm(*script: object, patience_s: float = 5.0) -> tuple[Rm, list[str]]:
    steps, calls = list(script), list[str]()
    return Rm(ADDRESSES, lambda address: Client(address, steps, calls), patience_s), calls


def reported(state: int, diagnostics: str = "") -> c.GetApplicationReportResponseProto:
    made = c.ApplicationReportProto(yarn_application_state=state, diagnostics=diagnostics, queue="root.q")  # type: ignore[arg-type]
    return c.GetApplicationReportResponseProto(application_report=made)


def test_a_broken_connection_is_dialed_again_and_the_call_repeated() -> None:
    link, calls = rm(ConnectionResetError(), failed("ipc.StandbyException"), c.SubmitApplicationResponseProto())
    asyncio.run(link.submit(c.ApplicationSubmissionContextProto()))
    assert [each for each in calls if each.startswith("dial")].count("dial rm2") == 3
    assert calls.count("submitApplication") == 3
    assert link.address == ADDRESSES[1]


def test_nobody_answers() -> None:
    link, _ = rm(*(ConnectionResetError("gone"),) * 99, patience_s=0.0)
    with pytest.raises(ClientError, match=r"rm1:1, rm2:2: no ResourceManager answers \(.*\).*HADOOP_CONF_DIR"):
        asyncio.run(link.new_id())


def test_a_refusal_has_its_reason() -> None:
    link, _ = rm(failed("yarn.exceptions.YarnException", REFUSAL))
    with pytest.raises(SubmissionRefusedError, match=r"^rm2:2: YarnException: Queue q is full$"):
        asyncio.run(link.submit(c.ApplicationSubmissionContextProto()))


def test_accepted_waits_for_the_scheduler() -> None:
    link, calls = rm(reported(c.NEW_SAVING), reported(c.SUBMITTED), reported(c.ACCEPTED))
    assert asyncio.run(link.accepted(id_of("application_1_0001"))).queue == "root.q"
    assert calls.count("getApplicationReport") == 3
    refused, _ = rm(reported(c.SUBMITTED), reported(c.FAILED, REFUSAL))
    with pytest.raises(SubmissionRefusedError, match=r"^rm2:2: Queue q is full$"):
        asyncio.run(refused.accepted(id_of("application_1_0001")))


def test_kill_asks_until_it_is_dead() -> None:
    alive, dead = (c.KillApplicationResponseProto(is_kill_completed=done) for done in (False, True))
    link, calls = rm(alive, dead)
    assert asyncio.run(link.kill(id_of("application_1_0001"), "why"))
    assert calls.count("forceKillApplication") == 2
    slow, _ = rm(alive, alive)
    assert not asyncio.run(slow.kill(id_of("application_1_0001"), "why", patience_s=0.0))
    foreign, _ = rm(failed("security.AccessControlException", "User b cannot"))
    with pytest.raises(ClientError, match=r"AccessControlException: User b cannot; ask the user"):
        asyncio.run(foreign.kill(id_of("application_1_0001"), "why"))


def test_names() -> None:
    assert name_of(y.ApplicationIdProto(cluster_timestamp=17, id=3)) == "application_17_0003"
    assert name_of(id_of("application_17_12345")) == "application_17_12345"
    assert one_line("") == "no reason was given"
