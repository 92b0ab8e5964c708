"""Reports over TLS: the certificate that opened the connection counts as long as it is open, and until it expires."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.types import Scope

from quicksilver.common.http import certs
from quicksilver.common.http.access import Side, check_url, protect
from quicksilver.common.http.connection import NAMES
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.http.rest_server import install_error_handlers, serve
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import Ack, Report
from quicksilver.common.process.listening import bound_socket
from rm_proxy.api.report_connections import ReportConnections, ReportUpgrade
from sidecar.service.report_line import KeptLine, RestLine


def report(seq: int, node: str = "node1", url: str = "https://node1:8391") -> Report:
    return Report(node_id=f"{node}:8041", boot="b", seq=seq, sidecar_url=url, memory_mb=1, vcores=1)


def security(folder: Path, stem: str) -> Security:
    pair = certs.pair_of(folder, stem)
    return Security(SecuritySettings(tls_cert=pair.certificate, tls_key=pair.key, tls_ca=folder / "ca.crt"))


class Proxy:
    """A proxy that knows its sidecars by their certificates."""

    def __init__(self, folder: Path) -> None:
        certs.make_ca(folder, "c")
        for stem, names in (("proxy", ["127.0.0.1"]), ("node1", ["node1"])):
            certs.make_certificate(folder, stem, names)
        self.security = security(folder, "proxy")
        self.seqs: list[int] = []
        self.connections = ReportConnections(self.handle, lambda node_id: True)
        self.app = FastAPI()
        install_error_handlers(self.app)
        self.app.add_middleware(ReportUpgrade, connections=self.connections)
        protect(self.app, self.security, Side(True, True), lambda reason: None)
        self.app.post("/v1/nodes/{node_id}/report")(self.posted)

    def handle(self, node_id: str, report: Report, scope: Scope) -> Ack:
        check_url(report.sidecar_url, node_id, scope[NAMES])
        self.seqs.append(report.seq)
        return Ack(events_to=0)

    async def posted(self, node_id: str, report: Report) -> Ack:
        pytest.fail("it took the other way")

    @asynccontextmanager
    async def line(self, client: Security) -> AsyncIterator[KeptLine]:
        sock = bound_socket("127.0.0.1", 0)
        url, credentials = f"https://127.0.0.1:{sock.getsockname()[1]}", client.credentials(Role.NODE)
        task = asyncio.create_task(serve(self.app, sock, tls=self.security.server))
        line = KeptLine(RestLine(url, 10.0, credentials), 10.0, credentials)
        try:
            yield line
        finally:
            await line.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_certificate_opens_the_connection_of_its_host_alone(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path)

    async with proxy.line(security(tmp_path, "node1")) as line:
        await line.post(report(1))
        await line.post(report(2))
        with pytest.raises(RefusedError, match="is not of the host"):
            await line.post(report(3, url="https://node2:8391"))
        with pytest.raises(RefusedError, match="names node1, not the host of node2"):
            await line.post(report(4, node="node2"))
    assert proxy.seqs == [1, 2]


async def test_the_connection_ends_when_the_certificate_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, now_s = Proxy(tmp_path), time.time

    async with proxy.line(security(tmp_path, "node1")) as line:
        await line.post(report(1))
        proxy.security.reload()
        proxy.connections.round()
        assert len(proxy.connections) == 1
        monkeypatch.setattr("time.time", lambda: now_s() + 10 * 365 * 86400)
        proxy.connections.round()
        assert len(proxy.connections) == 0
        monkeypatch.undo()
        await line.post(report(2))
    assert proxy.seqs == [1, 2]
