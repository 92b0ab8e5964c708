"""Prints answers of the REST API for the reading commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from quicksilver.common.command_line.cells import aligned, printable
from rm_proxy.cli.columns import APPLICATIONS, NODES, QUEUES
from rm_proxy.cli.lists import print_items
from rm_proxy.cli.words import amount, moment, precise, seconds

if TYPE_CHECKING:  # not imported before something is printed: the daemon's command has its module beside these
    from rich.console import Console
    from rich.text import Text


def node(answer: dict[str, Any]) -> None:
    """Print a node and its containers."""
    print_items(NODES, [answer])
    _facts(_targets(answer.get("targets") or {}))
    columns = (
        *("container", "kind", "state", ">for s", "size", ">priority", ">expected s"),
        *(">attained s", ">cores", ">shrunk", "by", "why"),
    )
    rows = [
        (
            c["container_id"],
            f"{c['kind']}, AM" if c["am"] else c["kind"],
            c["state"],
            seconds(c["since_s"]),
            amount(c),
            c["priority"],
            seconds(c["expected_s"]),
            seconds(c["attained_s"]),
            "-" if c["cores"] is None else f"{c['cores']:g}",
            c["times_shrunk"],
            c["shrunk_by"] or "-",
            c["why"],
        )
        for c in answer["containers"]
    ]
    _table(columns, rows, "no containers")


def _targets(targets: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the targets of a sidecar in words."""
    facts = []
    limits = []
    if targets.get("max_wait_s") is not None:
        limits.append(f"what would start in more than {targets['max_wait_s']:g} s")
    if targets.get("max_queue") is not None:
        limits.append(f"what waits behind {targets['max_queue']} others")
    if limits:
        facts.append(("de-queued", f"{', '.join(limits)} ({targets['shed_reason']})"))
    if targets.get("limit_q_mb") is not None:
        room = amount({"memory_mb": targets["limit_q_mb"], "vcores": targets["limit_q_vcores"] or 0})
        facts.append(("left to queueables", f"{room} ({targets['limit_reason']})"))
    return facts


def queue(answer: dict[str, Any]) -> None:
    """Print a queue, the queues above it, and its users."""
    print_items(QUEUES, [answer])
    above = [(a["name"], *(amount(a[key]) for key in ("max_capacity", "used_g", "used_q"))) for a in answer["above"]]
    above.append(("all nodes", amount(answer["cluster"]), "", amount(answer["cluster_used_q"])))
    _table(("above it", "max capacity", "used G", "used Q"), above, "")
    users = [(u["user"], amount(u["used_g"]), amount(u["used_q"]), _limit(u["left_q"])) for u in answer["users"]]
    _table(("user", "used G", "used Q", "left for Q"), users, "no users")
    if answer["user_limit"] is not None:
        _facts([("limit of one user", amount(answer["user_limit"]))])


def _limit(resources: dict[str, Any] | None) -> str:
    return "no limit" if resources is None else amount(resources)


def application(answer: dict[str, Any]) -> None:
    """Print an application and the summary of its containers."""
    print_items(APPLICATIONS, [answer])
    facts = [("submitted", moment(answer["submitted_s"])), ("finished", moment(answer["finished_s"]))]
    if answer["mode_reason"]:
        facts.append(("why this mode", answer["mode_reason"]))
    if answer["waits"]:
        facts.append(("waits", answer["waits"]))
    _facts(facts)
    summary(answer["summary"])


def comparisons(items: Sequence[dict[str, Any]]) -> None:
    """Print how alternatives compare, and the last decisions of each that differ."""
    columns = (
        *("alternative", "slot", "policy", "in use", ">decisions", ">differ", ">differ %", ">waits less s"),
        *(">faults", ">left out"),
    )
    rows = [
        (
            *(item[key] for key in ("alternative", "slot", "policy", "active", "decisions", "differ")),
            f"{item['differ_percent']:.1f}",
            precise(item["wait_less_s"]),
            item["faults"],
            item["left_out"],
        )
        for item in items
    ]
    _table(columns, rows, "nothing to compare: no alternative of policies.shadow differs, or nothing was decided yet")
    examples = [
        (item["alternative"], item["slot"], moment(e["at_s"]), e["app_id"] or "-", e["chosen"], e["other"], e["reason"])
        for item in items
        for e in item["examples"][:3]
    ]
    if examples:
        _table(("alternative", "slot", "when", "application", "decided", "it would", "because"), examples, "")


def changes(items: Sequence[dict[str, Any]]) -> None:
    """Print changes of the settings, one a line."""
    columns = ("when", "who", "how", "setting", "before", "after")
    rows = [
        (
            moment(change["at_s"]),
            change["who"],
            change["how"] if change["ok"] else f"{change['how']}, refused",
            change["path"] or "-",
            change["before"] or "-",
            change["after"] or change["error"] or "-",
        )
        for change in items
    ]
    _table(columns, rows, "no changes")


