"""The environment variables of an instance, and the form of the file of its peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quicksilver_apps.master.machine.instances import ACTIVE, ServiceState

PEERS_FILE: Final = "quicksilver-peers.json"


def upper(name: str) -> str:
    """Return a name as variables have it: upper case, `-` as `_`."""
    return name.upper().replace("-", "_")


def peers(services: Mapping[str, ServiceState]) -> dict[str, Any]:
    """Return where all instances are, as JSON data; those whose ports are not known yet are left out."""
    return {
        "services": {
            name: [
                {
                    "index": each.index,
                    "host": each.grant.host,
                    "ports": dict(each.ports),
                    "ready": each.phase.value == "ready",
                }
                for index in sorted(state.instances)
                if (each := state.instances[index]).grant is not None and each.phase in ACTIVE and each.listens_on
            ]
            for name, state in services.items()
        }
    }


def port_variables(ports: Mapping[str, int]) -> dict[str, str]:
    """Return PORT_NAME for each port."""
    return {f"PORT_{upper(name)}": str(number) for name, number in ports.items()}


def peer_variables(after: Sequence[str], form: Mapping[str, Any]) -> dict[str, str]:
    """Return NAME_HOST, NAME_PORT_PORT and NAME_HOSTS for the services that an instance starts after.

    NAME_HOST and NAME_PORT_PORT are those of instance 0, or of the lowest one that is there.
    """
    variables: dict[str, str] = {}
    for name in after:
        known = form["services"].get(name, [])
        variables[f"{upper(name)}_HOSTS"] = ",".join(each["host"] for each in known)
        if known:
            variables[f"{upper(name)}_HOST"] = known[0]["host"]
            for port, number in known[0]["ports"].items():
                variables[f"{upper(name)}_PORT_{upper(port)}"] = str(number)
    return variables
