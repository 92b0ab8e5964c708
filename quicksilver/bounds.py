"""Every bound of what comes from outside, in one place; the tables of docs/operations.md are made from it.

Those of described applications are in quicksilver_apps/bounds.py.

A bound is a setting, or a constant beside the code that keeps to it. One that is new gets a row here, then
`python -m quicksilver.bounds docs/operations.md` writes the tables anew. A test compares them, and wants each constant
here by which something is forgotten or dropped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hadoop_rpc.connection import MAX_NAMES
from hadoop_rpc.frames import BEFORE_LOGIN_BYTES
from policies.config.guarded_call import CALL_LIMIT_S, OFF_S
from quicksilver.common.http.acceptor import HANDSHAKE_S, RESERVED_FILES
from quicksilver.common.http.access import MAX_TOKEN
from quicksilver.common.http.async_client import MAX_ANSWER
from quicksilver.common.http.audit_trail import MAX_BODY
from quicksilver.common.http.connection import ANSWER_S, HEAD_BYTES, HEADERS, PIPELINED, REQUEST_S
from quicksilver.common.http.rest_server import DEFAULT_BODY_BYTES
from quicksilver.common.process.audit_log import MAX_VALUE
from quicksilver.common.process.limits import MAX_PEERS
from quicksilver.common.process.listening import BACKLOG
from quicksilver.common.reports.deltas import DELTA_BYTES
from quicksilver.common.reports.frames import IDLE_S
from quicksilver.common.store.sqlite_file import MAX_ASIDE
from quicksilver.common.web.access import MAX_FORM
from quicksilver.manual.made_parts import with_part
from quicksilver.policy.schema import SECTIONS
from rm_proxy.api.received_report import MAX_NUMBER
from rm_proxy.api.report_connections import FRAME_S, MAX_RECEIPTS, UNREAD_BYTES
from rm_proxy.attempt.asks.ask_table import MAX_FORMS, MAX_PARKED
from rm_proxy.attempt.completions import REMEMBERED_ENDS, REMEMBERED_KILLS, REMEMBERED_RELEASES
from rm_proxy.attempt.promotion_requests import MAX_LATELY, MAX_OUTSTANDING
from rm_proxy.attempt.routing.router import MAX_CREDITS, MAX_ROUTED
from rm_proxy.attempt.routing.steering import MAX_PLACED
from rm_proxy.attempt.snapshot import MAX_ENDED
from rm_proxy.coordinator import error_budget, yarn_inventory
from rm_proxy.coordinator.nodes.node_queues import MAX_STAGES
from rm_proxy.coordinator.nodes.nodes import MAX_OWN
from rm_proxy.coordinator.nodes.usage_history import MAX_NODES
from rm_proxy.coordinator.reports.sidecar_reports import MAX_UNLISTED
from rm_proxy.dispatch.central_queue import MAX_PLACED as MAX_GROUPS
from rm_proxy.dispatch.free_places import MAX_SIZES
from rm_proxy.domain.ids import MAX_REMEMBERED as MAX_IDS
from rm_proxy.domain.message_checks import MAX_READ_BYTES, MAX_RELEASES, MAX_REQUEST_BYTES, MAX_ROWS, MAX_ROWS_KEPT
from rm_proxy.estimates.estimator import MAX_KEYS, MAX_LOST
from rm_proxy.estimates.user_honesty import MAX_USERS
from rm_proxy.history.cluster_sample import MAX_SHRINKS
from rm_proxy.history.delay_window import MAX_DELIVERIES
from rm_proxy.history.queue_counts import MAX_QUEUES
from rm_proxy.job_classes.classes import MAX_EARLIER, MAX_JOBS
from rm_proxy.probes.prober import MAX_PROBES
from rm_proxy.probes.unprobed import MAX_ATTEMPTS
from rm_proxy.queue_metrics import MAX_ENDS
from rm_proxy.relay.relay import MAX_OUTSTANDING as MAX_CALLS_OF_MASTER
from rm_proxy.service import reload
from rm_proxy.service.connections.connection_limits import SMALL_BYTES
from rm_proxy.service.connections.costly_attempts import ATTEMPT_RATIO, SLICE_S, SLICES, USER_RATIO
from rm_proxy.service.sampling.decision_sampling import MAX_KINDS
from rm_proxy.service.workers import worker_links
from rm_proxy.service.workers.front import MAX_LOGIN_BYTES
from rm_proxy.service.workers.worker import LOST_S
from rm_proxy.store.applications import MAX_REMEMBERED as MAX_STORED_APPS
from rm_proxy.store.writer import MAX_TEXT
from rm_proxy.yarn import client
from sidecar.connections.connection import MAX_KEPT_BYTES
from sidecar.gate.gate import MAX_IN_FLIGHT
from sidecar.node.starts.launches import MAX_FORGERS
from sidecar.service import report_line, server
from sidecar.shadow.node_shadow import MAX_FILLS
from sidecar.tracker.relay import MAX_CALLS


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound: of what, how much, what happens beyond it, and what shows that."""

    subject: str
    limit: str
    beyond: str
    shown: str = ""


