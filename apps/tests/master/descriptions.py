"""Small descriptions, as the master reads them."""

from __future__ import annotations

from typing import Any

from quicksilver_apps.master.machine.events import ContainerGrant
from quicksilver_apps.master.machine.spec import FilledApplication, read


def app(*services: dict[str, Any]) -> FilledApplication:
    """Return an application; each service gets a command and a size unless it says them."""
    plain = {"command": "work", "resources": {"memory_mb": 128}}
    return read({"version": 1, "name": "app", "services": [{**plain, **each} for each in services]})


def grant(number: int, priority: int = 10, host: str = "node") -> ContainerGrant:
    """Return a granted container."""
    return ContainerGrant(f"c{number}", priority, host)
