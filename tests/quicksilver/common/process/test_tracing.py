"""Traces as a collector gets them: proxy and sidecar are two tracers, the collector is a server on loopback."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from policies.model import Kind, Resources
from quicksilver.common.errors import SettingsError
from quicksilver.common.messages import ContainerEvent, EventKind
from quicksilver.common.process import tracing
from quicksilver.common.process.tracing import Span, TracingSettings, configure_tracing, span_id, trace_id, tracer
from rm_proxy.domain.records import GrantRecord
from rm_proxy.service.traces import trace_grant
from sidecar.service.traces import trace_event
from tests.otlp_collector import Collector, attributes
from tests.otlp_collector import collector as otlp_collector

CID = "container_e01_1700000000000_0001_01_000002"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with otlp_collector() as made:
        yield made
        configure_tracing(TracingSettings(), "")


def settings(collector: Collector, **more: object) -> TracingSettings:
    return TracingSettings.model_validate({"otlp_endpoint": collector.url, "sampled_ratio": 1.0} | more)


def grant() -> GrantRecord:
    return GrantRecord(
        CID, "application_1_0001", "a", Kind.QUEUEABLE, "rule 1", "n1:1", "n1:1", "least wait", (), "u", 5,
        Resources(512, 1), 10.0, 100.0, 100.25,
    )  # fmt: skip


def event(kind: EventKind, at_s: float, **more: object) -> ContainerEvent:
    return ContainerEvent.model_validate({"seq": 1, "container_id": CID, "kind": kind, "at_s": at_s, **more})


def test_proxy_and_sidecar_make_one_trace_without_a_word_between_them(collector: Collector) -> None:
    configure_tracing(settings(collector), "quicksilver-proxy")
    trace_grant(grant())
    configure_tracing(settings(collector), "quicksilver-sidecar")  # closes the proxy's, which sends what waits
    trace_event(event(EventKind.STARTED, 103.0, waited_s=2.0), None, "n1:1")
    trace_event(event(EventKind.KILLED, 110.0, ran_s=7.0, reason="room for a G", cause="room"), None, "n1:1")
    tracer().close()
    assert [(service, span.name) for service, span in collector.got] == [
        ("quicksilver-proxy", "allocate"),
        ("quicksilver-sidecar", "hold"),
        ("quicksilver-sidecar", "start"),
        ("quicksilver-sidecar", "run"),
    ]
    spans = collector.spans()
    root, hold, run = spans["allocate"], spans["hold"], spans["run"]
    assert {span.trace_id for span in spans.values()} == {trace_id(CID).to_bytes(16, "big")}
    assert root.parent_span_id == b"" and root.span_id == span_id(CID, "allocate").to_bytes(8, "big")
    assert hold.parent_span_id == run.parent_span_id == root.span_id
    assert [(s.start_time_unix_nano / 1e9, s.end_time_unix_nano / 1e9) for s in (root, hold, run)] == [
        (100.0, 100.25),
        (101.0, 103.0),
        (103.0, 110.0),
    ]
    assert (run.status.code, run.status.message) == (2, "room for a G")
    shown = attributes(root)
    assert (shown["yarn.container.id"], shown["yarn.node.id"], shown["quicksilver.kind"]) == (CID, "n1:1", "Q")


def test_a_shed_container_has_a_failed_hold(collector: Collector) -> None:
    configure_tracing(settings(collector), "quicksilver-sidecar")
    trace_event(event(EventKind.SHED, 110.0, waited_s=7.0, reason="held too long", cause="hold"), None, "n1:1")
    tracer().close()
    hold = collector.spans()["hold"]
    assert (hold.status.code, hold.status.message) == (2, "shed: held too long")


def test_the_same_part_of_the_containers_is_sampled_everywhere(collector: Collector) -> None:
    ids = [f"container_1_0001_01_{number:06}" for number in range(4000)]
    configure_tracing(settings(collector, sampled_ratio=0.1), "quicksilver-proxy")
    first = [one for one in ids if tracer().sampled(one)]
    configure_tracing(settings(collector, sampled_ratio=0.1), "quicksilver-sidecar")
    assert first == [one for one in ids if tracer().sampled(one)]
    assert 300 < len(first) < 500
    configure_tracing(settings(collector, sampled_ratio=0.0), "quicksilver-proxy")
    assert not any(tracer().sampled(one) for one in ids)


def test_a_collector_that_hangs_costs_neither_time_nor_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter
    result = importlib.import_module("opentelemetry.sdk.trace.export").SpanExportResult
    asked, answered = threading.Event(), threading.Event()

    def hang(*_: object) -> object:
        asked.set()
        answered.wait()
        return result.FAILURE

    monkeypatch.setattr(exporter, "export", hang)
    there = TracingSettings(otlp_endpoint="http://127.0.0.1:9/v1/traces", sampled_ratio=1, queue=100, batch=10)
    configure_tracing(there, "quicksilver-proxy")
    try:
        for number in range(5000):
            tracer().add(Span(f"c{number}", "run", 1.0, 2.0, {}))
        assert asked.wait(60) and not answered.is_set(), "all were taken before the first message was answered"
        assert len(tracer()._processor._batch_processor._queue) <= 100
    finally:
        answered.set()
        configure_tracing(TracingSettings(), "")


def test_a_collector_that_is_away_keeps_nobody() -> None:
    away = TracingSettings(otlp_endpoint="http://127.0.0.1:9/v1/traces", sampled_ratio=1, queue=100, timeout_s=0.2)
    configure_tracing(away, "quicksilver-proxy")
    tracer().add(Span("c1", "run", 1.0, 2.0, {}))
    configure_tracing(TracingSettings(), "")  # it comes to its end
    assert not tracer().sampled("c1")


def test_wrong_endpoints_and_a_missing_library_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"tracing\.otlp_endpoint: collector:4318: is no URL; write http://"):
        configure_tracing(TracingSettings(otlp_endpoint="collector:4318"), "x")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsError, match=r"needs OpenTelemetry: .*; install the extra: yarn-quicksilver\[otel\]"):
        configure_tracing(TracingSettings(otlp_endpoint="http://h/v1/traces"), "x")
    assert not tracing.tracer().sampled(CID)


def test_opentelemetrys_sdk_is_imported_only_where_it_is_used() -> None:
    code = (
        "import sys; import rm_proxy.service.process, sidecar.service.server;"
        " print([m for m in sys.modules if m.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
