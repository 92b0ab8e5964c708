"""Where a workload runs: a local cluster of its own, with or without proxy and sidecars, cleaned up afterwards."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec

import click
import requests
from pydantic import ValidationError
from rich.console import Console

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.cluster import Cluster, ClusterError, ClusterSpec
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.cluster.progress import FewLines
from quicksilver_lab.workloads.clients import Progress
from quicksilver_lab.workloads.errors import WorkloadError

P = ParamSpec("P")

ROUTES: Final[Mapping[str, Mapping[str, Any]]] = {
    "only_q": {"policy": "only_q"},
    "hybrid_gq": {"policy": "hybrid_gq", "settings": {"td_s": 3600.0, "pq": 50.0}},
    "only_g": {"policy": "only_g"},
}
"""Routes to choose from: all containers queueable, half of them, none."""
PRESET: Final = "default"
"""In place of a route: the preset of an empty section `policies:`."""

OWN_OPPORTUNISTIC: Final[Mapping[str, str]] = {
    "yarn.resourcemanager.opportunistic-container-allocation.enabled": "true",
    "yarn.nodemanager.opportunistic-containers-max-queue-length": "100",
}
"""What plain YARN needs for opportunistic containers of its own (yarn-site.xml)."""


@dataclass(frozen=True, slots=True)
class Where:
    """Options of every workload's command line."""

    workdir: Path
    base_port: int
    plain: bool
    keep: bool
    route: str
    node_memory_mb: int = 4096
    """Of each of the three nodes; 512 per container, so that fewer than wanted fit and queueable ones wait."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A running cluster; `stack` is None on plain YARN."""

    cluster: Cluster
    stack: LocalDaemons | None
    progress: Progress
    began_s: float = field(default_factory=time.monotonic)

    @property
    def how(self) -> str:
        """How containers get here, for results: `plain` or `quicksilver`."""
        return "plain" if self.stack is None else "quicksilver"

    def summary(self) -> dict[str, Any] | None:
        """Return the proxy's count of containers since the begin, and how long they waited; None on plain YARN.

        Raises requests.RequestException.
        """
        if self.stack is None:
            return None
        answer = self.stack.get(f"/v1/summary?last_s={time.monotonic() - self.began_s:.3f}")
        return {key: answer[key] for key in ("guaranteed", "queueable", "queueing", "events")}


def policies_of(route: str) -> dict[str, Any]:
    """Return the section `policies:` for the choice of a route."""
    return {} if route == PRESET else {"queues": "*", "routes": [dict(ROUTES[route])]}


def where_options(default_dir: str, route: str = "only_q") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a click command the options of `Where`, passed to it as `where`."""

    routes = [*ROUTES, *([PRESET] if route == PRESET else [])]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option("--workdir", type=click.Path(file_okay=False, path_type=Path), default=Path("run") / default_dir)
        @click.option("--base-port", default=18000, show_default=True, help="First port of the cluster.")
        @click.option("--plain", is_flag=True, help="The same on plain YARN, for comparison.")
        @click.option("--keep", is_flag=True, help="Leave cluster, proxy and sidecars running; Ctrl-C ends them.")
        @click.option("--route", type=click.Choice(routes), default=route, show_default=True)
        @click.option("--node-memory-mb", type=click.IntRange(1024, 16384), default=4096, show_default=True)
        @wraps(command)
        def wrapped(
            workdir: Path, base_port: int, plain: bool, keep: bool, route: str, node_memory_mb: int, **rest: Any
        ) -> None:
            command(where=Where(workdir, base_port, plain, keep, route, node_memory_mb), **rest)

        return wrapped

    return decorate


@contextmanager
def running(where: Where, yarn_site: Mapping[str, str] | None = None) -> Iterator[Environment]:
    """Run a cluster, and the proxy and sidecars unless plain, for the time of a with block; then stop all of it.

    Ctrl-C and SIGTERM end the block as KeyboardInterrupt, so call it on the main thread.
    yarn_site: more settings of YARN. Raises what Cluster.start and LocalDaemons.start raise, and
    WorkloadError for a wrong option.
    """
    progress = Progresses()
    try:
        spec = ClusterSpec(
            workdir=where.workdir,
            base_port=where.base_port,
            overlay=not where.plain,
            node_memory_mb=where.node_memory_mb,
            extra_site={"yarn": dict(yarn_site or {})},
        )
    except ValidationError as error:
        raise WorkloadError("; ".join(e["msg"] for e in error.errors()), place="options") from error
    cluster = Cluster(spec)
    with interruptible():
        cluster.start(progress)
        try:
            with _stack(cluster, where, progress) as stack:
                yield Environment(cluster, stack, progress)
                if where.keep:
                    _wait_for_interrupt(cluster, progress)
        finally:
            cluster.stop(progress)


@contextmanager
def _stack(cluster: Cluster, where: Where, progress: Progress) -> Iterator[LocalDaemons | None]:
    if where.plain:
        yield None
        return
    stack = LocalDaemons(cluster, policies_of(where.route), standby=True)
    stack.start(progress)
    try:
        yield stack
    finally:
        progress("stopping proxy and sidecars")
        stack.stop()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end the work as Ctrl-C does, and both also where SIGINT is ignored, as in a background job."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_for_interrupt(cluster: Cluster, progress: Progress) -> None:
    progress(f"left running; RM {cluster.rm_rest}, HADOOP_CONF_DIR={cluster.conf_dir}; Ctrl-C ends it")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


class Progresses:
    """Prints progress to stderr, each line with the seconds since the begin."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._started_s = time.monotonic()
        self._lines = FewLines()

    def __call__(self, message: str) -> None:
        """Print one line; the details of starting daemons are left out."""
        if not message.endswith(": starting") and self._lines.prints(message):
            self._console.print(f"[{time.monotonic() - self._started_s:6.1f} s] {message}", markup=False)


def finish(result: Mapping[str, object], ok: bool) -> None:
    """Print the result as the last line, one JSON object; exit with code 1 unless `ok`."""
    click.echo(json.dumps(result))
    if not ok:
        sys.exit(1)


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Show what can be expected to go wrong as a message, without a traceback; exit code 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (QuicksilverError, ClusterError) as error:
            raise click.ClickException(str(error)) from error
        except requests.RequestException as error:
            raise click.ClickException(f"a daemon of the cluster did not answer as it should: {error}") from error

    return wrapped
