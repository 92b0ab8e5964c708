"""The pages of Hadoop's daemons, over HTTP: their shapes, bounds and errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from pydantic import BaseModel, SecretStr

from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.http.servlets import jmx, stacks
from quicksilver.common.http.servlets.conf import ShownProperty, section_rows
from quicksilver.common.http.servlets.log_level import MARKER
from quicksilver.common.http.servlets.routes import ServletParts, add_servlets

LOG = "quicksilver.test.servlets"


class Section(BaseModel):
    port: int = 1
    host: str | None = None
    names: list[str] = []
    store_url: SecretStr = SecretStr("postgresql://x:hunter22@db")
    ssl_password: str = "hunter22"
    note: str = "a<b & c"


class Health(BaseModel):
    status: str = "ok"


class Daemon:
    def __init__(self) -> None:
        self.registry, self.reasons, self.gauged = CollectorRegistry(), [""][:0], 0
        made = Counter("quicksilver_proxy_grants", "G", ["kind"], registry=self.registry)
        made.labels("Q").inc(3)
        Gauge("quicksilver_proxy_live_now", "N", registry=self.registry).set(float("nan"))
        delay = Histogram("quicksilver_proxy_delay_seconds", "D", ["kind"], buckets=(1, 2), registry=self.registry)
        delay.labels("G").observe(0.5)
        delay.labels("G").observe(2.5)
        Info("quicksilver_proxy_build", "B", registry=self.registry).info({"version": "7"})
        self.app = FastAPI()
        install_error_handlers(self.app)
        parts = ServletParts(
            service="QuicksilverProxy",
            registry=self.registry,
            set_gauges=self.set_gauges,
            properties=self.properties,
            health=Health,
            not_ready=lambda: self.reasons,
        )
        add_servlets(self.app, parts)

    def set_gauges(self) -> None:
        self.gauged += 1

    def properties(self) -> list[ShownProperty]:
        return list(section_rows("proxy", Section(port=5), "/etc/q.yaml", {"host": "rm1"}))


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def client(daemon: Daemon) -> TestClient:
    return TestClient(daemon.app)


def test_conf_as_json_names_the_source_of_each_value(client: TestClient) -> None:
    answer = client.get("/conf", headers={"Accept": "application/json"})
    rows = {row["key"]: (row["value"], row["resource"]) for row in answer.json()["properties"]}
    assert rows == {
        "proxy.port": ("5", "/etc/q.yaml"),
        "proxy.host": ("rm1", "Hadoop's configuration"),
        "proxy.names": ("[]", "default"),
        "proxy.store_url": ("<redacted>", "default"),
        "proxy.ssl_password": ("<redacted>", "default"),
        "proxy.note": ("a<b & c", "default"),
    }
    assert "hunter22" not in answer.text


def test_conf_as_xml_is_what_hadoop_reads(client: TestClient) -> None:
    answer = client.get("/conf")
    assert answer.headers["content-type"] == "text/xml; charset=utf-8"
    root = ElementTree.fromstring(answer.content)
    assert root.tag == "configuration"
    note = next(p for p in root if p.findtext("name") == "proxy.note")
    assert [(child.tag, child.text) for child in note] == [
        ("name", "proxy.note"),
        ("value", "a<b & c"),
        ("final", "false"),
        ("source", "default"),
    ]


def test_conf_of_one_setting_and_wrong_questions(client: TestClient) -> None:
    one = client.get("/conf", params={"name": "proxy.port", "format": "json"}).json()
    assert one == {"property": {"key": "proxy.port", "value": "5", "isFinal": False, "resource": "/etc/q.yaml"}}
    gone, odd = client.get("/conf?name=proxy.prt"), client.get("/conf?format=yaml")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown-setting")
    assert (odd.status_code, odd.json()["error"]["code"]) == (400, "bad-format")


def test_jmx_has_beans_for_plain_and_labelled_metrics(daemon: Daemon, client: TestClient) -> None:
    beans = {bean["name"]: bean for bean in client.get("/jmx").json()["beans"]}
    domain = "Hadoop:service=QuicksilverProxy,name="
    assert beans[f"{domain}Metrics"] == {
        "name": f"{domain}Metrics",
        "modelerType": "Metrics",
        "LiveNow": None,
        "tag.Version": "7",
    }
    assert beans[f"{domain}Grants,kind=Q"]["Value"] == 3
    delay = beans[f"{domain}DelaySeconds,kind=G"]
    assert (delay["NumOps"], delay["Total"], delay["AvgTime"], delay["tag.Kind"]) == (2, 3, 1.5, "G")
    assert beans[f"{domain}Process"]["Pid"] > 0
    assert daemon.gauged == 1


def test_jmx_queries(client: TestClient) -> None:
    some = client.get("/jmx", params={"qry": "Hadoop:service=Quick*,name=DelaySeconds,*"}).json()["beans"]
    assert [bean["tag.Kind"] for bean in some] == ["G"]
    one = client.get("/jmx", params={"get": "Hadoop:service=QuicksilverProxy,name=Grants,kind=Q::Value"}).json()
    assert [{"Value"} <= bean.keys() and bean["Value"] for bean in one["beans"]] == [3]
    assert client.get("/jmx", params={"qry": "java.lang:type=Memory"}).json() == {"beans": []}
    for query, status in (
        ({"qry": "x"}, 400),
        ({"qry": "a:b"}, 400),
        ({"get": "a:b=c"}, 400),
        ({"get": "a:b=c::d"}, 404),
    ):
        assert client.get("/jmx", params=query).status_code == status, query


def test_a_pattern_without_a_star_wants_all_keys() -> None:
    assert not jmx.matches("D:service=A,name=B", "D:service=A")
    assert jmx.matches("D:service=A,name=B", "D:name=B,service=?")
    assert jmx.matches("D:service=A,name=B", "*:*")
    assert not jmx.matches("D:service=A,name=B", "*:kind=*,*")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(LOG)
    yield made
    made.setLevel(logging.NOTSET)


def test_log_levels_are_shown_and_changed_as_hadoop_daemonlog_reads_them(
    client: TestClient, logger: logging.Logger
) -> None:
    page = client.get("/logLevel", params={"log": LOG, "level": "WARN"}).text
    lines = [line.removeprefix(MARKER) for line in page.splitlines() if line.startswith(MARKER)]
    assert lines[-1] == "Effective Level: <b>WARNING</b><br>" and logger.level == logging.WARNING
    shown = client.get("/logLevel", params={"log": LOG}, headers={"Accept": "application/json"}).json()
    assert shown == {"log": LOG, "level": "WARNING", "own": "WARNING"}
    client.get("/logLevel", params={"log": LOG, "level": "reset"})
    assert logger.level == logging.NOTSET
    assert client.options("/logLevel").status_code == 200
    assert LOG in client.get("/logLevel", headers={"Accept": "application/json"}).json()["loggers"]


def test_wrong_log_levels_change_nothing(client: TestClient, logger: logging.Logger) -> None:
    known = len(logging.root.manager.loggerDict)
    assert client.get("/logLevel?log=no.such.logger&level=debug").status_code == 404
    assert client.get(f"/logLevel?log={LOG}&level=loud").status_code == 400
    other = {"Sec-Fetch-Site": "cross-site"}
    assert client.get(f"/logLevel?log={LOG}&level=debug", headers=other).status_code == 403
    assert logger.level == logging.NOTSET and len(logging.root.manager.loggerDict) == known


def test_stacks_show_threads_and_count_equal_tasks(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="a-thread-that-waits")
    thread.start()
    try:
        text = client.get("/stacks").text
        monkeypatch.setattr(stacks, "MAX_THREADS", 1)
        short = client.get("/stacks").text
    finally:
        stop.set()
        thread.join()
    assert "(a-thread-that-waits)" in text and "in wait" in text
    assert "asyncio tasks" in text
    assert "more threads" in short and len(short) < len(text)


def test_probes(daemon: Daemon, client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert (client.get("/readyz").status_code, client.get("/readyz").json()["ready"]) == (200, True)
    daemon.reasons = ["no nodes are known"]
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reasons": ["no nodes are known"]})
    assert client.get("/healthz").status_code == 200
