"""The proxy as a process: its sockets, which outlive it, and the signals that end it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Final

import uvloop
from pydantic import BaseModel

from policies.config.policy_set import Policies
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.process import fdstore
from quicksilver.common.process.listening import bound_socket
from quicksilver.common.settings.reload import on_hangup
from rm_proxy.config import ProxySettings
from rm_proxy.service.server import Proxy
from rm_proxy.service.workers.journals import divide_journals
from rm_proxy.service.workers.limits import check_workers
from rm_proxy.service.workers.supervisor import WorkerSupervisor
from rm_proxy.service.workers.worker import StartParts

SWITCH_S: Final = 0.0005
"""Time for which another thread may hold the interpreter lock; Python's default is 5 ms."""
SCHEDULER_SOCKET: Final = "proxy-scheduler"
"""The names under which the proxy's sockets are kept while it restarts."""
REST_SOCKET: Final = "proxy-rest"


def run(
    settings: ProxySettings,
    policies: Policies,
    conf: HadoopConf,
    policies_source: str = "",
    security: Security = OPEN,
    sections: Mapping[str, BaseModel] | None = None,
) -> None:
    """Run the proxy until SIGTERM or SIGINT; `policies_source` is the file that the policies were read from.

    sections: further sections of that file that are in force, for /conf.

    Raises QuicksilverError when an address cannot be bound or a setting is missing.
    """
    endpoints = settings.endpoints(conf)
    security.allow(endpoints.rest_listen, "proxy.rest_listen")
    if settings.workers > 1:
        check_workers(settings, policies, security)
    listen = bound_socket(*endpoints.bound, name=SCHEDULER_SOCKET)
    rest = bound_socket(*endpoints.rest_listen, name=REST_SOCKET)
    divide_journals(endpoints.journal, settings.workers)
    sys.setswitchinterval(SWITCH_S)
    if settings.workers > 1:
        WorkerSupervisor(StartParts(settings, policies, conf, policies_source, security, sections), listen, rest).run()
        return

    async def serving() -> None:
        await _until_signal(Proxy(settings, policies, conf, policies_source, security, sections), listen, rest)

    uvloop.run(serving())


async def _until_signal(proxy: Proxy, listen: socket.socket, rest: socket.socket) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):  # SIGUSR2: for another process to take over
        loop.add_signal_handler(number, stop.set)
    on_hangup(loop, proxy.reloader.reload)
    await proxy.start(listen, rest)
    fdstore.ready()
    await stop.wait()
    await proxy.close()
