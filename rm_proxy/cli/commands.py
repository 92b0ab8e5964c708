"""Commands that run the proxy and that ask it: `quicksilver proxy run`, `node list`, `explain CONTAINER` and others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.rest_errors import RefusedError
from quicksilver.common.messages import Draining
from quicksilver.common.process.loading import loading
from quicksilver.common.process.logs import LEVELS
from quicksilver.common.settings.cli_security import DEFAULT_URL, default_url, rest_client, showing
from rm_proxy.cli import tables

_PAGE: Final = 1000
REMEDY: Final = "start the proxy (`quicksilver proxy run`), or name its REST address with --url or $QUICKSILVER_URL"

Command = Callable[..., None]


def reading(command: Command) -> Command:
    """Add the options of all reading commands: --url, --token-file, --ca and --json."""
    url = click.option(
        "--url",
        envvar="QUICKSILVER_URL",
        callback=lambda _ctx, _param, value: value or default_url(),
        help=f"The proxy's REST; default: {DEFAULT_URL}, or https:// where the settings have `security.tls_ca`.",
    )
    command = showing(command)
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return url(as_json(command))


def limited(command: Command) -> Command:
    """Add --limit."""
    return click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most rows.")(
        command
    )


@click.group()
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


@click.group()
def node() -> None:
    """The cluster's nodes."""


@node.command("list")
@reading
def list_nodes(url: str, as_json: bool) -> None:
    """List the nodes with their guaranteed and queueable containers' use."""
    show(pages(url, "/v1/nodes"), as_json, tables.nodes)


@node.command("show")
@click.argument("node_id")
@reading
def show_node(node_id: str, url: str, as_json: bool) -> None:
    """Show NODE_ID (host:port) with the containers that its sidecar knows."""
    show(get(url, f"/v1/nodes/{node_id}"), as_json, tables.node)


@node.command("targets")
@click.option("--part", type=click.Choice(["proxy", "sidecar"]), help="Only these.")
@reading
def node_targets(part: str | None, url: str, as_json: bool) -> None:
    """Print the proxy and its sidecars as targets, in the form of Prometheus' files (file_sd_configs)."""
    show(get(url, "/v1/prometheus/targets", {"part": part} if part else None), True, tables.nodes)


@node.command("drain")
@click.argument("node_id")
@click.option("--reason", default="drained by hand", show_default=True, help="Shown wherever the node is.")
@reading
def drain_node(node_id: str, reason: str, url: str, as_json: bool) -> None:
    """Have NODE_ID (host:port) hold nothing: waiting containers are shed and asked for again, running ones continue."""
    _drain(url, node_id, Draining(on=True, reason=reason), as_json)


@node.command("undrain")
@click.argument("node_id")
@reading
def undrain_node(node_id: str, url: str, as_json: bool) -> None:
    """Let NODE_ID (host:port) take queueable containers again, unless YARN itself empties it."""
    _drain(url, node_id, Draining(on=False, reason=""), as_json)


def _drain(url: str, node_id: str, wanted: Draining, as_json: bool) -> None:
    client = rest_client(url, timeout_s=30.0, remedy=REMEDY)
    try:
        client.post(f"/v1/nodes/{node_id}/drain", wanted)
    finally:
        client.close()
    state = "holds nothing" if wanted.on else "takes queueable containers again"
    show({"node": node_id, "draining": wanted.on}, as_json, lambda _: click.echo(f"{node_id} {state}"))


@click.group()
def queue() -> None:
    """YARN's queues."""


@queue.command("list")
@reading
def list_queues(url: str, as_json: bool) -> None:
    """List the queues: what the ResourceManager gives them, and the queueable containers beside it."""
    show(pages(url, "/v1/queues"), as_json, tables.queues)


@queue.command("show")
@click.argument("name")
@reading
def show_queue(name: str, url: str, as_json: bool) -> None:
    """Show the YARN queue NAME: what its users have and may still have, and the queues above it."""
    show(get(url, f"/v1/queues/{name}"), as_json, tables.queue)


@click.group()
def app() -> None:
    """Applications."""


@app.command("list")
@reading
def list_apps(url: str, as_json: bool) -> None:
    """List the applications that live now."""
    show(pages(url, "/v1/applications"), as_json, tables.applications)


@app.command("show")
@click.argument("app_id", metavar="ID")
@reading
def show_app(app_id: str, url: str, as_json: bool) -> None:
    """Show one application, live or finished, with counts and delays of its containers."""
    answer = get(url, f"/v1/applications/{app_id}")
    answer["summary"] = get(url, "/v1/summary", {"app": app_id})
    show(answer, as_json, tables.application)


@click.group()
def decision() -> None:
    """Containers as they were delivered."""


@decision.command("list")
@click.option("--app", "app_id", help="Only of this application.")
@limited
@reading
def list_decisions(app_id: str | None, limit: int, url: str, as_json: bool) -> None:
    """List delivered containers, the newest first, with the reason of their kind."""
    params = {"app": app_id} if app_id else {}
    show(pages(url, "/v1/decisions", params, limit), as_json, tables.decisions)


@click.command()
@click.argument("name", metavar="CONTAINER|APP")
@reading
def explain(name: str, url: str, as_json: bool) -> None:
    """Show why a container is guaranteed or queueable, why it is on its node, why it waited, and how it ended.

    Of an application (application_...): how many containers went where and why, what they waited for, lost and saved.
    """
    if name.startswith("application_"):
        show(get(url, f"/v1/applications/{name}/story"), as_json, tables.app_story)
    else:
        show(get(url, f"/v1/containers/{name}"), as_json, tables.explanation)


@click.command()
@click.option("--app", "app_id", help="Only of this application.")
@click.option(
    "--last", "last_s", type=click.FloatRange(0, min_open=True), help="Only this time before now, in seconds."
)
@reading
def summary(app_id: str | None, last_s: float | None, url: str, as_json: bool) -> None:
    """Sum up: containers by node and kind, allocation delays, waiting at the nodes."""
    params = {key: value for key, value in (("app", app_id), ("last_s", last_s)) if value is not None}
    show(get(url, "/v1/summary", params), as_json, tables.summary)


@click.command()
@reading
def health(url: str, as_json: bool) -> None:
    """Show whether the proxy works; exit code 1 when it has a problem."""
    answer = get(url, "/v1/health")
    show(answer, as_json, tables.health)
    if answer.get("status") != "ok":
        raise click.exceptions.Exit(1)


def get(url: str, path: str, params: dict[str, Any] | None = None) -> Any:
    """Return the proxy's answer. Raises QuicksilverError when it does not answer, or refuses."""
    client = rest_client(url, timeout_s=30.0, remedy=REMEDY)
    try:
        return client.get(path, params)
    except RefusedError as error:
        if error.code in ("not-json", "http-404"):
            raise QuicksilverError(error.what, place=error.place, remedy="is this the proxy's REST address?") from error
        raise
    finally:
        client.close()


def pages(url: str, path: str, params: dict[str, Any] | None = None, limit: int | None = None) -> list[Any]:
    """Return the items of all pages, `limit` at most."""
    items: list[Any] = []
    while limit is None or len(items) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(items))
        page = get(url, path, {**(params or {}), "limit": size, "offset": len(items)})
        items += page["items"]
        if not page["more"]:
            break
    return items


def show(answer: Any, as_json: bool, render: Callable[[Any], None]) -> None:
    """Print an answer, as JSON or by `render`."""
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        render(answer)
