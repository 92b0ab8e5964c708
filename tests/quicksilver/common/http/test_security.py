"""REST security over real sockets: tokens and certificates, right and wrong ones."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
import uvloop
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel
from structlog.testing import capture_logs

from quicksilver.common.address import Address
from quicksilver.common.errors import SettingsError
from quicksilver.common.http.access import Failures, Side, check_url, protect
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.connection import NAMES
from quicksilver.common.http.rest_client import RestClient
from quicksilver.common.http.rest_errors import ApiError, RefusedError, UnreachableError
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.http.rest_server import serve as serve_rest
from quicksilver.common.http.security import Credentials, Security, SecuritySettings, client_context
from quicksilver.common.http.tokens import Role, add_token, read_tokens
from quicksilver.common.process.listening import bound_socket

pytestmark = pytest.mark.filterwarnings("default:unclosed resource:ResourceWarning")
"""As an error it would keep a loop of uvloop from its end: tests/loops.py."""

certs = pytest.importorskip("quicksilver.common.http.certs", reason="needs cryptography: `make setup` installs it")
SIDECAR = Side(False, True, frozenset(["rm1"]))
PROXY = Side(True, True)
REPORT = "/v1/nodes/node1:8041/report"


class Body(BaseModel):
    name: str = "x"


@dataclass
class Site:
    """The files of a cluster: certificates of one CA, of another, an old one; tokens."""

    folder: Path

    def settings(self, stem: str, **more: object) -> SecuritySettings:
        pair = certs.pair_of(self.folder, stem)
        given = {"tls_cert": pair.certificate, "tls_key": pair.key, "tls_ca": self.folder / "ca.crt"}
        return SecuritySettings.model_validate(given | more)

    def shown(self, stem: str) -> Credentials:
        """What a peer with this certificate shows; it trusts the cluster's CA."""
        pair = certs.pair_of(self.folder, stem)
        context = client_context(self.folder / "ca.crt")
        context.load_cert_chain(pair.certificate, pair.key)
        return Credentials(context=context, ca=self.folder / "ca.crt")

    def with_token(self, text: str) -> Credentials:
        return Credentials(lambda: text, client_context(self.folder / "ca.crt"), self.folder / "ca.crt")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder, foreign = tmp_path_factory.mktemp("tls"), tmp_path_factory.mktemp("foreign")
    for where in (folder, foreign):
        certs.make_ca(where, "c")
    certs.make_certificate(folder, "proxy", ["rm1", "127.0.0.1"])
    for host in ("node1", "node2"):
        certs.make_certificate(folder, host, [host])
    certs.make_certificate(folder, "expired", ["node1"], days=1, now=datetime.now(UTC) - timedelta(days=2))
    pair, there = certs.make_certificate(foreign, "node1", ["node1"]), certs.pair_of(folder, "foreign")
    pair.certificate.rename(there.certificate)
    pair.key.rename(there.key)
    return Site(folder)


def make_app() -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)
    for path in ("/v1/nodes", "/metrics"):
        app.add_api_route(path, lambda: {"ok": True})
    for path in ("/v1/nodes/{node_id}/report", "/v1/grants", "/v1/policies/reload", "/v1/anything"):
        app.add_api_route(path, lambda: {"ok": True}, methods=["POST"])
    return app


