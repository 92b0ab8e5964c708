"""Percentiles of the time from ask to delivery, with the waits of containers that still wait."""

import math

from policies.model import Kind
from rm_proxy.history import delay_window
from rm_proxy.history.cluster_sample import Sample
from rm_proxy.history.delay_window import WINDOW_S, DelayWindow
from rm_proxy.views.delays import OpenWaits


def test_deliveries_of_the_window_and_what_still_waits() -> None:
    window = DelayWindow()
    for number in range(1, 21):
        window.delivered(Kind.QUEUEABLE, number / 1000, 100.0)
    window.delivered(Kind.GUARANTEED, 1.5, 100.0)
    found = window.percentiles(OpenWaits(), 100.0)
    assert (found["delay_q_p50_s"], found["delay_q_p95_s"]) == (0.01, 0.019)
    assert (found["delay_g_p50_s"], found["delay_g_p95_s"]) == (1.5, 1.5)
    found = window.percentiles(OpenWaits(q=[(62.0, 17)]), 100.0)
    assert (found["delay_q_p50_s"], found["delay_q_p95_s"]) == (0.019, 62.0), "17 of 37 wait for 62 s"
    later = window.percentiles(OpenWaits(g=[(40.0, 1)]), 101.0 + WINDOW_S)
    assert math.isnan(later["delay_q_p50_s"]) and later["delay_g_p95_s"] == 40.0


def test_memory_is_bounded(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(delay_window, "MAX_DELIVERIES", 3)
    window = DelayWindow()
    for delay_s in (9.0, 1.0, 2.0, 3.0):
        window.delivered(Kind.QUEUEABLE, delay_s, 1.0)
    assert window.percentiles(OpenWaits(), 1.0)["delay_q_p95_s"] == 3.0


def test_a_sample_has_them() -> None:
    window, sample = DelayWindow(), Sample()
    sample.add_delays(window.percentiles(OpenWaits(q=[(2.0, 1)]), 1.0))
    assert sample.values()["delay_q_p50_s"] == 2.0 and math.isnan(sample.values()["delay_g_p95_s"])