def setting(name: str) -> str:
    """Return a setting of `section.name` with its default. Raises KeyError when there is none."""
    section, _, key = name.partition(".")
    return f"`{key}` ({SECTIONS[section].model_fields[key].default:g})"


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that divides it."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def rest_bounds() -> Sequence[Bound]:
    """Return the bounds of REST, which proxy, sidecar and app server have alike."""
    return (
        Bound(
            "connections, from accept() on",
            "`rest_connections`; a third of few open files",
            "one that waits for a request is closed for the new one: of the host with most of them the one that has "
            "waited longest; where all are being answered, the new one is closed",
            "the log",
        ),
        Bound("connections that wait for accept()", f"{BACKLOG}", "the kernel drops them"),
        Bound("the last open files of the process", f"{RESERVED_FILES}, not for REST", "closed at once", "the log"),
        Bound("a TLS handshake", f"{HANDSHAKE_S:g} s", "closed", "`auth_failures_total`"),
        Bound("the head of a request; its trailers; a chunk's header", size(HEAD_BYTES), "431 and closed", "the log"),
        Bound("headers of a request, with its trailers", f"{HEADERS}", "431 and closed", "the log"),
        Bound("requests that wait behind the one that is answered", f"{PIPELINED}", "closed", "the log"),
        Bound("an incomplete request", f"{REQUEST_S:g} s", "closed", "the log"),
        Bound("an answer that nobody reads", f"{ANSWER_S:g} s", "closed", "the log"),
        Bound("levels of JSON", "what Python's reader takes, about 900", "422"),
        Bound("a token; a login's form", f"{MAX_TOKEN} characters; {MAX_FORM} bytes", "cut, so unknown"),
        Bound("audit: what a line has of a body; one value", f"{MAX_BODY} bytes; {MAX_VALUE} characters", "cut"),
        Bound(
            "audit, log: calls that are refused or prove nothing",
            f"one a minute for each of {MAX_PEERS} peers",
            "counted",
            "`LEFT_OUT`, `others_since`",
        ),
        Bound("an answer of a peer's REST", f"{size(MAX_ANSWER)}, where no other row says more", "an error"),
    )


def proxy_bounds() -> Sequence[Bound]:
    """Return the bounds of the proxy."""
    return (*_connections(), *_calls(), *_remembered(), *_elsewhere())


