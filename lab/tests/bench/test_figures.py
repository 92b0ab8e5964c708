"""Figures of samples, and what is written beside them."""

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from quicksilver.common.errors import QuicksilverError
from quicksilver_lab.bench import results
from quicksilver_lab.bench.cli import bench
from quicksilver_lab.bench.load.haproxy import haproxy, relay_figures
from quicksilver_lab.bench.load.loadgen import LoadPhase, Measured
from quicksilver_lab.bench.procstat import cpu_s, rss_mb
from quicksilver_lab.bench.relay import RelayPlan, closed_figures, paced_figures
from quicksilver_lab.bench.stats import percentile, spread


def test_percentiles_lie_between_two_samples() -> None:
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([5], 99) == 5
    assert percentile(range(101), 99) == 99
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 50)


def test_spread_shows_every_round() -> None:
    assert spread([3, 1, 8]) == {"median": 3, "min": 1, "max": 8}


def measured(direct: list[int], proxied: list[int], proxy_s: float) -> Measured:
    return Measured(2.0, (direct, proxied), {"rm": 0.1, "proxy": proxy_s, "generator": 0.1}, 0.5)


def test_a_ratio_is_of_neighbouring_rounds() -> None:
    rounds = [
        (measured([1000] * 100, [], 0.0), measured([], [2000] * 50, 0.005)),
        (measured([1000] * 10, [], 0.0), measured([], [2000] * 9, 0.0009)),
        (measured([1000] * 10, [], 0.0), measured([], [2000] * 8, 0.0008)),
    ]
    figures = closed_figures(rounds)
    assert figures["throughput_ratio"] == {"median": 0.8, "min": 0.5, "max": 0.9}
    assert figures["cpu_us_per_allocate"]["median"] == 100
    assert figures["direct"]["rate_per_s"] == {"median": 5, "min": 5, "max": 50}
    assert figures["proxied"]["p50_ms"]["median"] == 2


def test_added_latency_is_within_one_round() -> None:
    slow, quick = measured([5000, 7000], [5100, 7100], 0.02), measured([100, 300], [300, 500], 0.02)
    figures = paced_figures([slow, quick, quick])
    assert figures["added_p50_ms"] == {"median": 0.2, "min": 0.1, "max": 0.2}
    assert figures["throughput_ratio"]["median"] == 1
    assert figures["proxy_cpu_us_per_allocate"]["median"] == 10_000


def test_what_a_call_costs_is_compared_with_haproxy_round_by_round() -> None:
    def pair(blind_s: float, proxy_s: float, calls: int) -> tuple[Measured, Measured]:
        blind = Measured(2.0, ([100] * calls, []), {"haproxy": blind_s, "proxy": 9.0}, 0.1)
        return blind, Measured(2.0, ([], [300] * calls), {"haproxy": 9.0, "proxy": proxy_s}, 0.4)

    figures = relay_figures([pair(0.001, 0.004, 100), pair(0.002, 0.004, 50), pair(0.001, 0.003, 100)])
    assert figures["cpu_ratio"] == {"median": 3, "min": 2, "max": 4}
    assert figures["haproxy"]["cpu_us"] == {"median": 10, "min": 10, "max": 40}
    assert figures["proxy"]["p50_ms"]["median"] == 0.3 and figures["haproxy"]["rate_per_s"]["max"] == 50
    assert figures["generator_late_ms"] == 0.4


def test_haproxy_is_measured_busy_and_at_each_pace() -> None:
    phases = RelayPlan(masters=(100, 1000), rounds=2, interval_s=1.0).beside_haproxy()
    assert [(phase.masters, phase.interval_s) for phase in phases[::2]] == [(100, 0), (1000, 0), (100, 1), (1000, 1)]
    assert phases[::2] == phases[1::2]


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs haproxy")
def test_haproxy_relays_bytes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with haproxy(str(shutil.which("haproxy")), tmp_path, server.getsockname()) as (address, pid):
            with socket.create_connection(address) as client:
                client.sendall(b"ask")
                while (connection := server.accept()[0]).recv(3) != b"ask":  # what tried whether it listens
                    connection.close()
                connection.sendall(b"answer")
                assert client.recv(6) == b"answer"
                connection.close()
            assert cpu_s(pid) >= 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(address)


def test_haproxy_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QuicksilverError, match="HAProxy did not come up"), haproxy("/bin/false", tmp_path, ("h", 1)):
        raise AssertionError


def test_masters_are_split_over_both_sides_and_swapped() -> None:
    sides = {share: [LoadPhase(4, 0, 1, share).proxied(n) for n in range(4)] for share in range(4)}
    assert sides == {0: [False] * 4, 1: [True] * 4, 2: [False, True] * 2, 3: [True, False] * 2}


def test_own_use_is_read_from_proc() -> None:
    before, until_s = cpu_s(os.getpid()), time.process_time() + 0.05
    while time.process_time() < until_s:
        pass
    assert 0.03 <= cpu_s(os.getpid()) - before < 5
    assert 5 < rss_mb(os.getpid()) < 10_000


def test_a_result_names_machine_and_settings(tmp_path: Path) -> None:
    path = results.write("relay", {"throughput_ratio": 0.5, "machine": results.machine()}, {"100": [1, 2]}, tmp_path)
    kept = json.loads(path.read_text())
    assert kept["throughput_ratio"] == 0.5 and kept["raw"] == {"100": [1, 2]}
    assert kept["machine"]["cores"] >= 1


@pytest.mark.parametrize("value", ("", "x", "100,", "1", "100,1"))
def test_wrong_masters_are_one_line(value: str) -> None:
    result = CliRunner().invoke(bench, ["relay", "--masters", value])
    assert result.exit_code == 2
    assert f"{value!r} is no list of numbers from 2 on" in result.output
