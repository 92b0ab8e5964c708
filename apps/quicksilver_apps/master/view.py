"""The state of an application as the HTTP API shows it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from quicksilver_apps.master.machine.application_state import ApplicationState
from quicksilver_apps.master.machine.instances import ACTIVE, Instance, InstancePhase, ServiceState


def application(app: ApplicationState, application_id: str, user: str) -> dict[str, Any]:
    """Return the whole application as JSON data."""
    return {
        "application_id": application_id,
        "name": app.application.name,
        "class": app.application.app_class,
        "state": app.state,
        "final": app.final,
        "diagnostics": app.diagnostics,
        "started_s": app.started_s,
        "services": [service(each, user) for each in app.services.values()],
        "events": app.log.after(0),
    }


def service(state: ServiceState, user: str) -> dict[str, Any]:
    """Return one service as JSON data."""
    instances = [state.instances[index] for index in sorted(state.instances)]
    return {
        "name": state.spec.name,
        "core": state.spec.core,
        "elastic": state.spec.elastic,
        "wanted": state.spec.core + state.elastic,
        "running": sum(1 for each in instances if each.phase in (InstancePhase.RUNNING, InstancePhase.READY)),
        "ready": sum(1 for each in instances if each.phase is InstancePhase.READY),
        "state": state.state,
        "instances": [instance(state, each, user) for each in instances],
    }


def instance(state: ServiceState, member: Instance, user: str) -> dict[str, Any]:
    """Return one instance as JSON data."""
    grant = member.grant
    active = member.phase in ACTIVE
    return {
        "index": member.index,
        "container_id": grant.id if grant is not None else "",
        "node": grant.host if grant is not None else "",
        "kind": member.kind,
        "state": member.phase.value,
        "exit_status": member.exit_status,
        "restarts": member.restarts,
        "ports": dict(member.ports),
        "links": _links(state, member, grant.host) if grant is not None and active else {},
        "log_url": f"http://{grant.web}/node/containerlogs/{grant.id}/{user}" if grant and grant.web and active else "",
        "since_s": member.since_s,
        "diagnostics": member.failing or member.diagnostics,
    }


def _links(state: ServiceState, member: Instance, host: str) -> dict[str, str]:
    links: dict[str, str] = {}
    for port in state.spec.ports:
        if port.link and port.name in member.ports:
            scheme, _, path = port.link.partition("/")
            links[port.name] = f"{scheme}://{host}:{member.ports[port.name]}/{path}"
    return links


def page(data: Mapping[str, Any]) -> str:
    """Return a small page for people."""
    rows = "".join(
        f"<tr><td>{html.escape(each['name'])}<td>{member['index']}<td>{member['kind']}<td>{member['state']}"
        f"<td>{html.escape(member['node'])}<td>{_anchors(member)}"
        for each in data["services"]
        for member in each["instances"]
    )
    events = "".join(
        f"<li>{html.escape(each['service'])} {'' if each['index'] is None else each['index']} "
        f"{html.escape(each['text'])}"
        for each in reversed(data["events"])
    )
    title = html.escape(f"{data['name']}: {data['state']} {data['final']}".strip())
    return (
        f"<!doctype html><meta charset=utf-8><title>{title}</title><style>body{{font:14px sans-serif;margin:2em}}"
        f"td,th{{padding:.2em 1em;text-align:left}}</style><h1>{title}</h1><p>{html.escape(data['diagnostics'])}"
        f"<table><tr><th>Service<th>Instance<th>Kind<th>State<th>Node<th>Links{rows}</table>"
        f"<h2>Events</h2><ul>{events}</ul>"
    )


def _anchors(member: Mapping[str, Any]) -> str:
    links = {**member["links"], **({"logs": member["log_url"]} if member["log_url"] else {})}
    return " ".join(f'<a href="{html.escape(url)}">{html.escape(name)}</a>' for name, url in links.items())
