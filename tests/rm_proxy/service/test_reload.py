"""The proxy's settings while it runs: one assignment, rows of the audit, sidecars that follow or not, drains."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.config.policy_set import Policies
from policies.config.registry import Registry
from policies.config.windows import Coming, Hours
from quicksilver.common.http.rest_server import envelope
from quicksilver.common.messages import ReloadAnswer, ReloadRequest
from quicksilver.common.settings.reload import ReloadRefusedError
from rm_proxy.config import ProxySettings
from rm_proxy.domain.records import ChangeRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.reload import ProxyReloader
from rm_proxy.store.writer import Writer
from tests.answers import answering
from tests.rm_proxy.yarn_messages import ALL_Q, Am, container, coordinator, granted_rows, node_id, report, row, shown

REGISTRY = Registry()
TEXT = "policies: {queues: '*', routes: [{policy: only_q}], place: {policy: random}, quota: {policy: none}}\n"


class Rows:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[ChangeRecord] = []

    def change(self, record: ChangeRecord) -> None:
        self.rows.append(record)


class Daemon:
    def __init__(self, folder: Path) -> None:
        self.path, self.writer, self.metrics = folder / "quicksilver.yaml", Rows(), ProxyMetrics()
        self.path.write_text(TEXT)
        self.world = coordinator(nodes=2)
        self.reloader = ProxyReloader(
            self.world, cast(Writer, self.writer), self.metrics, ProxySettings(), str(self.path)
        )
        self.reloader.begin(1.0)

    def reload(self, **request: Any) -> ReloadAnswer:
        return asyncio.run(self.reloader.reload("ann@::1", "command", ReloadRequest(**request)))


@contextmanager
def sidecar(status: int, body: bytes) -> Iterator[tuple[str, list[Any]]]:
    """A sidecar's REST that always answers so; yields its URL and the requests."""
    asked: list[Any] = []

    def answer(_: str, path: str, request: bytes) -> tuple[int, bytes]:
        asked.append((path, request))
        return status, body

    with answering(answer) as url:
        yield url, asked


