"""Commands that run the proxy and that ask it: `quicksilver proxy run`, `node list`, `explain CONTAINER` and others."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.command_line.groups import Command, CommandGroup
from quicksilver.common.messages import Draining
from quicksilver.common.process.loading import loading
from quicksilver.common.process.logs import LEVELS
from quicksilver.common.settings.cli_security import rest_client
from rm_proxy.cli import columns, tables
from rm_proxy.cli.lists import ListCommand, listed
from rm_proxy.cli.requests import REMEDY, get, pages, reading, show
from rm_proxy.cli.times import since_option, times, times_of, within

_ID: Final = re.compile(r"(application|container)_\w*\d+_\d+\w*")
_FINISHED: Final = 100
"""Rows of a list with finished applications that are asked for when --limit is not given."""
_STORE_SORTS: Final = ("submitted", "finished", "elapsed", "id", "name", "user", "queue", "type")
"""Orders that the proxy makes; other columns are sorted here, of all applications."""


@click.group(cls=CommandGroup)
def proxy() -> None:
    """The proxy in front of the ResourceManager's scheduler."""


@proxy.command("run")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The settings; default: $QUICKSILVER_CONFIG, ./quicksilver.yaml, /etc/quicksilver/quicksilver.yaml.",
)
@click.option(
    "--conf-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Hadoop's site files; default: hadoop_conf_dir of the settings, $HADOOP_CONF_DIR, /etc/hadoop/conf.",
)
@click.option("--log-json", is_flag=True, help="Log JSON lines instead of key=value.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def run_proxy(config: Path | None, conf_dir: Path | None, log_json: bool, log_level: str) -> None:
    """Run the proxy until SIGTERM or Ctrl-C; logs go to stderr."""
    from quicksilver.common.hadoop.conf import load_hadoop_conf
    from quicksilver.common.http.security import Security
    from quicksilver.common.process.logs import configure_logs
    from quicksilver.common.process.tracing import tracer
    from quicksilver.common.settings.daemon_sections import configure_daemon
    from quicksilver.common.settings.settings_file import load_settings
    from rm_proxy.config import ProxySettings

    configure_logs(as_json=log_json, level=log_level)
    file = load_settings(config)
    settings, policies = file.section("proxy", ProxySettings), file.policies()
    security, sections = Security(file.security()), configure_daemon(file, "quicksilver-proxy")
    conf = load_hadoop_conf(conf_dir or file.hadoop_conf_dir)
    with loading():
        from rm_proxy.service.process import run  # much to import; settings were checked before

    try:
        run(settings, policies, conf, str(file.path or ""), security, sections)
    finally:
        tracer().close()


@click.group(cls=CommandGroup)
def node() -> None:
    """Nodes and their containers; drain a node."""


@node.command("list")
@click.option("--name", metavar="GLOB", help="Only nodes whose id (host:port) or host matches.")
@click.option("--state", metavar="STATE", help="Only nodes in this state of YARN: RUNNING, UNHEALTHY, LOST ...")
@click.option("--usable/--unusable", default=None, help="Only nodes that may, or may not, get queueable containers.")
@click.option("--rack", help="Only nodes of this rack.")
@click.option("--label", help="Only nodes with this label; '': without one.")
@listed(columns.NODES, "no nodes")
def list_nodes(
    listing: ListCommand,
    url: str,
    name: str | None,
    state: str | None,
    usable: bool | None,
    rack: str | None,
    label: str | None,
) -> None:
    """List the nodes: use by guaranteed (G) and queueable (Q) containers, what waits, why one is unusable."""
    criteria = {"state": state.upper() if state else None, "usable": usable, "rack": rack, "label": label}
    criteria = {key: value for key, value in criteria.items() if value is not None}

    def fetch() -> list[Any]:
        return [
            item
            for item in pages(url, "/v1/nodes")
            if all(item[key] == value for key, value in criteria.items())
            and (name is None or fnmatchcase(item["id"], name) or fnmatchcase(item["host"], name))
        ]

    listing.show(fetch)


@node.command("show")
@click.argument("node_id")
@reading
def show_node(node_id: str, url: str, as_json: bool) -> None:
    """Show NODE_ID (host:port) with the containers that its sidecar knows."""
    show(get(url, f"/v1/nodes/{node_id}"), as_json, tables.node)


@node.command("targets")
@click.option("--part", type=click.Choice(["proxy", "sidecar"]), help="Only these.")
@reading
def node_targets(part: str | None, url: str, as_json: bool) -> None:  # always JSON: what Prometheus reads
    """Print the proxy and its sidecars as targets, in the form of Prometheus' files (file_sd_configs)."""
    click.echo(json.dumps(get(url, "/v1/prometheus/targets", {"part": part} if part else None), indent=2))


@node.command("drain")
@click.argument("node_id")
@click.option("--reason", default="drained by hand", show_default=True, help="Shown wherever the node is.")
@click.option(
    "--within",
    "timeout_s",
    type=click.FloatRange(1, 7 * 86_400),
    metavar="SECONDS",
    help="Kill the queueable containers that still run then; their masters hear that the node is DECOMMISSIONING.",
)
@reading
def drain_node(node_id: str, reason: str, timeout_s: float | None, url: str, as_json: bool) -> None:
    """Drain NODE_ID (host:port): queued containers are shed and requested elsewhere, running ones continue."""
    _drain(url, node_id, Draining(on=True, reason=reason, timeout_s=timeout_s), as_json)


@node.command("undrain")
@click.argument("node_id")
@reading
def undrain_node(node_id: str, url: str, as_json: bool) -> None:
    """Let NODE_ID (host:port) get queueable containers again, unless YARN itself drains it."""
    _drain(url, node_id, Draining(on=False, reason=""), as_json)


def _drain(url: str, node_id: str, order: Draining, as_json: bool) -> None:
    client = rest_client(url, timeout_s=30.0, remedy=REMEDY)
    try:
        client.post(f"/v1/nodes/{node_id}/drain", order)
    finally:
        client.close()
    state = "is drained: nothing is queued there" if order.on else "gets queueable containers again"
    if order.timeout_s is not None:
        state += f", and what still runs in {order.timeout_s:g} s is killed"
    show({"node": node_id, "draining": order.on}, as_json, lambda _: click.echo(f"{node_id} {state}"))


@click.group(cls=CommandGroup)
def queue() -> None:
    """YARN's queues: use, and what is left for queueable containers."""


@queue.command("list")
@click.option("--name", metavar="GLOB", help="Only queues whose full path matches, e.g. 'root.prod*'.")
@click.option("--queueable/--not-queueable", default=None, help="Only queues that may, or may not, have Qs.")
@listed(columns.QUEUES, "no queues")
def list_queues(listing: ListCommand, url: str, name: str | None, queueable: bool | None) -> None:
    """List the leaf queues: what the ResourceManager gives them, and the queueable containers (Q) beside it."""

    def fetch() -> list[Any]:
        return [
            item
            for item in pages(url, "/v1/queues")
            if (name is None or fnmatchcase(item["name"], name)) and queueable in (None, item["queueable"])
        ]

    listing.show(fetch)


@queue.command("show")
@click.argument("name")
@reading
def show_queue(name: str, url: str, as_json: bool) -> None:
    """Show the YARN queue NAME: what its users have and may still have, and the queues above it."""
    show(get(url, f"/v1/queues/{name}"), as_json, tables.queue)


@click.group(cls=CommandGroup)
def app() -> None:
    """Applications, running and finished."""


@app.command("list")
@click.option(
    "--state",
    type=click.Choice(("running", "finished", "unknown", "all")),
    default="running",
    show_default=True,
    help="Finished ones are remembered for proxy.keep_days; unknown: the proxy was not there at their end.",
)
@click.option("--queue", metavar="PATH", help="Only of this YARN queue and those below it: root.prod.")
@click.option("--user", help="Only of this user.")
@click.option("--type", "type_", metavar="TYPE", help="Only of this YARN application type: MAPREDUCE, SPARK, TEZ ...")
@click.option("--name", "text", metavar="TEXT", help="Only those with this in their name or id.")
@since_option
@listed(columns.APPLICATIONS, "no applications")
def list_apps(listing: ListCommand, url: str, state: str, type_: str | None, **options: Any) -> None:
    """List applications: their mode, their guaranteed (G) and queueable (Q) containers, allocated and pending.

    Finished ones come from the store, the newest first, 100 of them without --limit.
    """
    filters = {"type": type_, **{key: options[key] for key in ("queue", "user", "text")}}
    params = {"state": state, **{key: value for key, value in filters.items() if value}, **times_of(options)}
    limit = listing.limit or (None if state == "running" else _FINISHED)
    column = listing.sort
    if column is None:
        params["sort"] = "id" if state == "running" else "-submitted"
    elif column.name.removesuffix("_s") in _STORE_SORTS:
        params["sort"] = f"{'-' if listing.descending else ''}{column.name.removesuffix('_s')}"
    else:
        params["sort"], limit = "-submitted", None
    listing.show(lambda: pages(url, "/v1/applications", params, limit))


@app.command("show")
@click.argument("app_id", metavar="ID")
@reading
def show_app(app_id: str, url: str, as_json: bool) -> None:
    """Show one application, live or finished, with counts and delays of its containers."""
    answer = get(url, f"/v1/applications/{app_id}")
    answer["summary"] = get(url, "/v1/summary", {"app": app_id})
    show(answer, as_json, tables.application)


@app.command("admission")
@click.option("--state", type=click.Choice(("waiting", "in service")), help="Only those that wait, or are in service.")
@listed(columns.ADMISSION, "no applications are admitted as a whole (policies.admit)")
def list_admission(listing: ListCommand, url: str, state: str | None) -> None:
    """List the applications that are admitted as a whole: in service or waiting, core and elastic containers, why."""
    listing.show(lambda: [item for item in get(url, "/v1/admission")["applications"] if state in (None, item["state"])])


@click.group(cls=CommandGroup)
def decision() -> None:
    """Allocated containers: guaranteed (G) or queueable (Q), on which node, and why."""


@decision.command("list")
@click.option("--app", help="Only of this application.")
@click.option("--node", help="Only on this node (host:port).")
@click.option("--container", help="Only this container.")
@click.option("--kind", type=click.Choice(("G", "Q")), help="Only guaranteed, or only queueable ones.")
@within
@listed(columns.DECISIONS, "no decisions", limit=100)
def list_decisions(
    listing: ListCommand, url: str, since: str | None, until: str | None, zone: str, **filters: str | None
) -> None:
    """List allocated containers, the newest first: guaranteed (G) or queueable (Q), on which node, and why.

    `choice list` has the other decisions: what was refused, shed, moved or promoted.
    """
    params = {**times(since, until, zone), **{key: value for key, value in filters.items() if value is not None}}
    listing.show(lambda: pages(url, "/v1/decisions", params, listing.limit))


@click.command(cls=Command)
@click.argument("name", metavar="CONTAINER|APP")
@reading
def explain(name: str, url: str, as_json: bool) -> None:
    """Show why a container is guaranteed or queueable, why it is on its node, why it waited, and how it ended.

    Of an application (application_...): how many containers went where and why, what they waited for, lost and saved.
    """
    if _ID.fullmatch(name) is None:
        problem = f"{name!r} is no id of a container or application"
        raise click.UsageError(f"{problem}; `quicksilver app list` and `quicksilver decision list` have them")
    if name.startswith("application_"):
        show(get(url, f"/v1/applications/{name}/story"), as_json, tables.app_story)
    else:
        show(get(url, f"/v1/containers/{name}"), as_json, tables.explanation)


@click.command(cls=Command)
@click.option("--app", "app_id", help="Only of this application.")
@click.option(
    "--last", "last_s", type=click.FloatRange(0, min_open=True), help="Only this time before now, in seconds."
)
@reading
def summary(app_id: str | None, last_s: float | None, url: str, as_json: bool) -> None:
    """Sum up: containers by node and kind, allocation delays, waiting at the nodes."""
    params = {key: value for key, value in (("app", app_id), ("last_s", last_s)) if value is not None}
    show(get(url, "/v1/summary", params), as_json, tables.summary)


@click.command(cls=Command)
@reading
def health(url: str, as_json: bool) -> None:
    """Show whether the proxy works; exit code 1 when it has a problem, 0 with notices alone."""
    answer = get(url, "/v1/health")
    show(answer, as_json, tables.health)
    if answer.get("status") != "ok":
        raise click.exceptions.Exit(1)