@contextmanager
def serving(
    security: Security,
    side: Side,
    counted: list[str] | None = None,
    loops: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> Iterator[int]:
    """Serve the app with `security` from a thread; yields the port."""
    app, counts = make_app(), counted if counted is not None else []
    protect(app, security, side, counts.append)
    sock = bound_socket("127.0.0.1", 0)
    port = sock.getsockname()[1]
    loop = loops()
    task = loop.create_task(serve_rest(app, sock, tls=security.server))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        assert not thread.is_alive()
        loop.close()


def outcome(url: str, path: str, credentials: Credentials | None) -> int | str:
    """Return the status of GET (lists, metrics) or POST (all else), or why there was no answer."""
    client = RestClient(url, credentials=credentials)
    try:
        if path in ("/v1/nodes", "/metrics"):
            client.get(path)
        else:
            client.post(path, Body())
    except RefusedError as error:
        return error.status
    except UnreachableError as error:
        return error.message
    finally:
        client.close()
    return 200


@pytest.fixture(scope="module", params=[asyncio.new_event_loop, uvloop.new_event_loop])
def loops(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    return request.param  # type: ignore[no-any-return]


@dataclass
class Running:
    url: str
    security: Security
    counted: list[str]
    tokens: dict[Role, str]


@pytest.fixture(scope="module", params=["proxy", "sidecar"])
def tls(
    site: Site,
    loops: Callable[[], asyncio.AbstractEventLoop],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """A server with TLS and a token of every role; a sidecar's with the proxy's certificate, to be on 127.0.0.1."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens = {role: add_token(file, role, "ann" if role is Role.USER else "") for role in Role}
    security, counted = Security(site.settings("proxy", token_file=file)), list[str]()
    with serving(security, PROXY if request.param == "proxy" else SIDECAR, counted, loops) as port:
        yield Running(f"https://127.0.0.1:{port}", security, counted, tokens)


@pytest.mark.parametrize("tls", ["proxy"], indirect=True)
@pytest.mark.parametrize(
    ("who", "path", "expected"),
    [
        ("node1", REPORT, 200),
        ("node1", "/v1/nodes/NODE1:8041/report", 200),
        ("node1", "/v1/nodes/node1:8042/report", 200),
        ("node2", REPORT, 403),
        ("proxy", REPORT, 403),
        ("node1", "/v1/nodes", 403),
        ("node1", "/v1/policies/reload", 403),
        ("node1", "/v1/anything", 403),
        ("node1", "/v1/nodes/node1:8041/report/", 403),
        ("node1", "/v1/nodes/node2%3A8041/report", 403),
    ],
)
def test_certificates_at_the_proxy(tls: Running, site: Site, who: str, path: str, expected: int) -> None:
    assert outcome(tls.url, path, site.shown(who)) == expected


@pytest.mark.parametrize("tls", ["sidecar"], indirect=True)
@pytest.mark.parametrize(
    ("who", "path", "expected"),
    [
        ("proxy", "/v1/grants", 200),
        ("proxy", "/v1/policies/reload", 200),
        ("proxy", "/v1/nodes", 200),
        ("node1", "/v1/grants", 403),
        ("node1", "/v1/policies/reload", 403),
        ("node1", "/v1/nodes", 403),
    ],
)
def test_certificates_at_a_sidecar(tls: Running, site: Site, who: str, path: str, expected: int) -> None:
    assert outcome(tls.url, path, site.shown(who)) == expected


@pytest.mark.parametrize(
    ("role", "path", "expected"),
    [
        (Role.READ, "/v1/nodes", 200),
        (Role.READ, "/v1/policies/reload", 403),
        (Role.READ, REPORT, 403),
        (Role.ADMIN, "/v1/nodes", 200),
        (Role.ADMIN, "/v1/policies/reload", 200),
        (Role.ADMIN, "/v1/grants", {"proxy": 200, "sidecar": 403}),
        (Role.ADMIN, REPORT, {"proxy": 403, "sidecar": 200}),
        (Role.NODE, REPORT, 401),  # with TLS certificates alone make a node, or a proxy
        (Role.NODE, "/v1/nodes", 401),
        (Role.PROXY, "/v1/grants", 401),
    ],
)
def test_tokens_beside_certificates(
    tls: Running, site: Site, request: pytest.FixtureRequest, role: Role, path: str, expected: int | dict[str, int]
) -> None:
    side = "sidecar" if "sidecar" in request.node.name else "proxy"
    wanted = expected if isinstance(expected, int) else expected[side]
    assert outcome(tls.url, path, site.with_token(tls.tokens[role])) == wanted


@pytest.mark.parametrize("path", ["/v1/nodes", "/metrics", "/v1/grants", REPORT, "/nowhere", "/docs", "/openapi.json"])
def test_nobody_gets_anything(tls: Running, site: Site, path: str) -> None:
    before = len(tls.counted)
    nobody = Credentials(context=client_context(site.folder / "ca.crt"), ca=site.folder / "ca.crt")
    assert outcome(tls.url, path, nobody) == 401
    assert outcome(tls.url, path, site.with_token("a" * 43)) == 401
    assert tls.counted[before:] == ["none", "token"]


@pytest.mark.parametrize("who", ["expired", "foreign"])
def test_a_certificate_that_is_not_of_the_cluster_gets_no_answer(tls: Running, site: Site, who: str) -> None:
    before = len(tls.counted)
    why = outcome(tls.url, REPORT, site.shown(who))
    assert isinstance(why, str) and ("TLS failed" in why or "cannot connect" in why)
    assert tls.counted[before:] == ["tls"]


def test_plain_http_on_the_tls_port_gets_no_answer(tls: Running) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.get(tls.url.replace("https", "http") + "/v1/nodes", timeout=60)
    assert tls.counted[-1] == "tls"


def test_old_tls_is_refused(tls: Running) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    port = int(tls.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)


def test_a_server_of_another_ca_or_name_is_not_believed(site: Site) -> None:
    with serving(Security(site.settings("node1")), PROXY) as port:
        why = outcome(f"https://127.0.0.1:{port}", "/v1/nodes", site.shown("node2"))
    assert why == "TLS failed: the server's certificate: IP address mismatch, certificate is not valid for '127.0.0.1'"
    with serving(Security(site.settings("foreign")), PROXY) as port:
        why = outcome(f"https://127.0.0.1:{port}", "/v1/nodes", site.shown("node2"))
    assert isinstance(why, str) and why.startswith("TLS failed: the server's certificate: ")


@pytest.mark.parametrize(
    ("who", "words"), [("node1", ""), ("foreign", "closed|reset|TLS failed"), ("", "TLS failed: ")]
)
def test_a_poster_shows_its_certificate_and_looks_at_the_servers(
    loops: Callable[[], asyncio.AbstractEventLoop], site: Site, who: str, words: str
) -> None:
    told: list[object] = []  # a loop's handler of exceptions counts faults of the proxy

    async def play(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        poster = AsyncRestClient(credentials=site.shown(who) if who else None)
        try:
            for _ in range(2):
                await poster.post(url + REPORT, Body())
        finally:
            await poster.close()

    with serving(Security(site.settings("proxy")), PROXY, loops=loops) as port:
        expected = pytest.raises(UnreachableError, match=words) if words else nullcontext()
        with expected, asyncio.Runner(loop_factory=loops) as runner:
            runner.run(play(f"https://127.0.0.1:{port}"))
    gc.collect()
    assert told == []


def test_a_server_that_never_shakes_hands_is_given_up(
    loops: Callable[[], asyncio.AbstractEventLoop], site: Site
) -> None:
    told: list[object] = []

    async def play(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        poster = AsyncRestClient(timeout_s=0.2, credentials=site.shown("node1"))
        for _ in range(2):
            with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
                await poster.post(url + REPORT, Body())
        await poster.close()

    with socket.create_server(("127.0.0.1", 0)) as silent, asyncio.Runner(loop_factory=loops) as runner:
        runner.run(play(f"https://127.0.0.1:{silent.getsockname()[1]}"))
    gc.collect()
    assert told == []


def test_roles_by_tokens_alone(tmp_path: Path) -> None:
    tokens = {role: add_token(tmp_path / "t", role, "ann" if role is Role.USER else "") for role in Role}
    security = Security(SecuritySettings(token_file=tmp_path / "t"))
    shown = {role: Credentials(lambda text=text: text) for role, text in tokens.items()}
    with serving(security, Side(True, False)) as port:
        url = f"http://127.0.0.1:{port}"
        assert outcome(url, REPORT, shown[Role.NODE]) == 200
        assert [outcome(url, REPORT, shown[role]) for role in (Role.READ, Role.ADMIN, Role.PROXY)] == [403] * 3
        assert outcome(url, "/v1/nodes", shown[Role.NODE]) == 403
        assert outcome(url, "/v1/nodes", None) == 401
    with serving(security, Side(False, False)) as port:
        url = f"http://127.0.0.1:{port}"
        assert outcome(url, "/v1/grants", shown[Role.PROXY]) == 200
        assert [outcome(url, "/v1/grants", shown[role]) for role in (Role.READ, Role.ADMIN, Role.NODE)] == [403] * 3


def test_tokens_are_rolled_without_a_gap(tmp_path: Path) -> None:
    file = tmp_path / "t"
    old = add_token(file, Role.READ)
    security = Security(SecuritySettings(token_file=file))
    with serving(security, Side(True, False)) as port:
        url = f"http://127.0.0.1:{port}"
        new = add_token(file, Role.READ)
        assert outcome(url, "/v1/nodes", Credentials(lambda: new)) == 401
        security.reload()
        assert [outcome(url, "/v1/nodes", Credentials(lambda text=text: text)) for text in (old, new)] == [200, 200]
        file.write_text(f"read {new}\n")
        security.reload()
        assert [outcome(url, "/v1/nodes", Credentials(lambda text=text: text)) for text in (old, new)] == [401, 200]
        file.write_text("read broken\n")
        with pytest.raises(SettingsError, match=r"t:1: has a token shorter than 32 characters"):
            security.reload()
        assert outcome(url, "/v1/nodes", Credentials(lambda: new)) == 200


def test_a_renewed_certificate_is_used_without_a_restart(site: Site) -> None:
    pair = certs.make_certificate(site.folder, "rolled", ["localhost"])
    security = Security(site.settings("rolled"))
    with serving(security, PROXY) as port:
        url = f"https://127.0.0.1:{port}"
        assert "mismatch" in str(outcome(url, "/v1/nodes", site.shown("node1")))
        certs.make_certificate(site.folder, "rolled", ["127.0.0.1"], renew=True)
        security.reload()
        assert outcome(url, "/v1/nodes", site.shown("node1")) == 403
        pair.certificate.write_text("nothing")
        with pytest.raises(SettingsError, match=r"^security\.tls_cert: .*rolled\.crt: cannot be used with"):
            security.reload()
        assert outcome(url, "/v1/nodes", site.shown("node1")) == 403


def test_metrics_may_be_open(site: Site) -> None:
    with serving(Security(site.settings("proxy")), Side(True, True, metrics_open=True)) as port:
        url = f"https://127.0.0.1:{port}"
        nobody = Credentials(context=client_context(site.folder / "ca.crt"), ca=site.folder / "ca.crt")
        assert (outcome(url, "/metrics", nobody), outcome(url, "/v1/nodes", nobody)) == (200, 401)


def test_the_answer_is_an_envelope_and_the_body_is_not_read(tls: Running, site: Site) -> None:
    answer = requests.post(f"{tls.url}/v1/grants", data=b"x" * 10**6, verify=str(site.folder / "ca.crt"), timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    answer = requests.get(
        f"{tls.url}/v1/nodes", auth=("admin", tls.tokens[Role.ADMIN]), verify=str(site.folder / "ca.crt"), timeout=60
    )
    assert answer.status_code == 401, "basic is no bearer"
    answer = requests.get(
        f"{tls.url}/v1/nodes?token={tls.tokens[Role.ADMIN]}", verify=str(site.folder / "ca.crt"), timeout=60
    )
    assert answer.status_code == 401, "a token in a URL counts for nothing"


def test_redirects_are_not_followed_with_credentials(tmp_path: Path) -> None:
    seen: list[str | None] = []
    target, source = FastAPI(), FastAPI()

    @target.get("/there")
    async def there(request: Request) -> None:
        seen.append(request.headers.get("authorization"))

    with plain(target) as to:

        @source.get("/here")
        async def here() -> object:
            from fastapi.responses import RedirectResponse

            return RedirectResponse(f"http://127.0.0.1:{to}/there")

        with plain(source) as port:
            client = RestClient(f"http://127.0.0.1:{port}", credentials=Credentials(lambda: "x" * 40))
            with pytest.raises(RefusedError) as caught:
                client.get("/here")
            client.close()
    assert caught.value.status == 307 and seen == []


@contextmanager
def plain(app: FastAPI) -> Iterator[int]:
    sock = bound_socket("127.0.0.1", 0)
    loop = asyncio.new_event_loop()
    task = loop.create_task(serve_rest(app, sock))
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])))
    thread.start()
    try:
        yield sock.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        loop.close()


def test_a_token_is_not_sent_in_the_clear_beyond_loopback() -> None:
    token = Credentials(lambda: "x" * 40)
    with pytest.raises(SettingsError, match="would be sent in the clear"):
        token.headers("http://192.0.2.1:8390/v1/nodes")
    assert token.headers("https://192.0.2.1:8390/v1/nodes") == {"Authorization": f"Bearer {'x' * 40}"}
    assert token.headers("http://127.0.0.12:8390/v1/nodes") == token.headers("http://localhost:1/")
    assert Credentials(lambda: "x" * 40, insecure=True).headers("http://192.0.2.1/")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_rest_beyond_loopback_needs_tls(host: str, site: Site, tmp_path: Path) -> None:
    address = Address(host, 8390)
    add_token(tmp_path / "t", Role.READ)
    for settings in (SecuritySettings(), SecuritySettings(token_file=tmp_path / "t")):
        with pytest.raises(
            SettingsError, match=r"^proxy\.rest_listen: .*:8390: REST would listen beyond loopback"
        ) as e:
            Security(settings).allow(address, "proxy.rest_listen")
        assert "quicksilver certs" in str(e.value) and "security.insecure" in str(e.value)
    Security(site.settings("proxy")).allow(address, "proxy.rest_listen")
    Security(SecuritySettings(insecure=True)).allow(address, "proxy.rest_listen")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.12", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    Security().allow(Address(host, 8390), "proxy.rest_listen")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "security.token_file: {file}: has no tokens; make one with `quicksilver certs token ROLE FILE`"),
        ("# nothing\n", "has no tokens"),
        ("read\n", "{file}:1: is not a role and a token"),
        ("\nroot {token}\n", "{file}:2: does not begin with a role; take one of read, admin, node, keys, proxy, user"),
        ("user {token}\n", "{file}:1: a token of the role user names no user; write user:NAME"),
        ("user:a,b {token}\n", "{file}:1: does not name a user of a plain form"),
        ("read {token} more\n", "{file}:1: is not a role and a token"),
        ("read sha256:12\n", "{file}:1: has a broken SHA-256"),
        ("read 12345678\n", "{file}:1: has a token shorter than 32 characters"),
        ("read a{token}ä\n", "{file}:1: has a token shorter than"),
    ],
)
def test_a_broken_token_file_is_named_without_its_tokens(text: str, words: str, tmp_path: Path) -> None:
    file, token = tmp_path / "t", "s3cr3t" * 7
    file.write_text(text.format(token=token))
    file.chmod(0o600)
    with pytest.raises(SettingsError) as caught:
        read_tokens(file, "security.token_file")
    assert words.format(file=file) in str(caught.value)
    assert "s3cr3t" not in str(caught.value) and "12345678" not in str(caught.value)


def test_a_line_names_the_user_of_its_token(tmp_path: Path) -> None:
    ann, bob = add_token(tmp_path / "t", Role.USER, "ann"), add_token(tmp_path / "t", Role.ADMIN, "bob")
    nobody = add_token(tmp_path / "t", Role.READ)
    tokens = read_tokens(tmp_path / "t", "x")
    assert [tokens.user(text) for text in (ann, bob, nobody, "unknown")] == ["ann", "bob", "", ""]
    assert tokens.roles(ann) == {Role.USER} and tokens.roles(bob) == {Role.ADMIN}
    with pytest.raises(SettingsError, match="names no user"):
        add_token(tmp_path / "t", Role.USER)


def test_a_digest_checks_a_token_and_cannot_be_sent(tmp_path: Path) -> None:
    import hashlib

    text = add_token(tmp_path / "t", Role.NODE)
    (tmp_path / "d").write_text(f"node sha256:{hashlib.sha256(text.encode()).hexdigest()}  # checked here\n")
    (tmp_path / "d").chmod(0o600)
    tokens = read_tokens(tmp_path / "d", "x")
    assert tokens.roles(text) == {Role.NODE} and tokens.first([Role.NODE]) is None
    with pytest.raises(SettingsError, match="has no token of the role node"):
        Security(SecuritySettings(token_file=tmp_path / "d")).credentials(Role.NODE)


def test_files_that_others_may_read_are_refused(site: Site, tmp_path: Path) -> None:
    add_token(tmp_path / "t", Role.READ)
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600
    for mode in (0o604, 0o620, 0o660):
        (tmp_path / "t").chmod(mode)
        with pytest.raises(
            SettingsError, match=rf"^security\.token_file: .*/t: others .* \(mode {mode:04o}\); chmod 600 "
        ):
            Security(SecuritySettings(token_file=tmp_path / "t"))
    pair = certs.make_certificate(site.folder, "loose", ["a"])
    pair.key.chmod(0o644)
    with pytest.raises(SettingsError, match=r"^security\.tls_key: .*loose\.key: others .* \(mode 0644\)"):
        Security(site.settings("loose"))


@pytest.mark.parametrize("owner", [0, 65534])
def test_only_root_may_give_a_file_to_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    """Its owner could have it read by a group that somebody else is in, and root knows who is in it."""
    text = add_token(tmp_path / "t", Role.READ)
    (tmp_path / "t").chmod(0o640)
    stat = os.fstat

    def owned(descriptor: int) -> os.stat_result:
        found = list(stat(descriptor))
        found[4] = owner
        return os.stat_result(found)

    monkeypatch.setattr(os, "fstat", owned)
    if owner == 0:
        assert read_tokens(tmp_path / "t", "x").roles(text) == {Role.READ}
    else:
        with pytest.raises(SettingsError, match=r"\(mode 0640\); chmod 600 .*, or give it to root and a group"):
            read_tokens(tmp_path / "t", "x")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tls_cert": "absent"}, r"security\.tls_cert: absent: cannot be used with .*: No such file"),
        ({"tls_key": "absent"}, r"security\.tls_key: absent: cannot be read: No such file"),
        ({"tls_ca": "absent"}, r"security\.tls_ca: absent: is no CA certificate: No such file"),
        ({"token_file": "absent"}, r"security\.token_file: absent: cannot be read: No such file"),
        ({"tls_key": "node2"}, r"security\.tls_cert: .*node1\.crt: cannot be used with .*: KEY_VALUES_MISMATCH"),
        ({"tls_cert": None, "tls_key": None}, r"security\.tls_cert: not set, but tls_ca is"),
    ],
)
def test_what_is_missing_is_named(site: Site, changed: dict[str, str | None], words: str) -> None:
    if changed.get("tls_key") == "node2":
        changed = {"tls_key": str(site.folder / "node2.key")}
    settings = SecuritySettings.model_validate(site.settings("node1").model_dump() | changed)
    with pytest.raises(SettingsError, match=f"^{words}"):
        Security(settings)


def test_refusals_are_logged_once_a_minute_for_each_peer_of_bounded_many() -> None:
    now_s, counts = [0.0], list[str]()
    failures = Failures(counts.append, lambda: now_s[0])
    with capture_logs() as logs:
        for peer in ("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2"):
            failures.refused(peer, "none", "because")
        assert [log["peer"] for log in logs] == ["10.0.0.1", "10.0.0.2"] and len(counts) == 4
        for number in range(5000):
            failures.refused(f"10.1.{number // 250}.{number % 250}", "token", "because")
        assert len(logs) == 1000
        now_s[0] = 61.0
        failures.refused("10.0.0.1", "none", "because")
        assert len(logs) == 1001 and logs[-1]["others_since"] == 4002


def test_a_sidecar_names_its_own_rest() -> None:
    check_url("https://node1:8391", "node1:8041", frozenset())
    check_url("https://NODE1:8391", "Node1:8041", frozenset())
    check_url("https://node1-mgmt:8391", "node1:8041", frozenset(["node1", "node1-mgmt"]))
    for url in ("https://node2:8391", "http://169.254.169.254/", "nonsense", ""):
        with pytest.raises(ApiError, match="is not of the host of node1:8041"):
            check_url(url, "node1:8041", frozenset(["node1"]))


def test_names_of_a_caller_cannot_be_sent(tls: Running, site: Site) -> None:
    shown = site.with_token(tls.tokens[Role.READ])
    session = requests.Session()
    headers = shown.headers(tls.url) | {NAMES: "node1", "X-Forwarded-For": "127.0.0.1"}
    answer = session.post(
        f"{tls.url}{REPORT}", headers=headers, json={}, verify=str(site.folder / "ca.crt"), timeout=60
    )
    assert answer.status_code == 403
    session.close()


def test_a_certificate_that_ends_soon_is_warned_of(site: Site) -> None:
    certs.make_certificate(site.folder, "soon", ["node1"], days=3)
    with capture_logs() as logs:
        soon = Security(site.settings("soon"))
    assert [(log["event"], round(log["days_left"])) for log in logs] == [("the certificate ends soon", 3)]
    with capture_logs() as logs:
        assert Security(site.settings("node1")).certificate_ends_s > soon.certificate_ends_s
        certs.make_certificate(site.folder, "soon", [], renew=True)
        before = soon.certificate_ends_s
        soon.reload()
    assert logs == [] and soon.certificate_ends_s > before


def test_the_end_of_a_certificate_is_known_when_it_has_passed_and_a_strangers_is_warned_of(
    site: Site, tmp_path: Path
) -> None:
    certs.make_certificate(site.folder, "past", ["node1"], days=1, now=datetime.now(UTC) - timedelta(days=3))
    with capture_logs() as logs:
        past = Security(site.settings("past"))
    assert past.certificate_ends_s == certs.show(site.folder / "past.crt").ends_s
    assert [log["event"] for log in logs] == ["the certificate ends soon"]
    certs.make_ca(tmp_path, "another")
    settings = site.settings("node1").model_copy(update={"tls_ca": tmp_path / "ca.crt"})
    with capture_logs() as logs:
        assert math.isnan(Security(settings).certificate_ends_s)
    assert [log["event"] for log in logs] == ["others will refuse the certificate"]


OWN_HOSTS = ["localhost:8390", "LOCALHOST", "127.0.0.1:1", "[::1]:8390", "10.1.2.3", "gate.example:443", "rm1.", ""]
FOREIGN_HOSTS = [
    "evil.example:8390",
    "localhost.evil.example",
    "rm1.evil.example",
    "127.0.0.1.evil.example",
    "[::1",
    "a:b",
]


@pytest.mark.parametrize("host", OWN_HOSTS + FOREIGN_HOSTS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_security_a_foreign_name_leads_nowhere(host: str, method: str) -> None:
    """A page whose own name leads here counts as ours for the browser: Origin is then that name, too."""
    app, reasons = make_app(), list[str]()
    security = Security(SecuritySettings(host_names=["Gate.example"]))
    protect(app, security, PROXY, reasons.append, hosts=["rm1"])
    client = TestClient(app, f"http://{socket.gethostname()}")
    same = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    path = "/v1/nodes" if method == "GET" else "/v1/anything"
    answer = client.request(method, path, headers={"Host": host, **same} if host else {})
    if host in FOREIGN_HOSTS:
        assert (answer.status_code, answer.json()["error"]["code"], reasons) == (403, "unknown-host", ["host"])
    else:
        assert (answer.status_code, reasons) == (200, [])


def test_with_security_the_name_does_not_matter(tmp_path: Path) -> None:
    """Behind a web proxy it is the proxy's, and callers prove who they are."""
    tokens = tmp_path / "tokens"
    reader = {"Authorization": f"Bearer {add_token(tokens, Role.READ)}", "Host": "gateway.example"}
    app = make_app()
    protect(app, Security(SecuritySettings(token_file=tokens)), PROXY, lambda reason: None)
    assert TestClient(app).get("/v1/nodes", headers=reader).status_code == 200
