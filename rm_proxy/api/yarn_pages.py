"""Links to YARN's own pages about applications, queues and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit


@dataclass(frozen=True, slots=True)
class YarnPages:
    """URLs of pages; rm_web: of the ResourceManager's web server, without a slash at its end, "" for no links."""

    rm_web: str

    def application(self, app_id: str) -> str:
        """Return the ResourceManager's page about an application, which leads on to its attempts, logs and UI."""
        return f"{self.rm_web}/cluster/app/{quote(app_id, safe='')}" if self.rm_web else ""

    def queue(self, name: str) -> str:
        """Return the ResourceManager's page about the queues, with this one opened."""
        return f"{self.rm_web}/cluster/scheduler?openQueues={quote(name, safe='')}" if self.rm_web else ""

    def node(self, web_address: str) -> str:
        """Return the NodeManager's page; web_address: host:port as the ResourceManager lists it, "" for none."""
        scheme = urlsplit(self.rm_web).scheme or "http"
        return f"{scheme}://{web_address}/node" if web_address else ""
