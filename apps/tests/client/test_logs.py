"""Logs, as NodeManagers and log servers answer with them."""

from __future__ import annotations

import pytest

from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.logs.logs import LogPlace, Tail, check_container, node_url_of, parsed, sources_of

HEAD = b"""Container: container_1_1_01_000002 on node:1
LogAggregationType: LOCAL
=====================================================================
LogType:stdout
LogLastModifiedTime:Wed Nov 25 03:49:46 +0000 2026
"""
FOOT = b"End of LogType:stdout.This log file belongs to a running container\n****\n\n"


def answer(length: int, body: bytes) -> bytes:
    return HEAD + f"LogLength:{length}\nLogContents:\n".encode() + body + FOOT


def test_the_foot_is_no_part_of_a_log() -> None:
    assert parsed(answer(5, b"a\nb\n\n"), 100) == Tail(b"a\nb\n\n", 5)
    assert parsed(answer(5, b"\nb"), 2) == Tail(b"\nb", 5)
    assert parsed(answer(0, b"\n"), 10) == Tail(b"", 0)


def test_a_log_may_hold_what_a_head_holds() -> None:
    body = b"LogContents:\nLogLength:7\n"
    assert parsed(answer(len(body), body), 100) == Tail(body, len(body))


def test_an_answer_without_a_log() -> None:
    assert parsed(b"Can not find logs for container:container_1", 10) is None


def test_containers_of_an_application() -> None:
    instances = [
        {"index": 0, "container_id": "container_1", "log_url": "http://node:8042/node/containerlogs/container_1/a"},
        {"index": 1, "container_id": "", "log_url": ""},
    ]
    application = {"services": [{"name": "w", "instances": instances}]}
    assert sources_of(application, ["node:8042"], "https") == [LogPlace("w", 0, "container_1", "https://node:8042")]
    assert sources_of(application, ["other:8042"], "http") == [LogPlace("w", 0, "container_1", "")]


@pytest.mark.parametrize("url", ["", "http://[x", "http://a@node:8042/x", "//node:8043", "node:8042"])
def test_an_address_that_yarn_does_not_know(url: str) -> None:
    assert node_url_of(url, ["node:8042"], "http") == ""


@pytest.mark.parametrize("other", ["container_2_1_01_000002", "container_1_1_01_000002/..", "../x", "", "container_1"])
def test_a_container_of_another_application(other: str) -> None:
    check_container("container_1_1_01_000002", "application_1_1")
    check_container("container_e17_1_0001_01_000002", "application_1_0001")
    with pytest.raises(ClientError, match="is no container of application_1_1"):
        check_container(other, "application_1_1")
