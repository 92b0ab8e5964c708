"""`quicksilver policy what-if`: what the settings would decide for an ask that nobody made."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from policies.config.policy_set import Policies
from policies.config.schema import full_queue
from policies.errors import PolicyError
from policies.model import AppView, ParentView, QueueView, Resources
from quicksilver.common.command_line.groups import Command
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.settings.calendar import Calendar
from quicksilver.common.settings.settings_file import load_settings
from quicksilver.policy.what_if import WhatIfAnswer, WhatIfQuestion, answer, moment
from rm_proxy.cli.requests import connected, get
from rm_proxy.cli.times import unix_s

_WHEN = "2026-11-23T10:00 in the settings' time zone, or Unix seconds"


@click.command("what-if", cls=Command)
@click.option("--queue", required=True, help="The YARN queue: its full path, or its name right below root.")
@click.option("--type", "type_", default="MAPREDUCE", show_default=True, help="YARN's application type: SPARK, TEZ ...")
@click.option("--user", default="", help="The user.")
@click.option("--name", default="", help="The application's name.")
@click.option("--tag", "tags", multiple=True, help="A tag of the application; may be repeated.")
@click.option("--app", "app_id", default="", help="An application's id: then roll-outs by percent are decided, too.")
@click.option("--priority", default=20, show_default=True, help="Of the request; MapReduce: 20 maps, 10 reduces.")
@click.option("--memory", "memory_mb", type=click.IntRange(1), default=1024, show_default=True, metavar="MB")
@click.option("--vcores", type=click.IntRange(1), default=1, show_default=True, metavar="CORES")
@click.option("--expected", "expected_s", type=click.FloatRange(0), metavar="SECONDS", help="How long the task runs.")
@click.option("--open", "open_s", type=click.FloatRange(0), metavar="SECONDS", help="The job's open task-seconds.")
@click.option("--at", metavar="TIME", help=f"When: {_WHEN}; default: now.")
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="The settings; default: as the daemons.")
@click.option("--live", is_flag=True, help="Ask the proxy which file is in force, and how the queue is used.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@connected
def what_if(
    queue: str,
    type_: str,
    user: str,
    name: str,
    tags: tuple[str, ...],
    app_id: str,
    priority: int,
    memory_mb: int,
    vcores: int,
    expected_s: float | None,
    open_s: float | None,
    at: str | None,
    file: Path | None,
    live: bool,
    as_json: bool,
    url: str,
) -> None:
    """Say what the settings would decide for one wanted container: guaranteed (G) or queueable (Q), and why.

    Without --live nothing is asked but the settings file: the queue counts as empty.
    """
    if live and file is not None:
        raise click.UsageError("--live and --file do not go together: the proxy says which file is in force")
    path = full_queue(queue)
    view = _live_queue(url, queue) if live else None
    policies = _policies(_live_file(url) if live else file)
    if live:
        _compare_versions(url, policies)
    at_s = _at(at, policies.time_zone)
    app = AppView(app_id, view.name if view else path, user=user, type=type_.upper(), name=name, tags=frozenset(tags))
    question = WhatIfQuestion(app, priority, Resources(memory_mb, vcores), expected_s, open_s, at_s)
    hours = Calendar(policies.windows, policies.time_zone).hours(at_s)
    try:
        answered = answer(policies, hours, question, view)
    except PolicyError as error:
        raise QuicksilverError(str(error)) from error
    if as_json:
        facts = {fact.replace(" ", "_"): text for fact, text in answered.facts}
        outcomes = [asdict(outcome) for outcome in answered.outcomes]
        click.echo(json.dumps({"queue": app.queue, "at_s": at_s, "outcomes": outcomes, **facts}, indent=2))
    else:
        _print(answered, app, at_s)


def _policies(file: Path | None) -> Policies:
    return load_settings(file).policies()


def _at(text: str | None, time_zone: str) -> float:
    if text is None:
        return datetime.now().timestamp()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return unix_s("--at", text, 0)
    zone = ZoneInfo(time_zone) if time_zone else None
    return (moment.replace(tzinfo=zone) if moment.tzinfo is None and zone else moment).timestamp()


def _live_file(url: str) -> Path | None:
    source = get(url, "/v1/policies")["source"]
    path = Path(source) if source else None
    if path is not None and not path.is_file():
        message = f"the proxy's settings are in {source}, which is not on this host"
        raise QuicksilverError(message, place="--live", remedy="run it on the proxy's host, or name a copy with --file")
    return path


def _compare_versions(url: str, policies: Policies) -> None:
    """Warn if the file is not what the proxy read."""
    version = get(url, "/v1/policies")["version"]
    if policies.digest not in version:
        click.echo(
            f"warning: the proxy uses settings {version}, but the file has changed since (now {policies.digest}); "
            "`quicksilver policy reload` puts it in force",
            err=True,
        )


def _live_queue(url: str, name: str) -> QueueView:
    """Return a YARN queue as the proxy knows it."""
    row = get(url, f"/v1/queues/{name}")
    users = {user["user"]: user for user in row["users"]}
    parents = tuple(
        ParentView(parent["name"], *(_amount(parent[key]) for key in ("max_capacity", "used_g", "used_q")))
        for parent in row["above"]
    )
    return QueueView(
        row["name"],
        max_capacity=_amount(row["max_capacity"]),
        capacity=_amount(row["max_capacity"]),
        used_g=_amount(row["used_g"]),
        used_q=_amount(row["used_q"]),
        user_used_g={user: _amount(use["used_g"]) for user, use in users.items()},
        user_used_q={user: _amount(use["used_q"]) for user, use in users.items()},
        user_limit=_amount(row["user_limit"]) if row["user_limit"] else None,
        parents=parents,
        priority=row["priority"],
        cluster=_amount(row["cluster"]),
        cluster_used_q=_amount(row["cluster_used_q"]),
        labels=frozenset(row["labels"]),
    )


def _amount(size: dict[str, Any]) -> Resources:
    return Resources(size["memory_mb"], size["vcores"])


def _print(answered: WhatIfAnswer, app: AppView, at_s: float) -> None:
    user = f", user {app.user}" if app.user else ""
    click.echo(f"{app.type}, queue {app.queue}{user}, at {moment(at_s)}:")
    for outcome in answered.outcomes:
        share = "" if len(answered.outcomes) == 1 else f"about {outcome.percent:.0f} %: "
        kind = "queueable (Q)" if outcome.kind == "Q" else "guaranteed (G)"
        settings = "" if outcome.settings == "base" else f", by alternative {outcome.settings}"
        mode = {"active": "", "shadow": "; mode shadow: recorded, not done"}.get(
            outcome.mode, f"; mode {outcome.mode}: everything is guaranteed"
        )
        click.echo(f"  {share}{kind}{settings}: {outcome.why}{mode}")
    width = max(len(name) for name, _ in answered.facts)
    for name, text in answered.facts:
        click.echo(f"  {name:<{width}}  {text}")
