"""All nodes in a compact form, made a part at a time, so that callers are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from rm_proxy.api.live_state import LiveState

COLUMNS: Final = (
    "id",
    "rack",
    "label",
    "state",
    "usable",
    "why",
    "cores",
    "memory_mb",
    "g_cores",
    "q_cores",
    "g_mb",
    "q_mb",
    "containers",
    "queue",
    "queued_s",
    "shrunk",
    "age_s",
    "draining",
    "version",
    "settings",
    "limits",
)
_AT_A_TIME: Final = 100


def _row(node: Mapping[str, Any]) -> list[Any]:
    age_s, capacity, used_g, used_q = node["report_age_s"], node["capacity"], node["used_g"], node["used_q"]
    return [
        node["id"],
        node["rack"],
        node["label"],
        node["state"],
        node["usable"],
        node["why_unusable"],
        capacity.vcores,
        capacity.memory_mb,
        round(used_g.vcores, 2),
        round(used_q.vcores, 2),
        used_g.memory_mb,
        used_q.memory_mb,
        node["container_count"],
        node["queue_length"],
        round(node["queued_s"], 1),
        node["shrunk"],
        None if age_s is None else round(age_s, 1),
        node["draining"],
        node["version"],
        node["settings_version"],
        len(node["limits"]),
    ]


async def node_rows(live: LiveState) -> dict[str, Any]:
    """Return `columns`, the names, and `rows`, a list of values for each node."""
    rows = []
    for number, node in enumerate(live.each_node(), 1):
        rows.append(_row(node))
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)
    return {"columns": COLUMNS, "rows": rows}