def test_settings_are_taken_over_and_each_change_is_a_row(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    started = len(daemon.writer.rows)
    answer = daemon.reload()
    assert daemon.world.policies.version == answer.version and daemon.world.policies.policy_name("place") == "random"
    rows = daemon.writer.rows[started:]
    assert (rows[0].path, rows[0].before, rows[0].after) == ("version", answer.before, answer.version)
    changed = {(r.path, r.before, r.after) for r in rows}
    assert ("policies.place.policy", '"least_queue"', '"random"') in changed
    assert {(r.who, r.how, r.ok) for r in rows} == {("ann@::1", "command", True)}
    assert len({r.id for r in daemon.writer.rows}) == len(daemon.writer.rows)
    assert f'version="{answer.version}"' in daemon.metrics.exposition().decode()


def test_a_refusal_is_a_row_and_no_sidecar_is_asked(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    policies = daemon.world.policies
    daemon.path.write_text("policies: {place: {policy: topk}}")
    with sidecar(200, b"{}") as (url, asked):
        daemon.world.reports.report(node_id(1), report(1, sidecar_url=url), 1.0)
        with pytest.raises(ReloadRefusedError, match="unknown place policy 'topk'"):
            daemon.reload(nodes=True)
    assert daemon.world.policies is policies and asked == []
    row = daemon.writer.rows[-1]
    assert (row.ok, row.path) == (False, "") and "1:28" in row.error
    assert 'reloads_total{how="command",result="refused"} 1.0' in daemon.metrics.exposition().decode()


def test_sidecars_follow_and_those_that_do_not_are_named(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    fine = ReloadAnswer(file="f", version="7-a", before="6-b", kept=["policies.preempt stays"]).model_dump_json()
    refusal = envelope(422, "settings-refused", "f:1:1: no").body
    with sidecar(200, fine.encode()) as (one, asked), sidecar(422, bytes(refusal)) as (two, _):
        daemon.world.reports.report(node_id(1), report(1, sidecar_url=one), 1.0)
        daemon.world.reports.report(node_id(2), report(2, sidecar_url=two), 1.0)
        nodes = {node.node_id: node for node in daemon.reload(nodes=True, file="quicksilver.yaml").nodes}
    assert [path for path, _ in asked] == ["/v1/policies/reload"]
    assert ReloadRequest.model_validate_json(asked[0][1]) == ReloadRequest(who="ann", file="quicksilver.yaml")
    assert (nodes[node_id(1)].version, nodes[node_id(1)].kept) == ("7-a", ["policies.preempt stays"])
    assert not nodes[node_id(2)].ok and "f:1:1: no" in nodes[node_id(2)].error
    rows = {row.path: row.ok for row in daemon.writer.rows if row.path.startswith("nodes.")}
    assert rows == {f"nodes.{node_id(1)}": True, f"nodes.{node_id(2)}": False}


def test_each_decision_names_the_settings_that_made_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    am = Am(daemon.world)
    am.asks(row("*", 1))
    first = daemon.world.policies.version
    second = daemon.reload().version
    am.asks(row("*", 2))
    placed = {q.reason.version: q.placement.version for q in am.attempt.table.by_private.values()}
    assert placed == {first: first, second: second}


def test_what_waits_for_a_node_goes_guaranteed_ahead_of_a_window_that_forbids_it() -> None:
    windows = [{"name": "day", "cron": "0 8 * * *", "length_s": 60, "drain_s": 600, "use": "day"}]
    day = {"alternatives": {"day": {"routes": [{"policy": "only_g"}]}}, "windows": windows}
    policies = Policies.load(ALL_Q | {"place": {"policy": "variance"}} | day)
    world = coordinator(nodes=1)
    world.use(policies, 0.0)
    world.reports.report(node_id(1), report(1, slots=1, vcores=1), 0.0)
    am = Am(world)
    am.asks(row("*", 2))
    (entry,) = am.attempt.entries
    am.gets(*(container(1, 1, r) for r in granted_rows(am.sent.ask).values()))
    am.asks()
    assert (entry.q_wanted, entry.g_share) == (1, 0), "the node is full: it waits"
    am.gets()
    am.now_s = 1.0
    world.use(policies.at(Hours((), (Coming("day", True, 99.0, ("day",)),))), 1.0)
    am.asks()
    assert (entry.q_wanted, entry.g_share) == (1, 0), "it is expected to end before"
    am.gets()
    am.now_s = 95.0
    sent = am.asks()
    assert (entry.q_wanted, entry.g_share) == (0, 1)
    assert {(name, count, kind) for name, count, kind, _ in shown(sent)} == {("*", 1, "G")}


def settings_of(number: int) -> dict[str, Any]:
    place = "least_queue" if number % 2 else "random"
    route = {"policy": "hybrid_gq", "settings": {"td_s": 100.0 + number, "pq": 70.0}}
    return {"queues": "*", "routes": [route], "place": {"policy": place}, "quota": {"policy": "none"}}


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(1, 4)), max_size=15))
def test_no_decision_is_made_by_a_mixture(steps: list[tuple[bool, int]]) -> None:
    """Reasons tell by which settings a decision was made; versions have to tell the same."""
    world = coordinator(settings_of(0), nodes=2)
    am, counts = Am(world), {world.policies.version: 0}
    wanted = 0
    for number, (reload, count) in enumerate(steps, 1):
        if reload:
            world.use(Policies.load(settings_of(number), REGISTRY).numbered(number + 1), float(number))
            counts[world.policies.version] = number
        else:
            wanted += count
            am.asks(row("*", wanted))
            am.gets()
    for q in am.attempt.table.by_private.values():
        assert f"td {100 + counts[q.reason.version]:g} s" in q.reason.text
        assert q.placement.reason.startswith("least_queue" if counts[q.placement.version] % 2 else "random")
    for entry in am.attempt.entries:
        for reason in [*entry.g_reasons, *entry.q_reasons]:
            if "td " in reason.text:
                assert f"td {100 + counts[reason.version]:g} s" in reason.text


def test_what_is_wanted_goes_guaranteed_when_the_mode_becomes_bypass() -> None:
    world = coordinator(ALL_Q | {"place": {"policy": "variance"}}, nodes=1)
    world.reports.report(node_id(1), report(1, slots=1, vcores=1), 0.0)
    am = Am(world)
    am.asks(row("*", 2))
    am.gets(*(container(1, 1, r) for r in granted_rows(am.sent.ask).values()))
    world.use(Policies.load(ALL_Q | {"mode": "bypass"}), 1.0)
    sent = am.asks()
    assert {(name, count, kind) for name, count, kind, _ in shown(sent)} == {("*", 1, "G")}
    (entry,) = am.attempt.entries
    assert (entry.q_wanted, entry.g_share) == (0, 1)
