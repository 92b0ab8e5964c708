"""The pool of sleeping work: each unit is counted once, whoever is lost."""

from __future__ import annotations

import threading
import time

from quicksilver_lab.bench.zoe import pool
from quicksilver_lab.bench.zoe.pool import Pool
from quicksilver_lab.cluster.ports import free_base_port


def test_units_are_taken_and_done_once() -> None:
    work = Pool(2, unit_s=1.0)
    assert (work.take(0.0), work.take(0.0), work.take(0.0)) == (0, 1, None)
    work.done(0)
    work.done(0)
    assert work.remaining == 1 and not work.over.is_set()
    work.done(1)
    assert work.remaining == 0 and work.over.is_set()


def test_a_unit_of_a_lost_worker_goes_to_another_one() -> None:
    work = Pool(1, unit_s=1.0)
    assert work.take(0.0) == 0
    assert work.take(4.0) is None
    assert work.take(4.5) == 0
    work.done(0)
    assert work.over.is_set()


def test_workers_share_the_work_and_end_with_the_pool(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pool, "_RETRY_S", 0.3)
    port = free_base_port(1)
    begun_s = time.monotonic()
    workers = [threading.Thread(target=pool.work, args=(0.05, "127.0.0.1", port)) for _ in range(4)]
    serving = threading.Thread(target=pool.serve, args=(20, 0.05, "127.0.0.1", port))
    for thread in (serving, *workers):
        thread.start()
    serving.join(20)
    took_s = time.monotonic() - begun_s
    for thread in workers:
        thread.join(20)
    assert not any(thread.is_alive() for thread in (serving, *workers))
    assert took_s >= 0.25, "20 units of 0.05 s by 4 workers"
