"""Small descriptions, as the master reads them."""

from __future__ import annotations

from typing import Any

from quicksilver_apps.master.machine.events import Grant
from quicksilver_apps.master.machine.spec import Application, read


def app(*services: dict[str, Any]) -> Application:
    """Return an application; each service gets a command and a size unless it says them."""
    plain = {"command": "work", "resources": {"memory_mb": 128}}
    return read({"version": 1, "name": "app", "services": [{**plain, **each} for each in services]})


def grant(number: int, priority: int = 10, host: str = "node") -> Grant:
    """Return a granted container."""
    return Grant(f"c{number}", priority, host)
