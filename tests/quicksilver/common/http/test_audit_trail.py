"""The audit log of REST calls: who, what, from where, with which result; over real sockets and tokens."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.errors import SettingsError
from quicksilver.common.http.access import Side, protect
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.http.security import OPEN, Security, SecuritySettings
from quicksilver.common.http.tokens import Role, add_token
from quicksilver.common.process.audit_log import MAX_VALUE, AuditSettings, configure_audit, write_audit


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "audit.log"
    configure_audit(AuditSettings())


async def takes_a_body(body: dict[str, object]) -> None:
    assert body is not None


async def answers_nothing() -> None:
    """Take no body."""


def make_client(security: Security, peer: str = "127.0.0.1") -> TestClient:
    app = FastAPI()
    install_error_handlers(app)
    for path in ("/v1/nodes/{node}/drain", "/v1/nodes/{node}/report", "/v1/grants", "/v1/bypass", "/v1/new"):
        app.add_api_route(path, takes_a_body, methods=["POST"])
    for path in ("/v1/nodes", "/logLevel"):
        app.add_api_route(path, answers_nothing)
    protect(app, security, Side(proxy=True, certificates=False), lambda reason: None)
    return TestClient(app, "http://localhost", client=(peer, 50000))


def lines(file: Path) -> list[dict[str, str]]:
    """Return the lines of the file in text form, by key."""
    found = []
    for line in file.read_text().splitlines():
        head, _, text = line.partition(" INFO quicksilver.audit: ")
        assert head and text
        found.append(dict(part.split("=", 1) for part in text.split("\t")))
    return found


def test_changes_are_written_and_nothing_else(file: Path) -> None:
    configure_audit(AuditSettings(file=file))
    client = make_client(OPEN)
    client.get("/v1/nodes")
    client.post("/v1/nodes/n1:1/report", json={})
    client.post("/v1/grants", json={})
    client.get("/logLevel?log=root")
    client.options("/logLevel?log=root&level=debug")
    assert file.read_text() == ""
    client.post("/v1/nodes/n1:1/drain", json={"on": True, "reason": "a\tb"})
    client.post("/v1/bypass", json={"order": "on", "who": "ann"})
    client.get("/logLevel?log=root&level=debug")
    client.post("/v1/new", json={})
    client.post("/v1/nowhere")
    assert [(one["OPERATION"], one["USER"], one.get("TARGET"), one["RESULT"]) for one in lines(file)] == [
        ("drain", "loopback", "n1:1", "SUCCESS"),
        ("bypass", "loopback", None, "SUCCESS"),
        ("logLevel", "loopback", "root", "SUCCESS"),
        ("call", "loopback", "/v1/new", "SUCCESS"),
        ("call", "loopback", "/v1/nowhere", "FAILURE"),
    ]
    assert lines(file)[0]["ARGUMENTS"] == '{"on":true,"reason":"a\\tb"}'
    assert [one.get("SAYS") for one in lines(file)] == [None, "ann", None, None, None]
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("path", ["/v1/nodes/n1:1/keys", "/v1/nodes/n1%3A1/keys/", "/ui/login"])
def test_no_secret_of_a_body_is_written(file: Path, path: str) -> None:
    configure_audit(AuditSettings(file=file))
    make_client(OPEN).post(path, json={"container": {"key_id": 1, "secret": "MTIzNDU2Nzg="}})
    assert lines(file) and "MTIz" not in file.read_text()


def test_tokens_say_who_and_refusals_are_written(file: Path, tmp_path: Path) -> None:
    configure_audit(AuditSettings(file=file))
    tokens = tmp_path / "tokens"
    admin, read = add_token(tokens, Role.ADMIN), add_token(tokens, Role.READ)
    security = Security(SecuritySettings(token_file=tokens))
    for token in (admin, read, ""):
        client = make_client(security, f"10.0.0.{len(token)}")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client.post("/v1/nodes/n1:1/drain", json={"on": True, "who": "root"}, headers=headers)
        client.get("/logLevel?log=root&level=debug", headers=headers)
        client.get("/logLevel?log=root", headers=headers)
    assert [(one["OPERATION"], one["USER"], one["STATUS"], one["RESULT"]) for one in lines(file)] == [
        ("drain", "token:admin", "200", "SUCCESS"),
        ("logLevel", "token:admin", "200", "SUCCESS"),
        ("drain", "token:read", "403", "FAILURE"),
        ("drain", "unknown", "401", "FAILURE"),
    ]
    assert lines(file)[0]["SAYS"] == "root"
    assert admin not in file.read_text() and read not in file.read_text()


def test_calls_that_prove_nothing_do_not_rotate_the_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6000 of them filled three files of 1 MB, and the admin's line was gone."""
    monkeypatch.setattr("quicksilver.common.process.limits.SELDOM_S", 1e6)
    configure_audit(AuditSettings(file=file, max_mb=1, files=2))
    tokens = tmp_path / "tokens"
    admin = {"Authorization": f"Bearer {add_token(tokens, Role.ADMIN)}"}
    security = Security(SecuritySettings(token_file=tokens))
    client = make_client(security)
    client.post("/v1/bypass", json={"order": "on"}, headers=admin)
    for path in ("/v1/bypass", "/ui/login", "/ui/logout", f"/{'x' * 900}", "/logLevel?level=debug") * 8:
        client.request("GET" if "level" in path else "POST", path, content="x" * 900)
    client.post("/v1/bypass", json={"order": "off"}, headers=admin)
    TestClient(client.app, "http://localhost", client=("10.0.0.9", 50000)).post("/v1/bypass")
    found = [(one["USER"], one["IP"], one["STATUS"], one.get("LEFT_OUT")) for one in lines(file)]
    assert found == [
        ("token:admin", "127.0.0.1", "200", None),
        ("loopback", "127.0.0.1", "401", None),
        ("token:admin", "127.0.0.1", "200", None),
        ("unknown", "10.0.0.9", "401", "39"),
    ]


