"""Racks, hosts, and how bad the network between racks is."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

RACKS_MAX: Final = 9
_FIRST_NODE, _FIRST_MASTER = 11, 2
DEFAULT_RACK: Final = "/default-rack"


class RackHost(NamedTuple):
    """One host of a rack."""

    name: str
    rack: int
    """Counted from 1."""
    number: int
    """The last part of its addresses."""

    @property
    def address(self) -> str:
        """Its address in the rack's network, by which other hosts know its name."""
        return f"10.77.{self.rack}.{self.number}"

    @property
    def second_address(self) -> str:
        """The address of its second interface, which no name stands for."""
        return f"10.78.{self.rack}.{self.number}"

    @property
    def rack_name(self) -> str:
        """The rack as YARN knows it."""
        return f"/rack{self.rack}"


class NetworkSpec(BaseModel):
    """One network: in each rack a switch; between racks a way that delays packets and loses some."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    racks: int = Field(3, ge=1, le=RACKS_MAX)
    nodes_per_rack: int = Field(4, ge=1, le=100)
    delay_ms: float = Field(20.0, ge=0, le=2000)
    """How long a packet takes from one rack to another, each way."""
    loss_ratio: float = Field(0.01, ge=0, le=1)
    """Part of the packets between racks that are lost."""
    masters: dict[str, int] = {"rm1": 1, "rm2": 2, "zk1": 3, "client": 1}
    """Hosts beside the nodes, and the rack of each. Clients, tests among them, run on `client`."""

    @property
    def nodes(self) -> tuple[RackHost, ...]:
        """The hosts of NodeManagers, node1 first, rack by rack."""
        count = self.nodes_per_rack
        return tuple(
            RackHost(f"node{number + 1}", number // count + 1, _FIRST_NODE + number % count)
            for number in range(self.racks * count)
        )

    @property
    def hosts(self) -> dict[str, RackHost]:
        """All hosts, by name."""
        masters = (
            RackHost(name, min(rack, self.racks), _FIRST_MASTER + number)
            for number, (name, rack) in enumerate(self.masters.items())
        )
        return {host.name: host for host in (*masters, *self.nodes)}

    def hosts_file(self) -> str:
        """Return /etc/hosts of each host, which the JVMs read too."""
        names = "".join(f"{host.address} {name}\n" for name, host in self.hosts.items())
        return f"127.0.0.1 localhost\n{names}"

    def rack_table(self) -> str:
        """Return each name and address with its rack, for the topology script."""
        rows = ((key, host.rack_name) for host in self.hosts.values() for key in (host.name, host.address))
        return "".join(f"{key} {rack}\n" for key, rack in rows)
