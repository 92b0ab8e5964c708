"""The route of master keys: who may report them, over what, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.http.access import Side
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import NodeKeysMessage
from quicksilver.common.process import masking
from rm_proxy.api.key_routes import key_routes
from rm_proxy.minting.key_ring import KeyReport, KeyRing
from rm_proxy.service.key_reports import KeyReports
from rm_proxy.service.workers.worker_links import Broadcast

BODY = {
    "container": {"key_id": 1, "secret": "MTIzNDU2Nzg="},
    "nm": {"key_id": 2, "secret": "YWJjZGVmZ2g="},
    "rm_identifier": 5,
}
PATH = "/v1/nodes/127.0.0.1:8041/keys"


def client(reports: KeyReports, base_url: str = "https://proxy") -> TestClient:
    app = FastAPI()
    install_error_handlers(app)
    app.include_router(key_routes(reports.report), prefix="/v1")
    return TestClient(app, base_url=base_url)


def keys(on: bool = True, known: bool = True, use_ip: bool = True) -> KeyReports:
    ring = KeyRing()
    ring.serves(5)
    return KeyReports(ring, on, use_ip, lambda node_id: known, lambda: 0.0)


@pytest.mark.parametrize(("use_ip", "service"), [(True, "127.0.0.1:8041"), (False, "")])
def test_keys_go_into_the_ring(use_ip: bool, service: str) -> None:
    reports = keys(use_ip=use_ip)
    assert client(reports).post(PATH, json=BODY).status_code == 204
    known = reports.ring.keys("127.0.0.1:8041", 1.0)
    assert known is not None and known.service == service
    assert (known.container.secret, known.nm.secret, known.nm.key_id) == (b"12345678", b"abcdefgh", 2)


def test_what_was_taken_is_passed_on_and_its_repr_has_no_secret() -> None:
    passed: list[KeyReport] = []
    reports = replace(keys(), pass_on=passed.append)
    assert client(reports).post(PATH, json=BODY).status_code == 204
    other = KeyRing()
    other.serves(5)
    for report in pickle.loads(pickle.dumps(passed)):
        other.report(*report)
    node = "127.0.0.1:8041"
    assert other.keys(node, 1.0) == reports.ring.keys(node, 1.0)
    assert [each[0] for each in reports.ring.reports(1.0)] == [node] and not reports.ring.reports(1000.0)
    assert "12345678" not in f"{passed}{Broadcast(keys=passed)}" and "abcdefgh" not in f"{passed}"


def test_a_name_without_an_address_serves_as_it_is() -> None:
    reports = keys()
    assert client(reports).post("/v1/nodes/no-such-host.invalid:8041/keys", json=BODY).status_code == 204
    known = reports.ring.keys("no-such-host.invalid:8041", 1.0)
    assert known is not None and known.service == ""


def test_in_the_clear_they_come_from_this_host_alone() -> None:
    answer = client(keys(), "http://proxy").post(PATH, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "in-the-clear")


@pytest.mark.parametrize(
    ("reports", "status", "code"),
    [(keys(on=False), 409, "own-grants-off"), (keys(known=False), 503, "unknown-node")],
)
def test_what_cannot_be_used_is_refused(reports: KeyReports, status: int, code: str) -> None:
    answer = client(reports).post(PATH, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert reports.ring.usable(0.0) == 0


def test_bad_keys_name_the_field_and_not_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_known", {})  # that of another test may be the word "secret"
    body = {**BODY, "nm": {"key_id": 2, "secret": "no base64!"}}
    answer = client(keys()).post(PATH, json=body)
    assert answer.status_code == 422 and "body.nm.secret" in answer.text and "base64!" not in answer.text
    answer = client(keys()).post(PATH, json={**BODY, "nm": {"key_id": "x", "secret": "YWJjZGVmZ2g="}})
    assert answer.status_code == 422 and "YWJj" not in answer.text


def test_only_tracker_relays_report_keys() -> None:
    for certificates in (False, True):
        side = Side(True, certificates)
        assert side.may("POST", PATH) == side.may("GET", PATH) == {Role.KEYS}
        assert not side.roles(frozenset(["127.0.0.1"]), None, _NONE) & {Role.KEYS}, "a certificate does not suffice"


class _NoTokens:
    def roles(self, token: str) -> frozenset[Role]:
        return frozenset()


_NONE = _NoTokens()


def test_the_message_is_what_a_relay_sends() -> None:
    assert NodeKeysMessage.model_validate(BODY).model_dump(mode="json") == BODY
