"""What must always hold, of everything together."""

from __future__ import annotations

from collections import Counter

from policies.model import Kind, Resources
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.domain import ids
from tests.model.application_master import ApplicationMaster
from tests.model.resource_manager import ANY
from tests.model.world import Run

CALM = 3
"""Exchanges without a fault after which the tables have to agree to the last row."""


def check(run: Run) -> None:
    """Raise AssertionError when something is not as it must be."""
    open_q = Resources()
    for am in run.ams:
        attempt = run.coordinator.attempts[am.attempt_id]
        _shares(attempt)
        _live(run, am, attempt)
        _ids(run, am, attempt)
        if run.calm[am.number] >= CALM:
            _tables_agree(run, am, attempt)
            _kinds_agree(run, am, attempt)
        open_q += attempt.live.used_q - attempt.live.over_q + attempt.table.sums.asked_size
    queue = run.coordinator.inventory.queue("root.default")
    assert queue is not None
    assert queue.used_q == open_q, "each queueable container is charged once, and until its node reports its end"


def _shares(attempt: Attempt) -> None:
    """The sums of the ledger are those of the entries, and each entry's shares are its demand."""
    ledger, entries = attempt.table.sums, attempt.entries
    assert ledger.open_q == sum(e.q_wanted + len(e.pending) for e in entries)
    size = Resources()
    for entry in entries:
        n = len(entry.pending)
        size += Resources(entry.resources.memory_mb * n, entry.resources.vcores * n)
        later = id(entry) in attempt.router.undecided
        assert entry.undecided == 0 or (later and entry.undecided > 0), (
            f"{entry.demand} wanted, shares {entry.g_share} {entry.q_wanted} {entry.pending}"
        )
        assert sum(r.count for r in entry.g_reasons) == entry.g_share
        assert sum(r.count for r in entry.q_reasons) == entry.q_wanted
        assert Counter(n for p in entry.pending.values() for n in (p.host, p.rack)) == Counter(entry.rows.pending_at)
        rows, pending_at = entry.rows.by_name, entry.rows.pending_at
        left = {n for n, r in rows.items() if n != ANY and r.num_containers > pending_at.get(n, 0)}
        assert entry.rows.hints()[0] | entry.rows.hints()[1] == left
    assert ledger.asked_size == size
    assert ledger.asked_g == sum(entry.g_share for entry in entries)
    assert set(attempt.table.by_private) == {i for e in entries for i in e.pending}


def _live(run: Run, am: ApplicationMaster, attempt: Attempt) -> None:
    """The proxy counts what it delivered and has not ended, each once."""
    live = list(attempt.live)
    mine = {c.id for c in live}
    assert mine <= run.proxied[am.number]
    for gone in run.proxied[am.number] - mine:
        assert gone in attempt._ends or gone in run.voided, f"{gone} is forgotten"
    for kind, used in ((Kind.GUARANTEED, attempt.live.used_g), (Kind.QUEUEABLE, attempt.live.used_q)):
        assert used == sum((c.resources for c in live if c.kind is kind), Resources())


def _ids(run: Run, am: ApplicationMaster, attempt: Attempt) -> None:
    """What the ResourceManager keeps of queueable asks is bounded by what is pending or parked."""
    kept = {key[1] for key in run.rm.app(am.number).o if ids.is_private(key[1])}
    table = attempt.table
    assert len(kept) <= len(table.by_private) + len(table._parked_for) + run.leaks[am.number]


def _kinds_agree(run: Run, am: ApplicationMaster, attempt: Attempt) -> None:
    """What the ResourceManager made guaranteed is so for the proxy, and nothing else."""
    at_rm = run.rm.app(am.number).containers
    for live in attempt.live:
        number = live.proto.id
        if number in at_rm and live.private_id is not None and live.id not in run.demoted:
            assert at_rm[number].opportunistic == (live.kind is Kind.QUEUEABLE), live
            assert at_rm[number].version == live.version
    for site in run.sites.values():
        for entry in site.node.state.containers.values():
            promoted = attempt.live.get(entry.id)
            if entry.kind == "G" and promoted is not None and entry.grant is not None:
                assert promoted.kind is Kind.GUARANTEED, "the sidecar knows more than the proxy"


def _tables_agree(run: Run, am: ApplicationMaster, attempt: Attempt) -> None:
    """The proxy's idea of the ResourceManager's rows is right, grants on their way taken off."""
    app, table = run.rm.app(am.number), attempt.table
    outstanding = {key[1]: ask for key, by_size in app.o.items() for ask in by_size.values()}
    if run.fresh[am.number]:
        for private, q in table.by_private.items():
            assert outstanding[private].count == 1
            assert outstanding[private].hosts == {q.host: 1}, "old host rows are gone"
    on_their_way = Counter((c.priority.priority, c.allocation_request_id) for c in app.granted)
    for entry in attempt.entries:
        key = (entry.key.priority, entry.rows.key_at_rm.request_id)
        rows = app.g.get(key, {})
        at_rm = rows[ANY].count if ANY in rows else 0
        if not entry.rows.key_at_rm.opportunistic:
            assert at_rm + on_their_way[key] == entry.rows.at_rm.get(ANY, 0), f"{key}: {rows}, told {entry.rows.at_rm}"
    known = {(e.key.priority, e.rows.key_at_rm.request_id) for e in attempt.entries}
    assert not [key for key, rows in app.g.items() if ANY in rows and key not in known]
