"""A web server that wants SPNEGO, and a keytab; the real library and KDC: tests/real/test_kerberos_cluster.py."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import requests

from quicksilver.common.errors import SettingsError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.rest_client import RestClient, rest_session
from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from quicksilver.common.kerberos import gssapi, keytab, login
from quicksilver.common.kerberos.gssapi import KerberosError
from quicksilver.common.kerberos.keytab import Keytab
from quicksilver.common.kerberos.login import LoginFailedError, Negotiate

OURS, THEIRS = b"our token", b"their token"
NEGOTIATE = f"Negotiate {base64.b64encode(THEIRS).decode()}"
KEYTAB = Keytab("quicksilver@TEST", Path("/secret/quicksilver.keytab"))


class Server(ThreadingHTTPServer):
    """Wants a login, then knows the client by a cookie; `proof` is what it shows for itself."""

    def __init__(self) -> None:
        self.proof, self.refuses = NEGOTIATE, False
        self.asked: list[tuple[str, str]] = []
        """Method and what came for a login: a token, a cookie, or nothing."""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server, body = self.server, self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token, cookie = self.headers.get("Authorization", ""), self.headers.get("Cookie", "")
        server.asked.append((self.command, token or cookie))
        wanted = f"Negotiate {base64.b64encode(OURS).decode()}"
        if cookie != "hadoop.auth=ok" and (token != wanted or server.refuses):
            self._answer(401, b"<html>log in</html>", {"WWW-Authenticate": "Negotiate"})
        else:
            fresh = {"WWW-Authenticate": server.proof, "Set-Cookie": "hadoop.auth=ok"} if token else {}
            self._answer(200, b'{"got": %d}' % len(body), {k: v for k, v in fresh.items() if v})

    do_POST = do_GET

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class FakeHandshake:
    """Completes when it gets THEIRS."""

    made: ClassVar[list[tuple[str, str]]] = []
    fault = ""

    def __init__(self, principal: str, keytab: Path, tickets: str, service: str) -> None:
        if self.fault:
            raise KerberosError(self.fault, place="Kerberos")
        assert (keytab, tickets[:19]) == (KEYTAB.path, "MEMORY:quicksilver-")
        self.made.append((principal, service))
        self.complete = False

    def step(self, token: bytes = b"") -> bytes:
        if token not in (b"", THEIRS):
            raise KerberosError("a bad token", place="Kerberos")
        self.complete = token == THEIRS
        return b"" if token else OURS

    def close(self) -> None:
        """Nothing to free."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(login, "Handshake", FakeHandshake)
    monkeypatch.setattr(FakeHandshake, "made", [])
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_one_handshake_serves_all_calls_that_follow(server: Server) -> None:
    with rest_session() as session:
        session.auth = Negotiate(KEYTAB)
        answers = [session.post(server.url, data=b"body").json(), *(session.get(server.url).json() for _ in range(3))]
    assert answers == [{"got": 4}, {"got": 0}, {"got": 0}, {"got": 0}]
    assert FakeHandshake.made == [("quicksilver@TEST", "HTTP@127.0.0.1")]
    assert [what.partition(" ")[0] for _, what in server.asked] == ["", "Negotiate", *["hadoop.auth=ok"] * 3]


def test_the_server_may_have_another_name_in_kerberos_than_in_the_url(server: Server) -> None:
    assert requests.get(server.url, auth=Negotiate(KEYTAB, "node1.example.org"), timeout=60).ok
    assert FakeHandshake.made == [("quicksilver@TEST", "HTTP@node1.example.org")]


def test_a_login_that_the_server_does_not_take_is_a_401_once(server: Server) -> None:
    server.refuses = True
    client = RestClient(server.url, auth=Negotiate(KEYTAB))
    with pytest.raises(RefusedError, match="answered 401") as refused:
        client.get("/x")
    assert refused.value.status == 401
    assert len(server.asked) == 2
    client.close()


@pytest.mark.parametrize("proof", ["", "Negotiate", "Negotiate !", "Negotiate bm90IHRoZSBvbmU="])
def test_a_server_that_does_not_prove_itself_is_not_believed(server: Server, proof: str) -> None:
    server.proof = proof
    with pytest.raises(LoginFailedError, match=r"no Kerberos login at HTTP@127\.0\.0\.1 as quicksilver@TEST"):
        requests.get(server.url, auth=Negotiate(KEYTAB), timeout=60)


