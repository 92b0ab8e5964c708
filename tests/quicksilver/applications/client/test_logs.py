"""Logs, as NodeManagers and log servers answer with them."""

from __future__ import annotations

from quicksilver.applications.client.logs import Source, Tail, parsed, sources_of

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
    assert sources_of({"services": [{"name": "w", "instances": instances}]}) == [
        Source("w", 0, "container_1", "http://node:8042")
    ]