def explanation(answer: dict[str, Any]) -> None:
    """Print a container's story, then the candidates of its placement."""
    console = _console()
    decision, app = answer["decision"], answer["application"]
    of = f" of {app['name'] or app['id']} ({app['type']}, queue {app['queue']}, user {app['user']})" if app else ""
    size = f", {amount(decision['resources'])}, priority {decision['priority']}" if decision else ""
    console.print(_text(f"{answer['container_id']}{of}{size}"))
    for sentence in answer["story"]:
        console.print(_text(f"  {sentence}"), soft_wrap=True)
    if decision and decision["scores"]:
        rows = [
            (
                candidate["node"],
                "inf" if candidate["score"] is None else f"{candidate['score']:g}",
                "*" if candidate["node"] == decision["node_id"] else "",
            )
            for candidate in decision["scores"]
        ]
        _table(("candidate", f">score ({decision['unit']})", "taken"), rows, "")


def app_story(answer: dict[str, Any]) -> None:
    """Print an application's story."""
    console, app = _console(), answer["application"]
    of = f" {app['name']} ({app['type']}, queue {app['queue']}, user {app['user']})" if app else ""
    console.print(_text(f"{answer['app_id']}{of}"))
    for sentence in answer["story"]:
        console.print(_text(f"  {sentence}"), soft_wrap=True)


def ledger(items: Sequence[dict[str, Any]], by: str) -> None:
    """Print rows of the ledger."""
    names = {"containers_g": "G", "containers_q": "Q", "started_q": "started Q", "lost_ratio": "done twice"}
    keys = [key for key in items[0] if key not in ("key", "name", "queue", "user")] if items else []
    titles = [f">{names.get(key, key.replace('_s', ' s').replace('_', ' '))}" for key in keys]
    named = ["name", "queue", "user"] if by == "app" else []
    rows = [
        (
            *(item[key] or "-" for key in ("key", *named)),
            *(_ledger_cell(key, item[key]) for key in keys),
        )
        for item in items
    ]
    _table([by, *named, *titles], rows, "nothing happened")


def _ledger_cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if key.endswith("_ratio") else f"{value:.1f}" if key.endswith("_s") else str(value)


def summary(answer: dict[str, Any]) -> None:
    """Print counts by node and kind, then delays."""
    rows = [(item["node_id"], item["guaranteed"], item["queueable"]) for item in answer["nodes"]]
    rows.append(("all", answer["guaranteed"], answer["queueable"]))
    _table(("node", ">G", ">Q"), rows, "")
    delays = (("allocation G", "allocation_g"), ("allocation Q", "allocation_q"), ("queued at its node", "queueing"))
    keys = ("p50_s", "p95_s", "max_s")
    lines = [
        (title, answer[name]["count"], answer[name]["waiting"], *(precise(answer[name][key]) for key in keys))
        for title, name in delays
    ]
    _table(("delay", ">count", ">still waiting", ">p50 s", ">p95 s", ">max s"), lines, "")
    if answer["events"]:
        _facts([("events", ", ".join(f"{kind} {count}" for kind, count in answer["events"].items()))])


def estimates(answer: dict[str, Any]) -> None:
    """Print how good expected durations were, one span a line."""
    columns = ("from", ">ended", ">mean ran s", ">mean error", ">median", ">p95", ">bias")
    spans = [(moment(bucket["from_s"]), bucket) for bucket in answer["buckets"]]
    if answer["all"] is not None:
        spans.append(("all", answer["all"]))
    rows = [
        (
            title,
            span["count"],
            seconds(span["mean_ran_s"]),
            *(f"{span[name]:.0%}" for name in ("mean_error", "median_error", "p95_error")),
            f"{span['bias']:+.0%}",
        )
        for title, span in spans
    ]
    _table(columns, rows, "no container ended in this time")


def health(answer: dict[str, Any]) -> None:
    """Print the proxy's state, its problems and its notices."""
    _facts(
        [
            ("status", answer["status"]),
            ("version", answer["version"]),
            ("settings", answer["settings_version"]),
            ("mode", answer["mode"]),
            ("since", moment(answer["started_s"])),
            ("listens on", answer["listen"]),
            ("relays to", answer["upstream"]),
            ("ResourceManager", f"{answer['rm_web']} ({'answers' if answer['rm_reachable'] else 'does not answer'})"),
            ("nodes", f"{answer['nodes_usable']} of {answer['nodes']} usable"),
            ("applications", f"{answer['attempts']} attempts, {answer['connections']} connections"),
            ("store", f"{answer['store']} ({answer['store_backlog']} rows wait)"),
        ]
    )
    for problem in answer["problems"]:
        _console().print(_text(f"problem: {problem}"), soft_wrap=True)
    for notice in answer["notices"]:
        _console().print(_text(f"notice: {notice}"), soft_wrap=True)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(printable(text))


def _facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names with their values; long values are wrapped on a terminal alone."""
    pairs = list(facts)
    if not sys.stdout.isatty():
        click.echo(aligned((), [(name, value or "") for name, value in pairs], (False, False), header=False), nl=False)
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, value in pairs:
        table.add_row(_text(name), _text(value))
    _console().print(table)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str) -> None:
    """Print a table; a column whose title begins with `>` is aligned to the right."""
    titles = [title.removeprefix(">") for title in columns]
    right = [title.startswith(">") for title in columns]
    if not rows:
        click.echo(nothing)
        return
    if not sys.stdout.isatty():
        click.echo(aligned(titles, [[str(cell) for cell in row] for row in rows], right), nl=False)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title, at_right in zip(titles, right, strict=True):
        table.add_column(title, justify="right" if at_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_text(str(cell)) for cell in row))
    _console().print(table)
