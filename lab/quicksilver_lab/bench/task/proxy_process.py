"""The proxy in a process of its own, with the clock of its parts."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, Final, Literal

from policies.config.policy_set import Policies
from quicksilver.common.address import Address
from quicksilver.common.hadoop.conf import HadoopConf, load_hadoop_conf
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.process.logs import configure_logs
from quicksilver_lab.bench.load.child_process import LoadChild
from quicksilver_lab.bench.procstat import thread_s
from quicksilver_lab.bench.task.parts import PartClock, watch
from rm_proxy.config import ProxySettings
from rm_proxy.service.server import Proxy

_PATIENCE_S: Final = 60.0
"""On a busy machine nothing is given up before that: only CPU time is measured."""
PROXY: Final = "proxy"
"""Name of the process."""
_CONF: Final = {
    "core-site.xml": "<configuration/>\n",
    "mapred-site.xml": "<configuration/>\n",
    "yarn-site.xml": "<configuration><property><name>yarn.resourcemanager.auto-update.containers</name>"
    "<value>true</value></property></configuration>\n",
}


@dataclass(frozen=True, slots=True)
class ProxyPlot:
    """Addresses and folder of one proxy, and its section `policies`."""

    folder: Path
    listen: int
    rest: int
    upstream: int
    rm_web: str
    policies: Mapping[str, Any]
    timers: bool = True
    """Whether the clock runs; it costs some us of a task."""
    workers: int = 1
    """Processes that serve; with more than one there is no clock."""
    own_grants: bool | Literal["ahead"] = False


@dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU seconds of a proxy up to now."""

    process_s: float
    parts_s: dict[str, float]
    """Of its event loop; empty without the clock."""
    threads_s: dict[str, float]
    """Of its other threads, by the kind of each."""


def proxy_settings(plot: ProxyPlot) -> ProxySettings:
    """Return the settings of a proxy that gives nothing up on a busy machine."""
    return ProxySettings(
        listen=Address("127.0.0.1", plot.listen),
        upstream=Address("127.0.0.1", plot.upstream),
        rest_listen=Address("127.0.0.1", plot.rest),
        rm_web=plot.rm_web,
        store_url=f"sqlite:///{plot.folder / 'proxy.db'}",
        state_dir=plot.folder,
        report_fresh_s=_PATIENCE_S,
        connect_timeout_s=_PATIENCE_S,
        announce_timeout_s=_PATIENCE_S,
        handshake_timeout_s=_PATIENCE_S,
        budget_added_s=_PATIENCE_S,
        workers=plot.workers,
        own_grants=plot.own_grants,
    )


def hadoop_conf(folder: Path) -> HadoopConf:
    """Return the site files of a plot, written into its folder."""
    for name, text in _CONF.items():
        (folder / name).write_text(text)
    return load_hadoop_conf(folder, dict(os.environ))


class _ClockedProxy:
    def __init__(self, plot: ProxyPlot) -> None:
        configure_logs(level="error")
        self._plot, self._clock = plot, PartClock()
        if plot.timers:
            watch(self._clock)
        conf = hadoop_conf(plot.folder)
        self._proxy = Proxy(proxy_settings(plot), Policies.load(dict(plot.policies)), conf, "")

    async def start(self) -> None:
        """Serve."""
        listen, rest = (bound_socket("127.0.0.1", port) for port in (self._plot.listen, self._plot.rest))
        await self._proxy.start(listen, rest)

    async def reading(self) -> CpuReading:
        """Return what was spent."""
        parts_s = self._clock.reading() if self._plot.timers else {}
        return CpuReading(process_time(), parts_s, _threads_s())

    async def close(self) -> None:
        """End."""
        await self._proxy.close()


def _threads_s() -> dict[str, float]:
    """Return the CPU seconds of the threads beside the one that runs, those of one pool together."""
    spent: defaultdict[str, float] = defaultdict(float)
    for thread in threading.enumerate():
        if thread is threading.current_thread() or thread.native_id is None:
            continue
        spent[thread.name.rpartition("_")[0] or thread.name] += thread_s(os.getpid(), thread.native_id)
    return dict(spent)


class ProxyProcess(LoadChild):
    """The process; use it in a with block."""

    def __init__(self, plot: ProxyPlot) -> None:
        super().__init__(PROXY, partial(_ClockedProxy, plot))

    def start(self) -> None:
        """Serve. Raises ChildError."""
        self.call("start")

    def pids(self) -> dict[str, int]:
        """Return the one process by its name."""
        return {PROXY: self.pid}

    def reading(self) -> CpuReading:
        """Return what it spent. Raises ChildError."""
        reading = self.call("reading")
        assert isinstance(reading, CpuReading)
        return reading
