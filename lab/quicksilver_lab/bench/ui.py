"""`quicksilver bench ui`: what viewers of the dashboard cost the proxy of a large cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import click

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.procstat import cpu_s, machine_cpu_s
from quicksilver_lab.bench.scale.run import Bench, ScalePlan, running
from quicksilver_lab.workloads.environment import Progresses

PAGES: Final = {
    "cluster": (("data/history?last_s=3600", 5.0), ("data/cluster", 3.0), ("data/today?zone_min=0", 15.0)),
    "nodes": (("data/nodes", 4.0),),
    "node": (("data/node/{node}?last_s=1800", 3.0),),
    "health": (("data/health", 4.0),),
}
"""What each page asks for, and seconds between two times, as its script has it."""
LOOKED_AT: Final = ("cluster", "nodes", "node", "health", "cluster")
_TIMEOUT_S: Final = 30.0


@dataclass(slots=True)
class SeenPage:
    """What viewers got."""

    answers: int = 0
    unchanged: int = 0
    bytes: int = 0
    slowest_s: float = 0.0


async def _poll(session: aiohttp.ClientSession, url: str, every_s: float, seen: SeenPage) -> None:
    """Ask as a page does: again after the answer, with its ETag."""
    etag = ""
    while True:
        begun_s = time.monotonic()
        async with session.get(url, headers={"If-None-Match": etag} if etag else {}) as response:
            body = await response.read()
            if response.status not in (200, 304):
                raise QuicksilverError(f"{url} answers {response.status}: {body[:200]!r}")
            etag = response.headers.get("ETag", "")
        seen.answers += 1
        seen.unchanged += response.status == 304
        seen.bytes += int(response.headers.get("Content-Length", 0))
        seen.slowest_s = max(seen.slowest_s, time.monotonic() - begun_s)
        await asyncio.sleep(every_s)


@asynccontextmanager
async def viewers(url: str, node: str, pages: Sequence[str], seen: SeenPage) -> AsyncIterator[None]:
    """Look at pages, a viewer each, for the time of a with block. Raises what a viewer met."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
        polls = [
            asyncio.create_task(_poll(session, f"{url}/ui/{path.format(node=node)}", every_s, seen))
            for page in pages
            for path, every_s in PAGES[page]
        ]
        try:
            yield
        finally:
            for poll in polls:
                poll.cancel()
            for poll in polls:
                with suppress(asyncio.CancelledError):
                    await poll


async def _phase(bench: Bench, pages: Sequence[str], seconds: float, seen: SeenPage) -> tuple[float, float]:
    """Return how many cores the proxy and the machine use while so many pages are looked at."""
    proxy = bench.pids["proxy"]
    node = bench.stack.get("/v1/nodes?limit=1")["items"][0]["id"]
    async with viewers(bench.stack.url, node, pages, seen):
        await asyncio.sleep(min(5.0, seconds))  # the first rendering of each page is not what it costs later
        before_s, machine_s, begun_s = cpu_s(proxy), machine_cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        passed_s = time.monotonic() - begun_s
        return (cpu_s(proxy) - before_s) / passed_s, (machine_cpu_s() - machine_s) / passed_s


def measure(bench: Bench, count: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the proxy's cores with and without viewers, in turns."""
    pages = [LOOKED_AT[number % len(LOOKED_AT)] for number in range(count)]
    seen = SeenPage()
    without: list[float] = []
    watched: list[float] = []
    machine: list[float] = []
    for number in range(rounds):
        for samples, looked_at in ((without, []), (watched, pages))[:: 1 if number % 2 == 0 else -1]:
            used, all_used = asyncio.run(_phase(bench, looked_at, seconds, seen))
            samples.append(used)
            machine.append(all_used)
        bench.progress(f"round {number + 1}: {without[-1]:.3f} cores without viewers, {watched[-1]:.3f} with {count}")
    added = [with_ - without_ for with_, without_ in zip(watched, without, strict=True)]
    return {
        "nodes": bench.nodes,
        "viewers": count,
        "added_cores": round(median(added), 4),
        "added_cores_each_round": [round(value, 4) for value in added],
        "cores_without": round(median(without), 4),
        "cores_with": round(median(watched), 4),
        "cpu_ratio": round(median(watched) / median(without), 3),
        "machine_cores": round(median(machine), 2),
        "answers": seen.answers,
        "unchanged_ratio": round(seen.unchanged / max(1, seen.answers), 3),
        "kb_per_answer": round(seen.bytes / 1000 / max(1, seen.answers), 1),
        "slowest_answer_ms": round(1000 * seen.slowest_s),
    }


@click.command()
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(2), help="Emulated nodes.")
@click.option("--viewers", "count", default=5, show_default=True, type=click.IntRange(1), help="Pages looked at.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=20.0, show_default=True, type=click.FloatRange(1), help="Of each phase.")
@click.option("--dir", "workdir", default="run/bench-ui", show_default=True, type=click.Path(path_type=Path))
@click.option(
    "--results", "folder", default=results.RESULTS, type=click.Path(path_type=Path), help="Folder of the result file."
)
@click.option("--base-port", default=21000, show_default=True, help="First port of the cluster.")
def ui(nodes: int, count: int, rounds: int, seconds: float, workdir: Path, folder: Path, base_port: int) -> None:
    """What viewers of the dashboard cost the proxy: its CPU with and without them, in turns.

    The last line is one JSON object (lab/docs/benchmarks.md).
    """
    plan = ScalePlan(nodes=(nodes,), masters=(2,))
    progress = Progresses()
    about = {"machine": results.machine(), "commit": results.commit(), "settings": asdict(plan)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left behind
    try:
        with running(plan, workdir, base_port, progress) as bench:
            bench.grow(nodes)
            bench.field.fill(round(nodes * plan.slots * (1 + plan.waiting_ratio)))
            result = measure(bench, count, rounds, seconds)
    except QuicksilverError as error:
        raise click.ClickException(str(error)) from error
    result = {"benchmark": "ui", **result, **about}
    path = results.write("ui", result, {}, folder)
    progress(f"written to {path}")
    click.echo(json.dumps(result))


if __name__ == "__main__":
    ui()