def _connections() -> Sequence[Bound]:
    refused = "`connections_refused_total{reason="
    return (
        Bound(
            "connections of application masters",
            f"{setting('proxy.max_connections')}; fewer where too few open files are allowed",
            "closed at once",
            f'{refused}"limit"}}`',
        ),
        Bound(
            "those of one host before their login",
            setting("proxy.max_logins_per_host"),
            "closed at once",
            '`{reason="host"}`',
        ),
        Bound(
            "a connection that does not log in",
            f"{setting('proxy.handshake_timeout_s')}; it costs the ResourceManager nothing until it sends something",
            "closed",
            '`{reason="handshake"}`',
        ),
        Bound("a peer that vanished", "TCP keepalive, 2 minutes", "closed", "`connections`"),
    )


def _calls() -> Sequence[Bound]:
    return (
        Bound(
            "one frame",
            f"{size(BEFORE_LOGIN_BYTES)} before the login, after it {size(MAX_REQUEST_BYTES)} of an application master "
            f"and {setting('proxy.max_frame_mb')} of the ResourceManager",
            "closed, unread",
            "`protocol_errors_total`",
        ),
        Bound(
            "one allocate request; rows of an attempt",
            f"{size(MAX_READ_BYTES)}, {MAX_ROWS} rows, {MAX_RELEASES} releases, as many names on its blacklist; "
            f"{MAX_ROWS_KEPT}",
            "passes unread: what this attempt asks for stays guaranteed until it registers again",
            '`resyncs_total{step="too-large"}`',
        ),
        Bound(
            "time of the proxy that one attempt, or all of one user, may take while others wait",
            f"{ATTEMPT_RATIO:.0%} of the last {SLICE_S * SLICES:.0f} s; {USER_RATIO:.0%}",
            "the costliest attempt passes unread until it registers again",
            '`resyncs_total{step="too-large"}`',
        ),
        Bound(
            "incomplete frames, all together",
            setting("proxy.max_unfinished_mb"),
            f"connections with more than {size(SMALL_BYTES)} of one are closed",
            '`{reason="memory"}`',
        ),
        Bound(
            "calls of one connection without an answer",
            f"{MAX_CALLS_OF_MASTER}, each with an id of its own",
            "closed",
            "`protocol_errors_total`",
        ),
        Bound("names of methods, by connection", f"{MAX_NAMES}", "read anew each time"),
        Bound(
            "answers that an application master does not read",
            "the transport's buffer and one read",
            "the proxy stops reading from the ResourceManager meanwhile",
        ),
        Bound(
            "containers decided with one request",
            f"{MAX_ROUTED}, of which {MAX_PLACED} are placed",
            "the rest follows with the next requests",
            "`wanted_containers`",
        ),
        Bound(
            "request ids of placements that were not granted, by attempt",
            f"{MAX_PARKED}",
            "asks go guaranteed",
            "`fallbacks_total`",
        ),
    )


