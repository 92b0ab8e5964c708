"""An application's services and instances as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table


def print_services(application: Mapping[str, Any]) -> None:
    """Print what the master says of an application."""
    console = Console()
    final = f", {application['final']}" if application.get("final") else ""
    console.print(
        f"{application['application_id']}  {application['name']}: {application['state']}{final}", markup=False
    )
    table = Table("Service", "State", "Core", "Elastic", "Wanted", "Running", "Ready")
    for each in application["services"]:
        counts = (str(each[name]) for name in ("core", "elastic", "wanted", "running", "ready"))
        table.add_row(each["name"], each["state"], *counts)
    console.print(table)
    table = Table("Instance", "Kind", "State", "Node", "Restarts")
    for service in application["services"]:
        for each in service["instances"]:
            exit_status = each.get("exit_status")
            state = each["state"] if exit_status is None else f"{each['state']} ({exit_status})"
            table.add_row(
                f"{service['name']}[{each['index']}]", each["kind"], state, each["node"], str(each["restarts"])
            )
    console.print(table)
    for service in application["services"]:
        for each in service["instances"]:
            for port, url in each["links"].items():
                console.print(f"{service['name']}[{each['index']}] {port}: {url}", markup=False, soft_wrap=True)
