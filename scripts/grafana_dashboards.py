"""Writes deploy/monitoring/grafana/dashboards/*.json: the dashboards from the short form below.

usage: python scripts/grafana_dashboards.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent.parent / "deploy" / "monitoring" / "grafana" / "dashboards"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_P: Final = "quicksilver_proxy_"
_S: Final = "quicksilver_sidecar_"


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends; about says what it is good for."""

    title: str
    about: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    width: int = 12


def rate(metric: str, by: str = "", where: str = "") -> str:
    """Return the sum of a counter's rate."""
    labels = f" by ({by})" if by else ""
    return f"sum{labels} (rate({metric}{{{where}}}[$__rate_interval]))"


def quantile(q: float, metric: str, by: str = "", where: str = "") -> str:
    """Return a percentile of a histogram."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{{where}}}[$__rate_interval])))"


def ratio(part: str, whole: str) -> str:
    """Return a part of a whole."""
    return f"{part} / {whole}"


def stat(title: str, about: str, query: str, unit: str = "short") -> Panel:
    """Return a panel with one figure."""
    return Panel(title, about, ((query, ""),), unit, "stat", width=4)


CLUSTER: Final = (
    stat("Nodes usable", "Nodes that take queueable containers.", f'sum({_P}nodes{{use="usable"}})'),
    stat(
        "Nodes unusable",
        "Nodes that take none, without an order: `quicksilver health` has the reasons.",
        f'sum({_P}nodes{{use="unusable"}})',
    ),
    stat("Queueable containers", "Allocated and not completed.", f'sum({_P}live_containers{{kind="Q"}})'),
    stat("Waiting starts", "Starts that nodes hold until there is room.", f"sum({_S}queue_length)"),
    stat(
        "Work lost today",
        "Work of killed containers in 24 hours.",
        f"sum(increase({_P}queue_lost_seconds_total[24h]))",
        "s",
    ),
    stat(
        "Work saved today",
        "Work that kills in place of shrinks would have lost.",
        f"sum(increase({_P}queue_saved_seconds_total[24h]))",
        "s",
    ),
    Panel(
        "Containers at the nodes",
        "G: guaranteed, Q: queueable, O: opportunistic ones that quicksilver did not grant.",
        (
            (f"sum by (kind) ({_S}containers)", "{{kind}}"),
            (f"sum({_S}queue_length)", "waiting"),
            (f"sum({_S}shrunk)", "shrunk"),
        ),
        stacked=True,
    ),
    Panel(
        "Memory by allocation",
        "Memory of guaranteed and queueable containers, and what all nodes have.",
        ((f"sum by (what) ({_S}memory_mb)", "{{what}}"),),
        "decmbytes",
    ),
    Panel(
        "Deliveries",
        "Containers allocated to application masters.",
        ((rate(f"{_P}grants_total", "kind"), "{{kind}}"),),
        "cps",
    ),
    Panel(
        "Allocation delay",
        "Time from the ask to the delivery. Queueable ones take milliseconds, guaranteed ones a heartbeat.",
        (
            (quantile(0.5, f"{_P}allocation_delay_seconds", "kind"), "{{kind}} p50"),
            (quantile(0.95, f"{_P}allocation_delay_seconds", "kind"), "{{kind}} p95"),
        ),
        "s",
    ),
    Panel(
        "Wanted containers",
        "Requested and not allocated yet.",
        (
            (f"sum by (kind) ({_P}wanted_containers)", "{{kind}}"),
            (f"sum({_P}waiting_applications)", "applications without a node"),
        ),
    ),
    Panel(
        "Kills by cause",
        "room: for a guaranteed container; memory: physical memory was short; yarn: by YARN itself.",
        ((rate(f"{_P}queue_kills_total", "cause"), "{{cause}}"),),
        "cps",
    ),
    Panel(
        "Sheds by cause",
        "Waiting containers that were given up and are asked for again.",
        ((rate(f"{_P}queue_sheds_total", "cause"), "{{cause}}"),),
        "cps",
    ),
    Panel(
        "Falls to guaranteed",
        "Queueable asks that went guaranteed after all.",
        ((rate(f"{_P}fallbacks_total", "reason"), "{{reason}}"),),
        "cps",
    ),
)
_Q: Final = 'queue=~"$queue"'
QUEUES: Final = (
    Panel(
        "Deliveries of queueable containers",
        "By YARN queue.",
        ((rate(f"{_P}queue_grants_total", "queue", f'{_Q}, kind="Q"'), "{{queue}}"),),
        "cps",
    ),
    Panel(
        "Deliveries of guaranteed containers",
        "By YARN queue.",
        ((rate(f"{_P}queue_grants_total", "queue", f'{_Q}, kind="G"'), "{{queue}}"),),
        "cps",
    ),
    Panel(
        "Deliveries by type",
        "By application type.",
        ((rate(f"{_P}queue_grants_total", "type, kind", _Q), "{{type}} {{kind}}"),),
        "cps",
    ),
    Panel(
        "Part of queueable containers",
        "Of all allocated containers.",
        (
            (
                ratio(
                    rate(f"{_P}queue_grants_total", "queue", f'{_Q}, kind="Q"'),
                    rate(f"{_P}queue_grants_total", "queue", _Q),
                ),
                "{{queue}}",
            ),
        ),
        "percentunit",
    ),
    Panel(
        "Allocation delay, p95",
        "Time from the ask to the delivery.",
        ((quantile(0.95, f"{_P}queue_allocation_delay_seconds", "queue, kind", _Q), "{{queue}} {{kind}}"),),
        "s",
    ),
    Panel(
        "Waiting at the nodes, p95",
        "Time for which nodes held starts of queueable containers.",
        ((quantile(0.95, f"{_P}queue_queueing_seconds", "queue", _Q), "{{queue}}"),),
        "s",
    ),
    Panel(
        "Kills",
        "By YARN queue and cause.",
        ((rate(f"{_P}queue_kills_total", "queue, cause", _Q), "{{queue}} {{cause}}"),),
        "cps",
    ),
    Panel(
        "Work lost",
        "Work of killed containers, in seconds each second.",
        ((rate(f"{_P}queue_lost_seconds_total", "queue, cause", _Q), "{{queue}} {{cause}}"),),
        "none",
    ),
    Panel(
        "Work saved by shrinking",
        "Seconds each second.",
        ((rate(f"{_P}queue_saved_seconds_total", "queue, type", _Q), "{{queue}} {{type}}"),),
        "none",
    ),
    Panel(
        "Sheds",
        "Waiting containers that were given up, by cause.",
        ((rate(f"{_P}queue_sheds_total", "queue, cause", _Q), "{{queue}} {{cause}}"),),
        "cps",
    ),
)
_N: Final = 'node=~"$node"'
NODES: Final = (
    Panel(
        "Queue length", "Starts that wait, the longest queues.", ((f"topk(10, {_S}queue_length{{{_N}}})", "{{node}}"),)
    ),
    Panel(
        "Containers",
        "That use the node, by kind.",
        ((f"sum by (node, kind) ({_S}containers{{{_N}}})", "{{node}} {{kind}}"),),
    ),
    Panel(
        "Waits, p95",
        "Time for which the node held starts.",
        ((quantile(0.95, f"{_S}queueing_seconds", "node", _N), "{{node}}"),),
        "s",
    ),
    Panel(
        "Memory by allocation",
        "Guaranteed and queueable containers, as a part of what containers may use.",
        (
            (
                ratio(
                    f'sum by (node) ({_S}memory_mb{{{_N}, what=~"G|Q"}})',
                    f'sum by (node) ({_S}memory_mb{{{_N}, what="capacity"}})',
                ),
                "{{node}}",
            ),
        ),
        "percentunit",
    ),
    Panel(
        "Physical memory that is free",
        "Below `reserve_mb` nothing queueable starts.",
        ((f"bottomk(10, {_S}free_physical_mb{{{_N}}})", "{{node}}"),),
        "decmbytes",
    ),
    Panel(
        "Stalls",
        "Part of the last 10 s in which work stood still for memory or CPU (PSI).",
        ((f"{_S}stall_ratio{{{_N}}}", "{{node}} {{what}}"),),
        "percentunit",
    ),
    Panel("Shrunk containers", "Throttled containers that live.", ((f"{_S}shrunk{{{_N}}}", "{{node}}"),)),
    Panel(
        "Preempted containers",
        "shrink, freeze or kill.",
        ((rate(f"{_S}preemptions_total", "node, way", _N), "{{node}} {{way}}"),),
        "cps",
    ),
    Panel(
        "Time of a resize, p99",
        "By resizer and action.",
        ((quantile(0.99, f"{_S}resize_seconds", "resizer, action", _N), "{{resizer}} {{action}}"),),
        "s",
    ),
    Panel(
        "Time to make room, p95",
        "From the decision to kill a container to its end.",
        ((quantile(0.95, f"{_S}room_seconds", "node", _N), "{{node}}"),),
        "s",
    ),
    Panel(
        "Spread of attained service",
        "Standard deviation of the CPU time that containers have had.",
        ((f"{_S}attained_sd_seconds{{{_N}}}", "{{node}}"),),
        "s",
    ),
    Panel("Sidecar's memory", "Resident.", ((f"{_S}process_resident_memory_bytes{{{_N}}}", "{{node}}"),), "bytes"),
)
HEALTH: Final = (
    stat("Proxies up", "That answer.", 'sum(up{part="proxy"})'),
    stat("Sidecars up", "That answer.", 'sum(up{part="sidecar"})'),
    stat("Active", "1 while application masters are let in.", f"max({_P}active)"),
    stat("Bypass", "1 while applications are in bypass.", f"max({_P}bypass) or vector(0)"),
    stat("Store up", "1 while it takes rows.", f"min({_P}store_up)"),
    stat("Oldest report", "Of a running node's sidecar.", f"max({_P}report_age_max_seconds)", "s"),
    Panel("Calls of application masters", "By method.", ((rate(f"{_P}calls_total", "method"), "{{method}}"),), "reqps"),
    Panel(
        "Allocate calls",
        "rewritten, passed, or own ones for waiting answers.",
        ((rate(f"{_P}allocates_total", "action"), "{{action}}"),),
        "reqps",
    ),
    Panel(
        "Lateness of the proxy",
        "How much later than due the event loop did its work.",
        ((quantile(0.5, f"{_P}late_seconds"), "p50"), (quantile(0.99, f"{_P}late_seconds"), "p99")),
        "s",
    ),
    Panel("Time of a round, p99", "Of the coordinator.", ((quantile(0.99, f"{_P}round_seconds"), "p99"),), "s"),
    Panel(
        "CPU",
        "Of the processes, in cores.",
        (
            (f"rate({_P}process_cpu_seconds_total[$__rate_interval])", "proxy {{instance}}"),
            (f"sum(rate({_S}process_cpu_seconds_total[$__rate_interval]))", "all sidecars"),
        ),
        "none",
    ),
    Panel(
        "Memory",
        "Resident.",
        (
            (f"{_P}process_resident_memory_bytes", "proxy {{instance}}"),
            (f"max({_S}process_resident_memory_bytes)", "largest sidecar"),
        ),
        "bytes",
    ),
    Panel(
        "Connections",
        "Of application masters.",
        ((f"sum({_P}connections)", "proxy"), (f"sum({_S}connections)", "sidecars")),
    ),
    Panel(
        "Refused connections",
        "By reason.",
        (
            (rate(f"{_P}connections_refused_total", "reason"), "proxy {{reason}}"),
            (rate(f"{_S}connections_refused_total", "reason"), "sidecar {{reason}}"),
        ),
        "cps",
    ),
    Panel(
        "Reports of sidecars",
        "That the proxy received, and their outcome at the sidecars.",
        ((rate(f"{_P}reports_total"), "received"), (rate(f"{_S}reports_total", "outcome"), "{{outcome}}")),
        "cps",
    ),
    Panel(
        "Announcements",
        "Of grants to sidecars, by result.",
        ((rate(f"{_P}announcements_total", "result"), "{{result}}"),),
        "cps",
    ),
    Panel("Faults", "What counts against the error budget.", ((rate(f"{_P}faults_total", "kind"), "{{kind}}"),), "cps"),
    Panel(
        "Failed calls of YARN's REST",
        "ResourceManager by path, and NodeManagers.",
        (
            (rate(f"{_P}rm_rest_errors_total", "path"), "{{path}}"),
            (rate(f"{_S}nodemanager_errors_total"), "NodeManagers"),
        ),
        "cps",
    ),
    Panel(
        "Store",
        "Rows written, by table, and dropped.",
        ((rate(f"{_P}store_rows_total", "table"), "{{table}}"), (rate(f"{_P}store_dropped_total"), "dropped")),
        "cps",
    ),
    Panel("Rows that wait for the store", "", ((f"{_P}store_backlog_rows", "{{instance}}"),)),
    Panel(
        "Error of estimates, p50",
        "As a part of how long the containers ran, by source.",
        ((quantile(0.5, f"{_P}estimate_error_ratio", "source"), "{{source}}"),),
        "percentunit",
    ),
    Panel(
        "Settings in use",
        "More than one digest: a reload did not reach all daemons.",
        ((f"count by (version) ({_P}settings_info or {_S}settings_info)", "{{version}}"),),
    ),
)
DASHBOARDS: Final = {
    "cluster": ("Cluster", CLUSTER, {}),
    "queues": ("Queues", QUEUES, {"queue": f"label_values({_P}queue_grants_total, queue)"}),
    "nodes": ("Nodes", NODES, {"node": f"label_values({_S}queue_length, node)"}),
    "proxy-health": ("Proxy health", HEALTH, {}),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    title, panels, variables = DASHBOARDS[name]
    return {
        "uid": f"quicksilver-{name}",
        "title": f"quicksilver: {title}",
        "tags": ["quicksilver", "yarn"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [
            {"type": "dashboards", "title": "quicksilver", "tags": ["quicksilver"], "keepTime": True, "icon": ""}
        ],
        "templating": {"list": [_source_variable(), *(_variable(*one) for one in variables.items())]},
        "panels": _placed(panels),
    }


def _placed(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Return the panels from left to right, a new row where one does not fit."""
    placed, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > 24:
            x, y, height = 0, y + height, 0
        own = 4 if panel.kind == "stat" else 8
        placed.append(_panel(number, panel, {"x": x, "y": y, "w": panel.width, "h": own}))
        x, height = x + panel.width, max(height, own)
    return placed


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": query, "legendFormat": legend, "range": True}
        for index, (query, legend) in enumerate(panel.queries)
    ]
    custom = {"fillOpacity": 15, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, **({"min": 0, "custom": custom} if panel.kind == "timeseries" else {})},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}} if panel.kind == "timeseries" else {},
        "targets": targets,
    }


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def text(name: str) -> str:
    """Return a dashboard's file."""
    return json.dumps(dashboard(name), indent=2) + "\n"


if __name__ == "__main__":
    for file_name in DASHBOARDS:
        (FOLDER / f"{file_name}.json").write_text(text(file_name))
