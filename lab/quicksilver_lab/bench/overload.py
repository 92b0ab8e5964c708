"""Many idle connections at the proxy, beside one application master: what each costs, and that the master is served.

`python -m quicksilver_lab.bench.overload`: a proxy of its own before a stand-in for the ResourceManager, on loopback. A
part of the connections has logged in, the others say nothing until the proxy closes them. The connections come from as
many loopback addresses as it takes to stay below `max_logins_per_host`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.process.limits import OTHER_FILES, raise_open_files
from quicksilver_lab.bench.fake_rm import RegisteredMaster, StandIn
from quicksilver_lab.bench.procstat import rss_mb
from quicksilver_lab.bench.results import RESULTS, commit, machine, write
from quicksilver_lab.bench.stats import percentile
from quicksilver_lab.cluster.ports import free_port

_PER_HOST: Final = 900
"""Below the proxy's default of `max_logins_per_host`."""
_START_S: Final = 60.0
_BEATS: Final = 200


def proxy_settings(upstream: int, listen: int, rest: int, folder: Path, connections: int) -> str:
    """Return the settings of the proxy that is measured; nothing of Hadoop runs."""
    return (
        f"proxy: {{listen: '127.0.0.1:{listen}', upstream: '127.0.0.1:{upstream}', rest_listen: '127.0.0.1:{rest}',\n"
        f"  rm_web: 'http://127.0.0.1:9', store_url: 'sqlite:///{folder / 'proxy.db'}', rest_connections: 100,\n"
        f"  state_dir: '{folder}', handshake_timeout_s: 600, rm_probe_s: 60, max_connections: {connections}}}\n"
    )


class OverloadRun:
    """The proxy's process."""

    def __init__(self, folder: Path, upstream: int, connections: int) -> None:
        self.port, rest = free_port(), free_port()
        self.url = f"http://127.0.0.1:{rest}"
        (folder / "yarn-site.xml").write_text("<configuration/>\n")
        config = folder / "quicksilver.yaml"
        config.write_text(proxy_settings(upstream, self.port, rest, folder, connections))
        command = [sys.executable, "-m", "quicksilver", "proxy", "run", "--config", str(config)]
        self.log = folder / "proxy.log"
        with self.log.open("wb") as log:
            env = {**os.environ, "HADOOP_CONF_DIR": str(folder)}
            self.process = subprocess.Popen([*command, "--conf-dir", str(folder)], stdout=log, stderr=log, env=env)

    def sample(self, name: str) -> float:
        """Return a metric, the sum of all its labels."""
        text = requests.get(f"{self.url}/metrics", timeout=30).text
        lines = (line for line in text.splitlines() if line.startswith(f"quicksilver_proxy_{name}"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def ended(self) -> bool:
        """Return whether it is over."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


async def until(true: Any, seconds: float, description: str) -> None:
    """Wait for something. Raises QuicksilverError when it does not come."""
    end_s = time.monotonic() + seconds
    while not await asyncio.to_thread(true):
        if time.monotonic() > end_s:
            raise QuicksilverError(f"not within {seconds:g} s: {description}")
        await asyncio.sleep(0.1)


def listens(port: int) -> bool:
    """Return whether somebody listens."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def beats(master: RegisteredMaster, count: int) -> list[float]:
    """Heartbeat so many times; return how long each took, in milliseconds."""
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        await master.beat()
        took.append((time.perf_counter() - begun) * 1000)
    return took


def source(number: int) -> str:
    """Return the loopback address that a connection comes from."""
    host = number // _PER_HOST
    return f"127.0.{1 + host // 250}.{1 + host % 250}"


async def measure(proxy: OverloadRun, silent: int, known: int) -> dict[str, Any]:
    """Open the connections, and measure before and after them."""
    await until(lambda: proxy.ended() or listens(proxy.port), _START_S, "the proxy's start")
    if proxy.ended():
        raise QuicksilverError(f"the proxy ended: {proxy.log.read_text()[-500:]}")
    served = await RegisteredMaster.connect("127.0.0.1", proxy.port)
    await served.register()
    alone = await beats(served, _BEATS)
    before, dialed_before = rss_mb(proxy.process.pid), StandIn.opened
    with ExitStack() as stack:
        for number in range(silent):
            address = ("127.0.0.1", proxy.port)
            stack.enter_context(socket.create_connection(address, 30, (source(number), 0)))
        await until(lambda: proxy.sample("connections ") == silent + 1, 60, "all silent connections")
        after_silent, dialed = rss_mb(proxy.process.pid), StandIn.opened
        masters = [await RegisteredMaster.connect("127.0.0.1", proxy.port, app=n) for n in range(2, known + 2)]
        await until(lambda: proxy.sample("connections ") == silent + known + 1, 60, "all masters")
        after_known = rss_mb(proxy.process.pid)
        beside = await beats(served, _BEATS)
        for master in masters:
            master.close()
    served.close()
    await until(lambda: proxy.sample("connections ") <= 1, 60, "the end of all connections")
    return {
        "silent": silent,
        "logged_in": known,
        "upstream_of_silent": dialed - dialed_before,
        "kb_per_silent": round((after_silent - before) * 1024 / max(1, silent), 1),
        "kb_per_logged_in": round((after_known - after_silent) * 1024 / max(1, known), 1),
        "rss_mb": [before, after_silent, after_known],
        "beat_p50_ms": [round(percentile(took, 50), 3) for took in (alone, beside)],
        "beat_p99_ms": [round(percentile(took, 99), 3) for took in (alone, beside)],
        "refused": proxy.sample("connections_refused_total"),
        "raw": {"alone_ms": alone, "beside_ms": beside},
    }


async def run(silent: int, known: int) -> dict[str, Any]:
    """Measure with a proxy and a stand-in of their own."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(StandIn, "127.0.0.1", 0, backlog=4096)
    upstream: int = server.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="quicksilver-overload-") as folder:
        proxy = OverloadRun(Path(folder), upstream, silent + known + 10)
        try:
            return await measure(proxy, silent, known)
        finally:
            proxy.stop()
            server.close()


@click.command()
@click.option("--silent", type=click.IntRange(1, 100_000), default=9_000, show_default=True, help="Never say a word.")
@click.option("--known", type=click.IntRange(1, 100_000), default=1_000, show_default=True, help="Log in, then idle.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=RESULTS, show_default=True)
def overload(silent: int, known: int, folder: Path) -> None:
    """Open idle connections at the proxy; print what they cost as JSON."""
    need = 2 * (silent + known) + OTHER_FILES  # the proxy's need
    if raise_open_files(need, "--silent, --known") < need:
        raise click.ClickException(f"too few open files are allowed; `ulimit -Hn` must be {need} or more")
    try:
        outcome = asyncio.run(run(silent, known))
    except QuicksilverError as error:
        raise click.ClickException(str(error)) from error
    raw = outcome.pop("raw")
    result = {"bench": "overload", "machine": machine(), "commit": commit(), **outcome}
    write("overload", result, raw, folder)
    click.echo(json.dumps(result))


if __name__ == "__main__":
    overload()
