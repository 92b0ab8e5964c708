"""Estimates in a whole proxy: its metrics, and what a restarted one knows of earlier jobs."""

import asyncio
from pathlib import Path

from policies.config.policy_set import Policies
from policies.config.schema import Estimate
from policies.model import AppView
from quicksilver.common.hadoop.conf import HadoopConf
from rm_proxy.attempt.effects import BadTags, Estimated
from rm_proxy.config import ProxySettings
from rm_proxy.domain.records import AppRecord
from rm_proxy.estimates.estimator import EstimateSource, Expectation
from rm_proxy.service.server import Proxy

JOB = AppView("application_1_0001", type="SPARK", name="etl 2026-11-20")
NEXT = AppView("application_1_0002", type="SPARK", name="etl 2026-11-21")
ROW = AppRecord(JOB.id, JOB.queue, "ann", "SPARK", JOB.name, (), 0, 1.0)


def proxy(folder: Path) -> Proxy:
    settings = {"listen": "127.0.0.1:1", "upstream": "127.0.0.1:2", "rm_web": "http://127.0.0.1:3"}
    kept = {"store_url": f"sqlite:///{folder / 'p.db'}", "keep_days": 1e6}
    proxy = Proxy(ProxySettings.model_validate(settings | kept), Policies.load({}), HadoopConf(folder, {}, {}), "")
    proxy.writer.start()
    proxy.writer.application(ROW)
    assert proxy.writer.flush(), "the store has its tables"
    return proxy


def read(proxy: Proxy) -> None:
    """Have it read what was kept."""
    for part in proxy.learned:
        part.round(0.0)
        assert part._reading is not None
        part._reading.exception(10)
        part.round(0.5)


def close(proxy: Proxy) -> None:
    for part in proxy.learned:
        part.close(1.0)
    proxy.writer.close()
    proxy.store.close()


def test_a_restarted_proxy_knows_what_earlier_jobs_took(tmp_path: Path) -> None:
    async def first() -> None:
        process = proxy(tmp_path)
        read(process)
        for seconds in (20.0, 30.0, 40.0):
            process.coordinator.durations.estimator.observe(JOB, 20, seconds, Estimate())
        close(process)

    async def second() -> Expectation:
        process = proxy(tmp_path)
        read(process)
        known = process.coordinator.durations.expected(NEXT, 20)
        close(process)
        return known

    asyncio.run(first())
    assert asyncio.run(second()) == Expectation(30.0, 10.0, EstimateSource.NAME, 3)


def test_errors_and_bad_tags_are_counted(tmp_path: Path) -> None:
    async def crowd() -> Proxy:
        process = proxy(tmp_path)
        process.effects.handle([Estimated(EstimateSource.STAGE, 10.0, 8.0), Estimated(EstimateSource.STAGE, 10.0, 0.0)])
        process.effects.handle([BadTags(JOB.id, ("expected_s:soon", "expected_s:0"))])
        close(process)
        return process

    value = asyncio.run(crowd()).metrics.registry.get_sample_value
    name = "quicksilver_proxy_estimate_error_ratio"
    assert value(f"{name}_count", {"source": "stage"}) == 2
    assert value(f"{name}_sum", {"source": "stage"}) == 0.25 + 1000, "no run time counts as 10 ms"
    assert value("quicksilver_proxy_bad_tags_total") == 2
