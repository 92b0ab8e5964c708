"""Traces of containers for OpenTelemetry: what the proxy and the sidecars did with each one, as spans of one trace.

Ids come from the container's id by SHA-256, so that proxy and sidecars agree on them, and on which containers are
sampled, without a word between them. Spans are made when they are over. Without `tracing.otlp_endpoint` nothing of
OpenTelemetry is imported.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from pydantic import Field

from policies.settings_model import SettingsModel
from quicksilver.common.errors import SettingsError
from quicksilver.common.process.logs import get_logger
from quicksilver.common.process.version import version

SECTION: Final = "tracing"
ROOT: Final = "allocate"
"""Name of the span above all others of a container."""
_NS: Final = 1_000_000_000
_EXTRA: Final = "install the extra: yarn-quicksilver[otel]"
log = get_logger(__name__)


class TracingSettings(SettingsModel):
    """Traces for OpenTelemetry, of proxy and sidecars; both need the same `sampled_ratio`."""

    otlp_endpoint: str | None = None
    """URL where a collector takes OTLP over HTTP, such as http://collector:4318/v1/traces; default: no traces (own)."""
    sampled_ratio: float = Field(0.01, ge=0, le=1)
    """Part of the containers that are traced, chosen by their ids (own)."""
    queue: int = Field(2048, ge=16, le=1_000_000)
    """Spans that may wait for the collector; more are dropped (own)."""
    batch: int = Field(512, ge=1, le=100_000)
    """Spans of one message (own)."""
    every_s: float = Field(5.0, gt=0, le=300)
    """How often waiting spans are sent (own)."""
    timeout_s: float = Field(5.0, gt=0, le=60)
    """How long a message may take (own)."""


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a container; times are Unix seconds."""

    container_id: str
    name: str
    start_s: float
    end_s: float
    attributes: Mapping[str, str | int | float | bool]
    error: str = ""
    """Why the step failed; "" when it did not."""


class Tracer(Protocol):
    """Takes spans that are over; never blocks and never raises."""

    def sampled(self, container_id: str) -> bool:
        """Return whether the spans of a container are wanted."""

    def add(self, span: Span) -> None:
        """Take a span, of a sampled container."""

    def close(self) -> None:
        """Send the spans that are kept, within the time of one message."""


class _Off:
    """No traces."""

    def sampled(self, container_id: str) -> bool:
        return False

    def add(self, span: Span) -> None:
        """Take nothing."""

    def close(self) -> None:
        """Have nothing to send."""


_tracer: Tracer = _Off()


def tracer() -> Tracer:
    """Return the tracer of this process."""
    return _tracer


def configure_tracing(settings: TracingSettings, service: str) -> None:
    """Begin to trace, if an endpoint is set. Raises SettingsError without OpenTelemetry, or for a URL that is none."""
    global _tracer
    _tracer.close()
    _tracer = _Off()
    if settings.otlp_endpoint is None:
        return
    parts = urlsplit(settings.otlp_endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        place = f"{SECTION}.otlp_endpoint: {settings.otlp_endpoint}"
        raise SettingsError("is no URL", place=place, remedy="write http://HOST:4318/v1/traces")
    try:
        otlp = OtlpTracer(settings, service)
    except ImportError as error:
        place = f"{SECTION}.otlp_endpoint"
        raise SettingsError(f"needs OpenTelemetry: {error}", place=place, remedy=_EXTRA) from error
    _tracer = otlp
    log.info("containers are traced", endpoint=settings.otlp_endpoint, sampled_ratio=settings.sampled_ratio)


def trace_id(container_id: str) -> int:
    """Return the id of a container's trace, 128 bits."""
    return int.from_bytes(hashlib.sha256(container_id.encode()).digest()[:16], "big")


def span_id(container_id: str, name: str) -> int:
    """Return the id of a container's span, 64 bits."""
    return int.from_bytes(hashlib.sha256(f"{container_id} {name}".encode()).digest()[:8], "big")


class OtlpTracer:
    """Sends spans to a collector from a thread of OpenTelemetry's own; what its queue does not hold is dropped."""

    def __init__(self, settings: TracingSettings, service: str) -> None:
        """Import OpenTelemetry and start its thread. Raises ImportError."""
        self._trace = importlib.import_module("opentelemetry.trace")
        self._sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        http = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        scope = importlib.import_module("opentelemetry.sdk.util.instrumentation")
        self._resource = resources.Resource.create({"service.name": service, "service.version": version()})
        self._scope = scope.InstrumentationScope("quicksilver", version())
        self._processor: Any = export.BatchSpanProcessor(
            http.OTLPSpanExporter(endpoint=settings.otlp_endpoint, timeout=settings.timeout_s),
            max_queue_size=settings.queue,
            schedule_delay_millis=settings.every_s * 1000,
            max_export_batch_size=min(settings.batch, settings.queue),
            export_timeout_millis=settings.timeout_s * 1000,
        )
        self._limit = round(settings.sampled_ratio * 2**64)

    def sampled(self, container_id: str) -> bool:
        """Return whether a container is among the sampled ones: proxy and sidecars agree on it."""
        return self._limit > 0 and trace_id(container_id) & (2**64 - 1) < self._limit

    def add(self, span: Span) -> None:
        """Put a span into the queue."""
        context = self._context(span.container_id, span.name)
        trace = self._trace
        status = trace.Status(trace.StatusCode.ERROR, span.error) if span.error else trace.Status()
        self._processor.on_end(
            self._sdk.ReadableSpan(
                name=span.name,
                context=context,
                parent=None if span.name == ROOT else self._context(span.container_id, ROOT),
                resource=self._resource,
                attributes={"yarn.container.id": span.container_id, **span.attributes},
                kind=trace.SpanKind.INTERNAL,
                status=status,
                start_time=round(span.start_s * _NS),
                end_time=round(max(span.start_s, span.end_s) * _NS),
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """Send the spans that are kept, and end the thread."""
        self._processor.shutdown()

    def _context(self, container_id: str, name: str) -> Any:
        return self._trace.SpanContext(
            trace_id(container_id),
            span_id(container_id, name),
            is_remote=False,
            trace_flags=self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED),
        )