def test_refused_calls_of_a_user_do_not_rotate_the_file_either(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quicksilver.common.process.limits.SELDOM_S", 1e6)
    configure_audit(AuditSettings(file=file, max_mb=1, files=2))
    tokens = tmp_path / "tokens"
    admin, read = ({"Authorization": f"Bearer {add_token(tokens, role)}"} for role in (Role.ADMIN, Role.READ))
    client = make_client(Security(SecuritySettings(token_file=tokens)))
    for _ in range(20):
        client.post("/v1/check", json={"x": "x" * 900}, headers=read)
        client.post("/v1/bypass", json={}, headers=read)
        client.post("/v1/bypass", content="{" * 900, headers=admin)
        client.post("/v1/nowhere", headers=admin)
    client.post("/v1/bypass", json={"order": "on"}, headers=admin)
    assert [(line["USER"], line["STATUS"], line.get("LEFT_OUT")) for line in lines(file)] == [
        ("token:read", "403", None),
        ("token:admin", "422", None),
        ("token:admin", "404", None),
        ("token:admin", "200", None),
    ]


def test_who_proves_something_is_named_by_it(file: Path, tmp_path: Path) -> None:
    """A line of another name in the body, even with a tab in it, is no other user."""
    configure_audit(AuditSettings(file=file))
    tokens = tmp_path / "tokens"
    admin = {"Authorization": f"Bearer {add_token(tokens, Role.ADMIN)}"}
    client = make_client(Security(SecuritySettings(token_file=tokens)))
    client.post("/v1/bypass", json={"who": "root\tRESULT=FAILURE\nUSER=root"}, headers=admin)
    (line,) = lines(file)
    assert (line["USER"], line["SAYS"], line["RESULT"]) == (
        "token:admin",
        "root RESULT=FAILURE USER=root",
        "SUCCESS",
    )


def test_the_token_of_a_login_is_in_no_line(file: Path) -> None:
    configure_audit(AuditSettings(file=file))
    for number, path in enumerate(("/ui/login", "/ui/login/", "/ui/logout")):
        make_client(OPEN, f"10.0.0.{number}").post(path, content="token=s3cret&to=nodes")
    assert [one["OPERATION"] for one in lines(file)] == ["login", "call", "logout"]
    assert "s3cret" not in file.read_text()


def test_changed_tokens_are_written(file: Path, tmp_path: Path) -> None:
    configure_audit(AuditSettings(file=file))
    tokens = tmp_path / "tokens"
    add_token(tokens, Role.ADMIN)
    security = Security(SecuritySettings(token_file=tokens))
    security.reload()
    assert file.read_text() == "", "nothing changed"
    tokens.unlink()
    add_token(tokens, Role.ADMIN)
    add_token(tokens, Role.READ)
    security.reload()
    (line,) = lines(file)
    assert (line["OPERATION"], line["TARGET"], line["CHANGES"]) == (
        "tokens",
        str(tokens),
        "+1 read, +1 admin, -1 admin",
    )


def test_json_lines_rotate_and_values_are_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver.common.process.audit_log._MB", 4000)
    configure_audit(AuditSettings(file=file, format="json", max_mb=1, files=2))
    for number in range(20):
        write_audit("drain", user="ann", target="x" * 5000, details={"number": number, "empty": ""})
    assert sorted(one.name for one in file.parent.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    last = json.loads(file.read_text().splitlines()[-1])
    assert last.keys() == {"timestamp", "user", "operation", "target", "result", "number"}
    assert (last["number"], len(last["target"])) == ("19", MAX_VALUE)


def test_a_file_that_cannot_be_written_is_said_at_the_start_and_once_later(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SettingsError, match=r"audit\.file: .*cannot be written: Is a directory; name a file"):
        configure_audit(AuditSettings(file=tmp_path))
    configure_audit(AuditSettings(file=Path("/dev/full")))
    with caplog.at_level(logging.ERROR):
        write_audit("drain", user="ann")
        write_audit("drain", user="bob")
    assert sum("cannot be written" in record.getMessage() for record in caplog.records) == 1
