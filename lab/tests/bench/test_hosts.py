"""Jobs and figures of `bench hosts`."""

from __future__ import annotations

from pathlib import Path

from quicksilver_lab.bench.hosts import OWN, STOCK, HostedJob, drawn, figures, host_spec, ratios
from quicksilver_lab.cluster.hosts.network_spec import NetworkSpec


def test_both_competitors_have_the_same_jobs_and_hosts(tmp_path: Path) -> None:
    assert drawn("facebook_77", 12, 0.5, 1) == drawn("facebook_77", 12, 0.5, 1)
    assert len(drawn("facebook_77", 12, 0.5, 1)) == 14
    own, stock = (host_spec(tmp_path, name, NetworkSpec()) for name in (OWN, STOCK))
    assert (own.overlay, stock.overlay) == (True, False)
    assert own.network == stock.network
    assert "FairScheduler" in stock.extra_site["yarn"]["yarn.resourcemanager.scheduler.class"]
    assert own.node_memory_mb == stock.node_memory_mb


def test_latencies_count_from_the_arrival() -> None:
    values = figures([HostedJob(1, 1, 0.0, 4.0, 0), HostedJob(2, 3, 10.0, 12.0, 1)])
    assert (values["latency_mean_s"], values["makespan_s"], values["repeats"]) == (3.0, 12.0, 1)
    half = {name: value / 2 for name, value in values.items()}
    assert set(ratios([{OWN: half, STOCK: values}, {OWN: half, STOCK: values}]).values()) == {0.5}
