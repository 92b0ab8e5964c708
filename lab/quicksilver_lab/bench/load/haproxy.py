"""HAProxy in `mode tcp` in front of the ResourceManager: what a relay costs that looks at no byte.

The proxy's masters and HAProxy's are other applications of one cluster, and take turns within seconds.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench.load.loadgen import LoadPhase, LoadProcess, Measured
from quicksilver_lab.bench.rig import Progress, Rig, submit
from quicksilver_lab.bench.stats import percentile, spread
from quicksilver_lab.cluster.ports import free_port

_CONFIG: Final = """global
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen relay
    bind 127.0.0.1:{port}
    server rm {host}:{rm_port}
"""
_START_S: Final = 10.0
_SIDES: Final = ("haproxy", "proxy")


@contextmanager
def haproxy(program: str, folder: Path, target: tuple[str, int]) -> Iterator[tuple[tuple[str, int], int]]:
    """Run HAProxy with one thread for the time of a with block; yields its address and its process id.

    Raises QuicksilverError when it does not come up.
    """
    folder.mkdir(parents=True, exist_ok=True)
    address = ("127.0.0.1", free_port())
    config, log = folder / "haproxy.cfg", folder / "haproxy.log"
    config.write_text(_CONFIG.format(port=address[1], host=target[0], rm_port=target[1]))
    with log.open("wb") as output:
        process = subprocess.Popen([program, "-db", "-f", str(config)], stdout=output, stderr=output)
    try:
        until_s = time.monotonic() + _START_S
        while not _listens(address):
            if process.poll() is not None or time.monotonic() > until_s:
                raise QuicksilverError("HAProxy did not come up", place=program, remedy=f"read {log}")
            time.sleep(0.05)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def _listens(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def compare(
    rig: Rig, relay: tuple[str, int], pid: int, masters: Sequence[int], phases: Sequence[LoadPhase], progress: Progress
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run each phase of all masters through HAProxy and through the proxy; return the figures, and the samples.

    phases: with the share 0, by number of masters and interval; those that are equal are rounds of one measurement.
    """
    samples: dict[str, list[tuple[Measured, Measured]]] = {}
    with LoadProcess(relay, rig.proxied, rig.pids | {"haproxy": pid}) as load:
        progress("masters for HAProxy")
        load.connect(asyncio.run(submit(rig.rm_client, max(masters), progress)))
        for number, phase in enumerate(phases):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            done = {side: load.run(replace(phase, share=side)) for side in order}
            samples.setdefault(_title(phase), []).append((done[0], done[1]))
    figures = {title: relay_figures(pairs) for title, pairs in samples.items()}
    for title, figure in figures.items():
        progress(f"{title}: CPU of an empty allocate {figure['cpu_ratio']['median']} of HAProxy's")
    return figures, {title: [[asdict(sample) for sample in pair] for pair in pairs] for title, pairs in samples.items()}


def _title(phase: LoadPhase) -> str:
    pace = f"{phase.masters / phase.interval_s:.0f} calls/s" if phase.interval_s else "busy"
    return f"{phase.masters} masters, {pace}"


def relay_figures(pairs: Sequence[tuple[Measured, Measured]]) -> dict[str, Any]:
    """Return what a call costs and takes both ways; each ratio is of two neighbouring phases."""
    cpu_us = [[_cpu_us(pair[side], name, side) for side, name in enumerate(_SIDES)] for pair in pairs]
    figures: dict[str, Any] = {
        "cpu_ratio": spread([proxy / blind for blind, proxy in cpu_us], 2),
        "generator_late_ms": round(max(sample.late_ms for pair in pairs for sample in pair), 2),
    }
    for side, name in enumerate(_SIDES):
        samples = [pair[side].latency_us[side] for pair in pairs]
        figures[name] = {
            "cpu_us": spread([row[side] for row in cpu_us], 1),
            "rate_per_s": spread([len(pair[side].latency_us[side]) / pair[side].seconds for pair in pairs], 0),
            "p50_ms": spread([percentile(times, 50) / 1e3 for times in samples], 3),
            "p99_ms": spread([percentile(times, 99) / 1e3 for times in samples], 3),
        }
    return figures


def _cpu_us(measured: Measured, name: str, side: int) -> float:
    return measured.cpu_s[name] * 1e6 / max(1, len(measured.latency_us[side]))
