"""The demo's tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from quicksilver.workloads.records import OPPORTUNISTIC
from quicksilver.workloads.run_records import HeldStarts, Percentiles, Way


def show(console: Console, plain: Way, through: Way, held: HeldStarts, words: int) -> None:
    """Print both ways side by side, and what confirms them."""
    table = Table(title="The same job both ways", title_justify="left")
    for heading in ("", "plain YARN", "quicksilver"):
        table.add_column(heading, justify="left" if not heading else "right")
    for row in _rows(plain, through, held):
        table.add_row(*row)
    console.print(table)
    agreed = "they agree" if not through.disagreeing else f"they differ on {', '.join(through.disagreeing)}"
    console.print(f"execution types: RM log {through.rm_opportunistic} opportunistic grants; ", end="")
    console.print(f"NM REST {through.nm_opportunistic} opportunistic containers; {agreed}")
    console.print(f"held starts: {held.held} by the sidecars, {held.confirmed} confirmed by the NMs' logs")
    console.print(f"output: {words} words, equal in both ways and to the input")


def _rows(plain: Way, through: Way, held: HeldStarts) -> list[tuple[str, str, str]]:
    rows = []
    for node in sorted(plain.nodes | through.nodes):
        rows.append((f"containers on {node}", _kinds(plain, node), _kinds(through, node)))
    rows += [
        ("delay of G, p50 / p95 (AM's log, maps)", _delay(plain.delay_g), _delay(through.delay_g)),
        ("delay of Q, p50 / p95 (AM's log, maps)", _delay(plain.delay_q), _delay(through.delay_q)),
        ("ask to delivery of G, p50 / p95 (proxy)", "-", _proxy(held.proxy_delay_g)),
        ("ask to delivery of Q, p50 / p95 (proxy)", "-", _proxy(held.proxy_delay_q)),
        ("queueing at the nodes, p50 / p95", "-", _delay(held.waited)),
        ("failed / killed attempts", _lost(plain), _lost(through)),
        ("job time", f"{plain.job_s:.1f} s", f"{through.job_s:.1f} s"),
    ]
    return rows


def _kinds(way: Way, node: str) -> str:
    kinds = way.nodes.get(node, {})
    queueable = kinds.get(OPPORTUNISTIC, 0)
    return f"{sum(kinds.values()) - queueable} G, {queueable} Q"


def _delay(values: Percentiles) -> str:
    if values.p50_s is None or values.p95_s is None:
        return "-"
    return f"{values.p50_s * 1000:.0f} / {values.p95_s * 1000:.0f} ms ({values.count})"


def _proxy(values: dict[str, Any]) -> str:
    return _delay(Percentiles(values["count"], values["p50_s"], values["p95_s"]))


def _lost(way: Way) -> str:
    return f"{way.failed_attempts} / {way.killed_attempts}"