def _remembered() -> Sequence[Bound]:
    ends = f"{REMEMBERED_ENDS}; {REMEMBERED_RELEASES}; {REMEMBERED_KILLS}; in the journal {MAX_ENDED}"
    return (
        Bound("of an attempt: ends; releases; kills", ends, "the oldest is forgotten"),
        Bound("priorities and sizes of asks whose rows are remembered", f"{MAX_FORMS}", "rows are made anew"),
        Bound("of an attempt: lost containers of a size to ask for again", f"{MAX_CREDITS}", "the oldest is forgotten"),
        Bound(
            "of an attempt: promotions under way; recent ones",
            f"{MAX_OUTSTANDING}; {MAX_LATELY}",
            "they wait; the oldest is forgotten",
        ),
        Bound(
            "applications remembered",
            f"{yarn_inventory.MAX_APPS}",
            "ended ones are forgotten, the oldest first, also while the ResourceManager's REST is away",
        ),
        Bound(
            "a call of a policy", f"{CALL_LIMIT_S:g} s", f"the policy is off for {OFF_S:g} s", "`policy_faults_total`"
        ),
        Bound("containers whose delays are counted at a time", f"{MAX_DELIVERIES}", "the oldest are forgotten"),
        Bound("applications with faults", f"{error_budget.MAX_APPS}", "the ones with the oldest faults are forgotten"),
        Bound("nodes that report and that YARN does not list", f"{MAX_UNLISTED}", "their reports get 503"),
        Bound("containers counted at a node before it reports them", f"{MAX_OWN}", "the oldest is forgotten"),
        Bound("estimates: jobs and names; lost tasks", f"{MAX_KEYS}; {MAX_LOST}", "the oldest are forgotten"),
        Bound("users whose hints are judged", f"{MAX_USERS}", "the oldest are forgotten"),
        Bound(
            "jobs with a class; ended ones that are learnt from",
            f"{MAX_JOBS}; {MAX_EARLIER}",
            "the oldest are forgotten",
        ),
        Bound("stages whose waits are known", f"{MAX_STAGES}", "the oldest are forgotten"),
        Bound("nodes whose weeks are known", f"{MAX_NODES}", "the ones seen longest ago are forgotten"),
        Bound(
            "probes of an application; attempts with probes",
            f"{MAX_PROBES}; {MAX_ATTEMPTS}",
            "none are sent; the oldest are forgotten",
        ),
        Bound("groups of the central queue", f"{MAX_GROUPS}", "the oldest are forgotten"),
        Bound("sizes of containers whose free places are known", f"{MAX_SIZES}", "the oldest are forgotten"),
        Bound("ids that are taken apart once", f"{MAX_IDS}", "taken apart anew"),
        Bound(
            "queues with a history; with metrics",
            f"{MAX_QUEUES}; {setting('proxy.metrics_queues')}",
            "the idle ones lose it; counted as `other`",
        ),
        Bound("ends of applications for metrics", f"{MAX_ENDS}", "the oldest are forgotten"),
    )


def _elsewhere() -> Sequence[Bound]:
    return (
        Bound(
            "announcements",
            f"{setting('proxy.announce_queue')} nodes",
            "dropped; drops go with the next report's answer",
            '`announcements_total{result="dropped"}`',
        ),
        Bound(
            "rows for the store",
            f"{setting('proxy.store_queue')}, texts of {MAX_TEXT} characters",
            "dropped",
            "`store_dropped_total`",
        ),
        Bound("applications of which the store knows more", f"{MAX_STORED_APPS}", "read from the store"),
        Bound("stores that were damaged and set aside", f"{MAX_ASIDE}", "no new one begins", "the log"),
        Bound("shrinks for the dashboard", f"{MAX_SHRINKS}", "the oldest are forgotten"),
        Bound(
            "decisions in memory; kinds of them",
            f"{setting('proxy.decisions_recent')}; {MAX_KINDS}",
            "the oldest is forgotten",
        ),
        Bound("bodies of REST", setting("proxy.max_body_mb"), "413"),
        Bound(
            "connections for reports: a frame; its changes since the last whole report; bytes that nobody reads",
            f"{setting('proxy.max_body_mb')}; {size(DELTA_BYTES)}; {size(UNREAD_BYTES)}",
            "closed; the sidecar begins anew with a whole report",
            "the log",
        ),
        Bound(
            "a node's connections for reports; time without a report, for a frame",
            f"1; {IDLE_S:g} s, {FRAME_S:g} s",
            "the earlier one is closed; closed",
            "`report_connections`, the log",
        ),
        Bound("grants that a sidecar has not acknowledged", f"{MAX_RECEIPTS}", "an error", "the log"),
        Bound(
            "several workers: a login before its worker has it; bytes that another worker does not read",
            f"{size(MAX_LOGIN_BYTES)}; {size(worker_links.UNREAD_BYTES)}",
            f"closed; the link to it, and after {LOST_S:g} s without one a worker is started anew",
            "the log",
        ),
        Bound("a number of a sidecar's report", f"finite, up to {MAX_NUMBER:.0e}", "422"),
        Bound(
            "an answer of YARN's REST; of a sidecar",
            f"{size(client.MAX_ANSWER)}; {size(reload.MAX_ANSWER)}",
            "an error",
            "the log",
        ),
    )


