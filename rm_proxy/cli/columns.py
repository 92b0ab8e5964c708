"""The columns of the lists: nodes, queues, applications, allocated containers, other decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rm_proxy.cli.lists import Column, Item
from rm_proxy.cli.words import amount, moment, precise, seconds


def _key(name: str) -> Callable[[Item], Any]:
    return lambda item: item.get(name)


def _of(name: str, part: str) -> Callable[[Item], Any]:
    """Return a value of a value, None where there is none."""
    return lambda item: None if item.get(name) is None else item[name].get(part)


def _plain(name: str, title: str = "", *, right: bool = False, extra: bool = False) -> Column:
    return Column(name, title or name, _key(name), _worded(_key(name)), right, extra)


def _worded(value: Callable[[Item], Any]) -> Callable[[Item], str]:
    """Return how a table shows a value: `-` for none, yes or no, the parts of a list."""

    def text(item: Item) -> str:
        cell = value(item)
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if isinstance(cell, list):
            return ", ".join(str(part) for part in cell)
        return "-" if cell is None else str(cell)

    return text


def _size(name: str, title: str) -> list[Column]:
    """Return the column of an amount, by its memory, and extra ones of its parts."""
    return [
        Column(name, title, _of(name, "memory_mb"), lambda item: _amount(item.get(name))),
        Column(f"{name}_vcores", f"{title} cores", _of(name, "vcores"), None, right=True, extra=True),
    ]


def _amount(resources: dict[str, Any] | None) -> str:
    return "no limit" if resources is None else amount(resources)


def _duration(name: str, title: str, *, extra: bool = False) -> Column:
    return Column(name, title, _key(name), lambda item: seconds(item.get(name)), right=True, extra=extra)


def _time(name: str, title: str, *, extra: bool = False) -> Column:
    return Column(name, title, _key(name), lambda item: moment(item.get(name)), extra=extra)


def _containers(item: Item) -> str:
    return f"{item['container_count']} of {item['slots']}" if item["slots"] else str(item["container_count"])


def _state(item: Item) -> str:
    """Return how an application ended, or its state."""
    return str(item.get("final_status") or item.get("state") or "-")


def _remark(item: Item) -> str:
    return item["why_unusable"] or "; ".join(item["limits"])


NODES: Final = (
    _plain("id", "node"),
    _plain("state"),
    _plain("usable"),
    *_size("capacity", "capacity"),
    *_size("used_g", "used G"),
    *_size("used_q", "used Q"),
    Column("container_count", "containers", _key("container_count"), _containers, right=True),
    _plain("shrunk", right=True),
    _duration("attained_sd_s", "spread s"),
    _plain("queue_length", "queued", right=True),
    _duration("queued_s", "queued s"),
    _duration("remaining_s", "room in s", extra=True),
    _duration("report_age_s", "report s"),
    Column("remark", "remark", _remark),
    _plain("host", extra=True),
    _plain("rack", extra=True),
    _plain("label", extra=True),
    _plain("draining", extra=True),
    _plain("free_physical_mb", "free MB", right=True, extra=True),
    _plain("settings_version", "settings", extra=True),
    _plain("sidecar_url", "sidecar", extra=True),
)
QUEUES: Final = (
    _plain("name", "queue"),
    _plain("queueable"),
    *_size("max_capacity", "max capacity"),
    *_size("used_g", "used G"),
    *_size("used_q", "used Q"),
    *_size("left_q", "left for Q"),
    _plain("labels"),
    _plain("priority", right=True, extra=True),
)
APPLICATIONS: Final = (
    _plain("id", "application"),
    _plain("name"),
    _plain("type"),
    _plain("user"),
    _plain("queue"),
    Column("state", "state", lambda item: item.get("final_status") or item.get("state"), _state),
    _plain("mode"),
    _plain("live_g", "alloc. G", right=True),
    _plain("live_q", "alloc. Q", right=True),
    _plain("wanted_g", "pending G", right=True),
    _plain("wanted_q", "pending Q", right=True),
    _time("submitted_s", "submitted", extra=True),
    _time("finished_s", "finished", extra=True),
    _duration("elapsed_s", "elapsed s"),
    _plain("priority", right=True, extra=True),
    _plain("waits", "waits for", extra=True),
    _plain("mode_reason", "why this mode", extra=True),
    _plain("tags", extra=True),
    *(c for name, title in (("used_g", "used G"), ("used_q", "used Q")) for c in _size(name, title)[1:]),
)
ADMISSION: Final = (
    _plain("id", "application"),
    _plain("name"),
    _plain("type"),
    _plain("state"),
    _plain("core", right=True),
    _plain("core_held", "allocated", right=True),
    _plain("elastic", right=True),
    _plain("elastic_share", "share", right=True),
    _plain("elastic_held", "allocated of it", right=True),
    _plain("why"),
    _plain("queue", extra=True),
    _plain("user", extra=True),
    *_size("core_size", "core size")[1:],
    _time("submitted_s", "submitted", extra=True),
    _time("entered_s", "entered", extra=True),
    _duration("runtime_s", "expected s", extra=True),
    _plain("priority", right=True, extra=True),
    _plain("interactive", extra=True),
    _time("idle_until_s", "idle until", extra=True),
)
DECISIONS: Final = (
    _plain("container_id", "container"),
    _plain("kind"),
    _plain("node_id", "node"),
    Column("delay_s", "delay s", _key("delay_s"), lambda item: precise(item["delay_s"]), right=True),
    _time("granted_s", "allocated"),
    _plain("route_reason", "why"),
    _plain("place_reason", "why this node", extra=True),
    _plain("app_id", "application", extra=True),
    _plain("priority", right=True, extra=True),
    _duration("expected_s", "expected s", extra=True),
    _plain("expected_by", "estimate of", extra=True),
    _plain("retries", right=True, extra=True),
    _plain("follows", "in place of", extra=True),
    _plain("version", "settings", extra=True),
)
CHOICES: Final = (
    _time("at_s", "time"),
    _plain("slot"),
    Column(
        "policy",
        "policy",
        _key("policy"),
        lambda c: f"{c['policy']}, in shadow {c['alternative']}" if c["alternative"] else c["policy"],
    ),
    Column(
        "chosen",
        "chosen",
        _key("chosen"),
        lambda c: f"{c['other']} instead of {c['chosen']}" if c["alternative"] else c["chosen"],
    ),
    Column("node_id", "node", _key("node_id"), lambda c: c["node_id"] or "-"),
    Column(
        "of",
        "container or application",
        lambda c: c["container_id"] or c["app_id"],
        lambda c: c["container_id"] or c["app_id"] or "-",
    ),
    _plain("weight", "stands for", right=True),
    _plain("reason", "why"),
    _plain("alternative", extra=True),
    _plain("container_id", "container", extra=True),
    _plain("app_id", "application", extra=True),
)