def test_a_failed_login_says_what_to_look_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHandshake, "fault", "Cannot contact any KDC")
    client = RestClient(server.url, auth=Negotiate(KEYTAB))
    with pytest.raises(UnreachableError, match=r"Cannot contact any KDC.*klist -k.*kinit"):
        client.get("/x")
    client.close()


def test_without_a_keytab_the_error_names_the_settings(server: Server) -> None:
    client = RestClient(server.url)
    with pytest.raises(RefusedError, match="kerberos_principal and kerberos_keytab"):
        client.get("/x")
    client.close()


def read(server: Server, *, calls: int = 1, **login_of: Any) -> list[Any]:
    """GET a few times as daemons do, in the event loop."""

    async def work() -> list[Any]:
        client = AsyncRestClient(login=Negotiate(KEYTAB, **login_of))
        try:
            return [await client.get(f"{server.url}/x") for _ in range(calls)]
        finally:
            await client.close()

    return asyncio.run(work())


def test_a_daemon_logs_in_once_for_all_calls_that_follow(server: Server) -> None:
    assert read(server, calls=3) == [{"got": 0}] * 3
    assert FakeHandshake.made == [("quicksilver@TEST", "HTTP@127.0.0.1")]
    assert [what.partition(" ")[0] for _, what in server.asked] == ["", "Negotiate", *["hadoop.auth=ok"] * 2]


def test_a_daemons_server_may_have_another_name_in_kerberos(server: Server) -> None:
    assert read(server, host="node1.example.org") == [{"got": 0}]
    assert FakeHandshake.made == [("quicksilver@TEST", "HTTP@node1.example.org")]


def test_a_daemons_login_that_the_server_refuses_is_a_401_once(server: Server) -> None:
    server.refuses = True
    with pytest.raises(RefusedError, match="answered 401"):
        read(server)
    assert len(server.asked) == 2


@pytest.mark.parametrize("proof", ["", "Negotiate", "Negotiate !", "Negotiate bm90IHRoZSBvbmU="])
def test_a_daemon_trusts_no_server_that_does_not_prove_itself(server: Server, proof: str) -> None:
    server.proof = proof
    with pytest.raises(UnreachableError, match=r"no Kerberos login at HTTP@127\.0\.0\.1 as quicksilver@TEST"):
        read(server)


def test_a_daemons_failed_login_says_what_to_look_at(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeHandshake, "fault", "Cannot contact any KDC")
    with pytest.raises(UnreachableError, match=r"Cannot contact any KDC.*klist -k.*kinit"):
        read(server)


def test_a_daemon_without_a_keytab_names_the_settings(server: Server) -> None:
    async def work() -> None:
        client = AsyncRestClient()
        try:
            await client.get(f"{server.url}/x")
        finally:
            await client.close()

    with pytest.raises(RefusedError, match="kerberos_principal and kerberos_keytab"):
        asyncio.run(work())


def test_a_login_needs_both_settings_and_a_readable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "a.keytab"
    there.write_bytes(b"x")
    assert Keytab.of(None, None, "proxy") is None
    with pytest.raises(SettingsError, match=r"proxy\.kerberos_keytab: not set"):
        Keytab.of("a@B", None, "proxy")
    with pytest.raises(SettingsError, match=r"proxy\.kerberos_principal: not set"):
        Keytab.of(None, there, "proxy")
    with pytest.raises(SettingsError, match=r"sidecar\.kerberos_keytab: .*is not there.*ktadd"):
        Keytab.of("a@B", tmp_path / "none", "sidecar")
    monkeypatch.setattr(keytab, "check_installed", lambda: None)
    monkeypatch.setattr(keytab.socket, "getfqdn", lambda: "Node1.example.org")
    made = Keytab.of("quicksilver/_HOST@B", there, "sidecar")
    assert made is not None
    assert made.principal == "quicksilver/node1.example.org@B"
    assert "MEMORY" not in repr(made)


def test_a_machine_without_the_library_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssapi, "LIBRARY", "libnone.so.0")
    gssapi._library.cache_clear()
    with pytest.raises(KerberosError, match="libgssapi-krb5-2"):
        gssapi.check_installed()
    gssapi._library.cache_clear()