def sidecar_bounds() -> Sequence[Bound]:
    """Return the bounds of the sidecar."""
    refused = "`quicksilver_sidecar_connections_refused_total`"
    connections = f"{setting('sidecar.max_connections')}, {setting('sidecar.web_connections')}"
    frame = f"{size(BEFORE_LOGIN_BYTES)} before the login, {setting('sidecar.max_frame_mb')} after it"
    starts = f"{setting('sidecar.queue_max_length')}, {setting('sidecar.queue_max_mb')}"
    announced = f"{setting('sidecar.announced_max')}, {setting('sidecar.announce_keep_s')}"
    return (
        Bound("connections", connections, "closed at once", refused),
        Bound("one frame", frame, "closed, unread", "the log"),
        Bound(
            "bytes that one side does not read",
            setting("sidecar.buffer_mb"),
            "the sidecar stops reading from the other side meanwhile",
        ),
        Bound(
            "calls of one client that wait for a decision",
            size(MAX_KEPT_BYTES),
            "the sidecar stops reading from it meanwhile",
        ),
        Bound(
            "calls of one client without an answer",
            f"{MAX_IN_FLIGHT}, each with an id of its own",
            "closed",
            "`quicksilver_sidecar_protocol_errors_total`",
        ),
        Bound("held starts", starts, "shed at once, asked for again", "the container's events"),
        Bound(
            "announcements without a start",
            announced,
            "the oldest is forgotten; its start waits `announce_wait_s` and then passes as Hadoop's own",
        ),
        Bound("applications whose tokens were wrong", f"{MAX_FORGERS}", "the oldest is forgotten"),
        Bound(
            "events that the proxy has not acknowledged",
            setting("sidecar.events_max"),
            "the oldest is dropped",
            "the log",
        ),
        Bound("answers of a policy on trial", f"{MAX_FILLS}", "asked anew"),
        Bound("bodies of REST", size(DEFAULT_BODY_BYTES), "413"),
        Bound(
            "an answer of the NodeManager; of the proxy",
            f"{size(server.MAX_ANSWER)}; {size(report_line.MAX_ANSWER)}",
            "an error",
            "the log",
        ),
        Bound(
            "tracker: connections; calls without an answer",
            f"{setting('tracker.max_connections')}; {MAX_CALLS}, each with an id of its own",
            "closed",
            "the log",
        ),
    )


PARTS: Final[Mapping[str, Sequence[Bound]]] = {
    "of REST, at the proxy, the sidecar and the app server": rest_bounds(),
    "of the proxy": proxy_bounds(),
    "of the sidecar and the tracker": sidecar_bounds(),
}
COMMAND: Final = "python -m quicksilver.bounds docs/operations.md"
END: Final = "<!-- end of bounds -->\n"


def tables(parts: Mapping[str, Sequence[Bound]] = PARTS) -> str:
    """Return the tables as Markdown."""
    return "\n".join(_lines(parts))


def _lines(parts: Mapping[str, Sequence[Bound]]) -> Iterator[str]:
    for part, bounds in parts.items():
        yield f"| {part} | bound | beyond it | shown by |"
        yield "|---|---|---|---|"
        for bound in bounds:
            yield f"| {bound.subject} | {bound.limit} | {bound.beyond} | {bound.shown} |".replace("|  |", "| |")
        yield ""


def with_tables(page: str, parts: Mapping[str, Sequence[Bound]] = PARTS, command: str = COMMAND) -> str:
    """Return a page with its tables as they are now. Raises ValueError when it has no place for them."""
    return with_part(page, f"<!-- bounds: made by `{command}` -->\n", tables(parts), END)


def write_tables(parts: Mapping[str, Sequence[Bound]] = PARTS, command: str = COMMAND) -> None:
    """Write the tables of the page that the command line names anew."""
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text(), parts, command))


if __name__ == "__main__":
    write_tables()
