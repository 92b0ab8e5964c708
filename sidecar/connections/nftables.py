"""The second way of interception: a rule of nftables redirects the NodeManager's connections to the sidecar.

The NodeManager binds to all addresses and keeps its port. The rule is in a table of the sidecar's own and matches a set
with the node's addresses, which expires unless it is refreshed: if the sidecar is killed and does not return, new
connections go straight to the NodeManager after that time. Established connections stay where they are.

The set has the addresses of all interfaces beside what the node's name stands for: on a host of several networks, or
one whose own name stands for 127.0.1.1, others come to another address than the host itself would.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from typing import Final

import psutil

from quicksilver.common.address import Address
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.logs import get_logger

log = get_logger(__name__)
EXPIRES_S: Final = 10
"""How long the rule matches without a refresh."""
REFRESH_S: Final = 2.0
_PRIORITY: Final = -110
"""Before the usual place for such rules (dstnat, -100), after connection tracking."""
_TIMEOUT_S: Final = 5.0


class RedirectError(QuicksilverError):
    """The rule cannot be set."""


class Redirect:
    """The table of one node. `public`: the NodeManager's address as others know it; `port`: the sidecar's own.

    upstream: the host at which the sidecar reaches the NodeManager beside the rule; everywhere: whether the NodeManager
    listens on all interfaces, so that the port is its own at each of them.
    """

    def __init__(self, public: Address, port: int, upstream: str = "127.0.0.1", everywhere: bool = True) -> None:
        self.table = f"quicksilver_{re.sub('[^A-Za-z0-9]', '_', f'{public.host}_{public.port}')}"
        self.why = ""
        """Why the last refresh failed; "" while all is well."""
        self._public, self._port = public, port
        self._upstream, self._everywhere = upstream, everywhere

    def install(self) -> None:
        """Set the rule, in place of one that an earlier process left. Raises RedirectError naming the cause."""
        run_nft(self.rules(self._addresses()))

    def rules(self, addresses: Iterable[str]) -> str:
        """Return the input of nft: one transaction, whether the table exists or not."""
        match = "meta l4proto tcp ip daddr . tcp dport @live"
        chains = "".join(
            f"  chain {hook} {{ type nat hook {hook} priority {_PRIORITY}; {match} redirect to :{self._port}; }}\n"
            for hook in ("output", "prerouting")
        )
        return (
            f"add table inet {self.table}\ndelete table inet {self.table}\ntable inet {self.table} {{\n"
            f"  set live {{ type ipv4_addr . inet_service; flags timeout; timeout {EXPIRES_S}s; }}\n{chains}}}\n"
            f"{self.refreshing(addresses)}"
        )

    def refreshing(self, addresses: Iterable[str]) -> str:
        """Return the input of nft that renews the rule."""
        live = f"inet {self.table} live"
        elements = ", ".join(f"{address} . {self._public.port}" for address in addresses)
        return f"flush set {live}\nadd element {live} {{ {elements} }}\n"

    async def keep(self) -> None:
        """Refresh until cancelled; a table that somebody removed is set again."""
        while True:
            await asyncio.sleep(REFRESH_S)
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Renew the rule; a failure is logged once, until it works again."""
        try:
            addresses = self._addresses()
            try:
                run_nft(self.refreshing(addresses))
            except RedirectError:
                run_nft(self.rules(addresses))
        except RedirectError as error:
            if not self.why:
                text = f"the rule cannot be refreshed: in {EXPIRES_S} s starts go straight to the NodeManager"
                log.error(text, why=str(error))
            self.why = f"starts go straight to the NodeManager: {error}"
            return
        if self.why:
            log.info("the rule is refreshed again", table=self.table)
        self.why = ""

    def remove(self) -> None:
        """Remove the table; a failure is logged only, as the rule expires by itself."""
        try:
            run_nft(f"add table inet {self.table}\ndelete table inet {self.table}\n")
        except RedirectError as error:
            log.warning("the table could not be removed; its rule expires by itself", why=str(error))

    def _addresses(self) -> list[str]:
        """Return the IPv4 addresses at which others reach the NodeManager. Raises RedirectError when there is none."""
        try:
            infos = socket.getaddrinfo(self._public.host, self._public.port, socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            raise RedirectError(
                f"it has no IPv4 address ({error})", place=str(self._public), remedy="correct yarn.nodemanager.address"
            ) from error
        addresses = {str(info[4][0]) for info in infos}
        if self._everywhere:
            interfaces = psutil.net_if_addrs().values()
            addresses |= {
                entry.address for entries in interfaces for entry in entries if entry.family == socket.AF_INET
            }
        addresses.discard(self._upstream)
        if not addresses:
            raise RedirectError(
                f"it has no address beside {self._upstream}, at which the sidecar itself reaches the NodeManager",
                place=str(self._public),
                remedy="have the node's name stand for an address that other hosts reach",
            )
        return sorted(addresses)


def run_nft(script: str) -> None:
    """Execute a script with nft, all of it or nothing. Raises RedirectError."""
    place = "sidecar.intercept"
    program = shutil.which("nft", path="/usr/sbin:/sbin:/usr/local/sbin:/usr/bin:/bin")
    if program is None:
        raise RedirectError("nft is not installed", place=place, remedy="install nftables, or set it to bind_host")
    try:
        done = subprocess.run(
            [program, "-f", "-"], input=script, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RedirectError(f"nft did not run: {error}", place=place, remedy="set it to bind_host") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        why = lines[0] if lines else f"exit code {done.returncode}"
        remedy = "give it CAP_NET_ADMIN (or run it as root) on a kernel with nf_tables, or set it to bind_host"
        raise RedirectError(f"nft refused: {why}", place=place, remedy=remedy)
