"""Master keys that pass through the relay: seen, sent to the proxies, and in no text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from hadoop_rpc.protos import yarn_server_pb2 as s
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_errors import UnreachableError
from sidecar.tracker import key_sender
from sidecar.tracker.key_sender import KeySender, message_of
from sidecar.tracker.relay import ContainerSize, NodeKeysSeen, NodeMasterKey, Registered, TrackerRelay
from tests.sidecar.tracker.test_relay import Talk, heartbeat, register, resource

CONTAINER, NM = NodeMasterKey(-7, b"12345678"), NodeMasterKey(9, b"abcdefgh")
RM = 1_700_000_000_000
SEEN = NodeKeysSeen("node1:8041", CONTAINER, NM, RM)


def registered(rm: int = RM, container: NodeMasterKey = CONTAINER) -> s.RegisterNodeManagerResponseProto:
    return s.RegisterNodeManagerResponseProto(
        container_token_master_key=s.MasterKeyProto(key_id=container.key_id, bytes=container.secret),
        nm_token_master_key=s.MasterKeyProto(key_id=NM.key_id, bytes=NM.secret),
        rm_identifier=rm,
    )


def beat(container: NodeMasterKey = CONTAINER) -> s.NodeHeartbeatRequestProto:
    request = heartbeat()
    request.node_status.node_id.host, request.node_status.node_id.port = "node1", 8041
    request.last_known_container_token_master_key.CopyFrom(
        s.MasterKeyProto(key_id=container.key_id, bytes=container.secret)
    )
    request.last_known_nm_token_master_key.CopyFrom(s.MasterKeyProto(key_id=NM.key_id, bytes=NM.secret))
    return request


def test_keys_are_seen_at_registration_and_when_they_roll_and_pass_unchanged() -> None:
    talk = Talk(TrackerRelay(ContainerSize(), keys=True))
    call = talk.ask("registerNodeManager", register(resource(8192, 8)))
    answer = registered()
    assert talk.answer(call, answer).body == answer.SerializeToString()
    assert talk.notes == [SEEN]
    sent = beat()
    assert talk.ask("nodeHeartbeat", sent).body == sent.SerializeToString()
    assert talk.notes == []
    rolled = NodeMasterKey(-6, b"87654321")
    talk.ask("nodeHeartbeat", beat(rolled))
    assert talk.notes == [NodeKeysSeen("node1:8041", rolled, NM, RM)]


def test_a_relay_that_saw_no_registration_knows_the_keys_of_the_heartbeat() -> None:
    talk = Talk(TrackerRelay(ContainerSize(), keys=True))
    talk.ask("nodeHeartbeat", beat())
    assert talk.notes == [NodeKeysSeen("node1:8041", CONTAINER, NM, 0)]


def test_nothing_is_watched_unless_it_is_wanted() -> None:
    talk = Talk(TrackerRelay(ContainerSize()))
    call = talk.ask("registerNodeManager", register(resource(8192, 8)))
    talk.answer(call, registered())
    assert not any(isinstance(note, NodeKeysSeen) for note in talk.notes)
    talk.ask("nodeHeartbeat", beat())
    assert talk.notes == []


def test_a_node_that_was_refused_has_no_keys() -> None:
    talk = Talk(TrackerRelay(ContainerSize(1024, 1), keys=True))
    call = talk.ask("registerNodeManager", register(resource(8192, 8)))
    assert [type(note) for note in talk.notes] == [Registered]
    talk.answer(call, s.RegisterNodeManagerResponseProto(nodeAction=s.SHUTDOWN))
    assert talk.notes == []


@dataclass
class Proxy:
    """Stands for the client of proxies: what was posted, and what is refused."""

    posted: list[tuple[str, str]] = field(default_factory=list)
    refusal: str = ""
    retriable: bool = True
    calls: int = 0

    async def post(self, url: str, body: BaseModel) -> Any:
        self.calls += 1
        if self.refusal:
            raise UnreachableError(self.refusal) if self.retriable else QuicksilverError(self.refusal)
        self.posted.append((url, body.model_dump_json()))

    async def close(self) -> None:
        self.posted.append(("closed", ""))


@asynccontextmanager
async def sending(proxy: Proxy) -> AsyncIterator[KeySender]:
    """Yield a sender that runs, and end it."""
    sender = KeySender(["http://p:1"], cast(AsyncRestClient, proxy))
    task = asyncio.create_task(sender.run())
    yield sender
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the sender has its own clock
            await asyncio.sleep(0.01)


async def test_keys_are_sent_at_once_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sender, "EVERY_S", 0.05)
    proxy = Proxy()

    async with sending(proxy) as sender:
        sender.report(SEEN)
        await until(lambda: len(proxy.posted) >= 2)
    assert proxy.posted[0] == ("http://p:1/v1/nodes/node1:8041/keys", message_of(SEEN).model_dump_json())
    assert '"secret":"MTIzNDU2Nzg="' in proxy.posted[0][1] and f'"rm_identifier":{RM}' in proxy.posted[0][1]
    assert proxy.posted[-1] == ("closed", "")


async def test_a_proxy_that_refuses_is_tried_again_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sender, "AGAIN_S", 0.02)
    proxy = Proxy(refusal="own grants are off")

    with capture_logs() as logs:
        async with sending(proxy) as sender:
            sender.report(SEEN)
            await asyncio.sleep(0.2)
            proxy.refusal = ""
            await until(lambda: bool(proxy.posted))
    assert [line["log_level"] for line in logs] == ["warning", "info"]
    assert "12345678" not in str(logs) and "MTIzNDU2Nzg" not in str(logs)


async def test_a_proxy_that_takes_no_keys_is_not_asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sender, "AGAIN_S", 0.01)
    proxy = Proxy(refusal="own grants are off", retriable=False)

    async with sending(proxy) as sender:
        sender.report(SEEN)
        await asyncio.sleep(0.2)
    assert proxy.calls == 1


async def test_news_do_not_make_the_sender_repeat_itself_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sender, "EVERY_S", 0.2)
    proxy = Proxy()

    async with sending(proxy) as sender:
        for number in range(5):
            before = proxy.calls
            sender.report(NodeKeysSeen("node1:8041", NodeMasterKey(number, b"x" * 8), NM, RM))
            await until(lambda before=before: proxy.calls > before)  # type: ignore[misc]
        await asyncio.sleep(0.5)
    assert proxy.calls <= 5 + 3


def test_the_start_of_the_resourcemanager_is_remembered_over_connections() -> None:
    sender = KeySender([], cast(AsyncRestClient, Proxy()))
    sender.report(SEEN)
    sender.report(NodeKeysSeen("node1:8041", CONTAINER, NM, 0))
    assert sender._seen["node1:8041"] == SEEN
    other = NodeKeysSeen("node1:8041", NodeMasterKey(1, b"x" * 8), NM, 0)
    sender.report(other)
    assert sender._seen["node1:8041"] == other, "another ResourceManager's"


def test_no_secret_shows_in_text() -> None:
    for text in (repr(SEEN), repr(message_of(SEEN)), str(message_of(SEEN).model_dump())):
        assert "12345678" not in text and "MTIzNDU2Nzg" not in text
