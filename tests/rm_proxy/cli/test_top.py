"""`quicksilver top`: its keys, its frame, and the program on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from rich.console import Console

from policies.model import NodeView, QueueView, Resources
from quicksilver.cli import cli
from rm_proxy.cli.top import keys
from rm_proxy.cli.top_view import TABLES, TopState, frame, pressed, rows, sorted_by
from rm_proxy.views.application_models import ApplicationEntry
from rm_proxy.views.cluster_models import ListPage, NodeInfo, QueueInfo
from rm_proxy.views.history_models import DelayFigures, Summary
from rm_proxy.views.service_models import Health
from tests.answers import answering

NODES = [
    NodeInfo.of(NodeView(f"n{n}:1", f"n{n}", capacity=Resources(4096, 4), used_g=Resources(1024, 1), queued_s=float(n)))
    for n in range(1, 41)
]
APPS = [ApplicationEntry(id=f"application_1_{n:04d}", name=f"job{n}", live_q=n, wanted_q=n % 3) for n in range(1, 6)]
HEALTH = Health(
    status="degraded", version="1", started_s=1, mode="active", listen="a:1", upstream="a:2", rm_web="http://a",
    rm_reachable=True, nodes=40, nodes_usable=39, connections=1, attempts=1, problems=["the store is out"],
)  # fmt: skip
SUMMARY = Summary(
    since_s=0, app_id=None, guaranteed=1, queueable=2, nodes=[], events={},
    allocation_g=DelayFigures(count=1, p50_s=1.25, p95_s=1.25),
    allocation_q=DelayFigures(count=19, waiting=17, p50_s=0.004, p95_s=62.0), queueing=DelayFigures(count=0),
)  # fmt: skip


def page(items: Any) -> str:
    return ListPage[Any](items=items, offset=0, more=False).model_dump_json()


ANSWERS = {
    "/v1/nodes": page(NODES),
    "/v1/queues": page([QueueInfo.of(QueueView("root.a", Resources(4096, 4)))]),
    "/v1/applications": page(APPS),
    "/v1/health": HEALTH.model_dump_json(),
    "/v1/summary": SUMMARY.model_dump_json(),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with answering(lambda method, target, _: (200, ANSWERS[urlsplit(target).path])) as url:
        yield url


@pytest.fixture(scope="module")
def picture(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(CliRunner().invoke(cli, ["top", "--json", "--url", url]).output)
    return found


def shown(picture: dict[str, Any], state: TopState, height: int = 30) -> list[str]:
    console = Console(width=160, height=height, record=True, file=StringIO())
    console.print(frame(picture, state, height))
    return console.export_text().rstrip("\n").splitlines()


def test_the_picture_has_sums(picture: dict[str, Any]) -> None:
    totals = picture["totals"]
    assert totals["capacity"] == {"memory_mb": 40 * 4096, "vcores": 160} and totals["used_g"]["memory_mb"] == 40 * 1024
    assert (totals["live_q"], totals["wanted_q"], totals["applications"]) == (15, 6, 5)


def test_the_overview_fills_the_screen_and_no_more(picture: dict[str, Any]) -> None:
    for height in (24, 30, 60):
        lines = shown(picture, TopState(), height)
        text = "\n".join(lines)
        assert len(lines) <= height, (height, text)
        assert (
            "degraded" in text
            and "problem: the store is out" in text
            and "G p50 1.250 s, p95 1.250 s; Q p50 0.004 s, p95 62.000 s (17 still wait)" in text
        )
        assert "applications: 5" in text and "nodes: 40" in text and "queues: 1" in text
        assert "G 40960, Q 0 of 163840 MB" in text and "[##########.............................." in text


@pytest.mark.parametrize("width", [80, 100, 130, 160])
def test_no_title_and_no_name_is_cut(picture: dict[str, Any], width: int) -> None:
    nodes = [NODES[0].model_copy(update={"id": f"127.0.0.1{n}:18100", "why_unusable": "w" * 60}) for n in range(3)]
    more = {"type": "MAPREDUCE", "user": "hadoop", "queue": "root.default", "name": "n" * 40, "live_q": 8}
    apps = [APPS[0].model_copy(update={"id": "application_1795634278736_0015", **more})]
    seen = picture | {"nodes": [n.model_dump() for n in nodes], "applications": [a.model_dump() for a in apps]}
    console = Console(width=width, height=40, record=True, file=StringIO())
    console.print(frame(seen, TopState(), 40))
    text = console.export_text()
    lines = text.splitlines()
    titles = [line for line in lines if line.startswith(("application ", "node ", "queue "))]
    assert len(titles) == 3 and not any("…" in line for line in titles), text
    assert "application_1795634278736_0015" in text and "127.0.0.12:18100" in text, text
    assert all("alloc. Q" in line and "pending Q" in line for line in titles[:1]), text
    assert ("MAPREDUCE" in text and "root.default" in text) or width < 130, text


def test_keys_choose_tables_orders_and_rows(picture: dict[str, Any]) -> None:
    nodes = pressed(TopState(), "n")
    assert nodes.alone and TABLES[nodes.focus].items == "nodes"
    assert [item["id"] for item in rows(picture, nodes, TABLES[1])][:2] == ["n40:1", "n39:1"]
    turned = pressed(nodes, "r")
    assert sorted_by(turned, TABLES[1]) == "queued_s" and rows(picture, turned, TABLES[1])[0]["id"] == "n1:1"
    assert sorted_by(pressed(nodes, "s"), TABLES[1]) == "-queue_length"
    assert sorted_by(pressed(nodes, "S"), TABLES[1]) == "id"
    lower = pressed(pressed(nodes, "down"), "j")
    assert lower.offset == 2 and pressed(lower, "g").offset == 0 and pressed(TopState(), "k").offset == 0
    assert any("nodes: 40, 3 to" in line for line in shown(picture, lower))
    assert pressed(TopState(), "tab").focus == 1 and not pressed(nodes, "o").alone
    assert pressed(TopState(), "+").every_s == 1.0 and pressed(TopState(every_s=60.0), "-").every_s == 60.0
    assert pressed(TopState(), " ").paused and pressed(TopState(), "q").over and pressed(TopState(), "x") == TopState()
    assert "pause" in "\n".join(shown(picture, pressed(TopState(), "?")))


def test_what_a_terminal_sends_is_taken_apart() -> None:
    assert keys(b"n\x1b[A\x1bOB\tq") == ["n", "up", "down", "tab", "q"]
    assert keys(b"s\x1b[15~") == ["s"] and keys(b"") == []


def test_once_prints_everything_without_a_terminal(url: str) -> None:
    result = CliRunner().invoke(cli, ["top", "--url", url])
    assert result.exit_code == 0 and all(f"{node.id} " in result.output for node in NODES)
    wrong = CliRunner().invoke(cli, ["top", "--view", "nodes", "--sort", "waiting", "--url", url])
    assert wrong.exit_code == 2 and "nodes cannot be ordered by 'waiting'; known: queued_s" in wrong.stderr


def test_a_terminal_shows_it_and_is_as_before_afterwards(url: str) -> None:
    """Keys pressed on a real pseudo terminal change the screen; q ends it."""
    pid, terminal = pty.fork()
    if pid == 0:  # the child: nothing of this process' state is used but its arguments
        os.execve(
            sys.executable,
            [sys.executable, "-m", "quicksilver", "top", "--every", "0.5", "--url", url],
            {**os.environ, "TERM": "xterm"},
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    before = termios.tcgetattr(terminal)
    try:
        wait_for(terminal, "applications: 5")
        os.write(terminal, b"n")
        wait_for(terminal, "n40:1")
        os.write(terminal, b"r")
        wait_for(terminal, "by queued_s")
        os.write(terminal, b"q")
        end = time.monotonic() + 20
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            assert time.monotonic() < end
            read(terminal, 0.1)
        assert termios.tcgetattr(terminal)[:4] == before[:4]
    finally:
        os.close(terminal)


def read(terminal: int, wait_s: float) -> str:
    if not select.select([terminal], [], [], wait_s)[0]:
        return ""
    try:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(terminal, 65536).decode(errors="replace"))
    except OSError:
        return ""


def wait_for(terminal: int, text: str) -> None:
    found, end = "", time.monotonic() + 60
    while text not in found:
        assert time.monotonic() < end, found[-2000:]
        found += read(terminal, 0.5)
