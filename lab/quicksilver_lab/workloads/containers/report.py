"""The demo's report, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quicksilver_lab.workloads.containers.checks import ClusterFacts
from quicksilver_lab.workloads.containers.compose import Compose
from quicksilver_lab.workloads.containers.images import Image
from quicksilver_lab.workloads.containers.jobs import JobRun


def image_lines(images: Sequence[Image]) -> list[str]:
    """Return a table of the images: size, user, time of this build."""
    width = max(len(image.name) for image in images)
    rows = [f"  {i.name:<{width}}  {i.size_mb:4.0f} MB  {i.build_s:5.1f} s  user {i.user}" for i in images]
    return ["Images (with their base), time to build, user:", *rows]


def report(jobs: Sequence[JobRun], facts: ClusterFacts) -> list[str]:
    """Return what the jobs were and what the daemons know of them."""
    summary = facts.summary
    by_node = ", ".join(
        f"{n['node_id'].split(':')[0]} {n['guaranteed']} G {n['queueable']} Q" for n in summary["nodes"]
    )
    why = sorted({line for lines in facts.resizers.values() for line in lines})
    return [
        "Jobs (results are right):",
        *(f"  {job.name:<10} {job.wall_s:6.1f} s  {job.application_id}" for job in jobs),
        "Containers through the proxy, application masters not counted:",
        f"  {summary['guaranteed']} guaranteed (G), {summary['queueable']} queueable (Q): {by_node}",
        f"  from ask to grant: G {_delays(summary['allocation_g'])}; Q {_delays(summary['allocation_q'])}",
        f"  Qs waited at their nodes: {_delays(summary['queueing'])}",
        f"Prometheus scrapes {len(facts.targets_up)} daemons: {', '.join(sorted(facts.targets_up))}",
        f"PostgreSQL has {', '.join(f'{count} {table}' for table, count in facts.rows.items())}",
        f"User ids: {', '.join(f'{name} {user}' for name, user in facts.users.items())}",
        "How sidecars shrink containers: by " + ("signals, because:" if why else "control groups"),
        *(f"  {line}" for line in why),
    ]


def where_to_look(compose: Compose) -> list[str]:
    """Return addresses to open while the stack runs."""
    pages = {
        "quicksilver": f"{compose.url('resourcemanager', 8390)}/ui",
        "ResourceManager": compose.url("resourcemanager", 8088),
        "JobHistoryServer": compose.url("jobhistory", 19888),
        "Prometheus": compose.url("prometheus", 9090),
    }
    links = [f"  {name:<16} {url}" for name, url in pages.items()]
    shell = "".join(f"{name}={value} " for name, value in compose.engine.env.items() if name == "DOCKER_HOST")
    return ["Where to look while it runs:", *links, f"  {'containers':<16} {shell}docker ps"]


def _delays(summary: dict[str, Any]) -> str:
    if not summary["count"]:
        return "none"
    return f"p50 {summary['p50_s']:.2f} s, p95 {summary['p95_s']:.2f} s ({summary['count']})"
