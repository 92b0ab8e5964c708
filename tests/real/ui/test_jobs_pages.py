"""The pages Applications, Queues and Policies of a real proxy, in Chromium, while unmodified jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quicksilver_lab.cluster.cluster import Cluster
from quicksilver_lab.cluster.local_daemons import LocalDaemons
from quicksilver_lab.workloads.mapreduce import start_pi
from tests.real.test_jobs import MAPS_Q
from tests.rm_proxy.ui.chromium import MISSING, Browser, chromium

pytestmark = pytest.mark.hadoop
MAPS = 32
"""Of each of two jobs: more than the nodes have room for, so that some wait, for longer than a page takes to open.

On two cores the maps leave Chromium next to nothing: its first page took more than a minute.
"""


@pytest.fixture(scope="module")
def stack(overlay_cluster: Cluster) -> Iterator[LocalDaemons]:
    made = LocalDaemons(overlay_cluster, policies=MAPS_Q)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.fail(MISSING)
    with chromium(tmp_path_factory.mktemp("real-dashboard-jobs")) as session:
        yield session


def seen(browser: Browser, url: str, name: str) -> None:
    """Open a page in both themes; it has no fault."""
    for theme in ("light", "dark"):
        browser.use_theme(theme)
        browser.open(url)
        browser.screenshot(f"{name}-{theme}")
        assert browser.audit() == [], name


KEPT_S = 180.0
"""An answer of the store that took long to make, as on a loaded machine, is kept for a minute."""


def until(check: Callable[[], Any], timeout_s: float = 120) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {found!r}"
        time.sleep(0.3)
    return found


def waiting(stack: LocalDaemons) -> str:
    """Return an application of which containers wait now; "" while there is none."""
    for app in stack.get("/v1/applications")["items"]:
        known = stack.get(f"/v1/applications/{app['id']}/waiting")
        if app["live_q"] and known["wanted"] + known["held"] >= 3:
            return str(app["id"])
    return ""


def shown_waiting(stack: LocalDaemons, browser: Browser, url: str) -> str:
    """Return an application that waits, and that its page shows to wait; a moment later its containers may have begun.

    The page stays open.
    """
    app = waiting(stack)
    if app:
        browser.open(f"{url}/{app}")
    shown = app and browser.run("return Number(document.querySelector('#waiting').textContent)")
    return app if shown and browser.texts_at_once("#why .code") else ""


def test_pages_while_jobs_run(overlay_cluster: Cluster, stack: LocalDaemons, browser: Browser) -> None:
    url = f"{stack.url}/ui"
    browser.open(f"{url}/applications")  # once, while the machine is quiet
    jobs = [start_pi(overlay_cluster, f"pages-{number}", MAPS, 2_000_000) for number in range(2)]
    app = until(lambda: shown_waiting(stack, browser, f"{url}/applications"))
    assert browser.run("return document.querySelector('#state').innerText") == "running"
    seen(browser, f"{url}/applications/{app}", "real-application")
    container = until(lambda: stack.get(f"/v1/applications/{app}/containers?kind=Q")["items"])[-1]["container_id"]
    seen(browser, f"{url}/containers/{container}", "real-container")
    assert any("It was requested as queueable" in one for one in browser.texts_at_once("#story li"))
    jobs.append(start_pi(overlay_cluster, "pages-2", MAPS, 2_000_000))  # the first ones may have ended meanwhile
    browser.open(f"{url}/queues")
    browser.until(
        "return [...document.querySelectorAll('#tree tbody td:nth-child(9)')].some((e) => Number(e.textContent) > 0)",
        KEPT_S,
    )
    seen(browser, f"{url}/queues", "real-queues")
    seen(browser, f"{url}/queues/root.default", "real-queue")
    until(lambda: max(stack.get("/v1/queues/root.default/history")["values"].get("apps", [0]) or [0]) >= 1)

    reload_from_the_page(stack, browser, f"{url}/policies")

    done = [job.wait(timeout_s=400).application_id for job in jobs]
    assert app in done
    finished = "/v1/applications?state=finished&ledger=true&sort=-submitted"
    rows = {row["id"]: row for row in until(lambda: both(stack.get(finished)["items"], done))}
    assert all(rows[one]["ledger"]["containers_q"] >= MAPS and rows[one]["elapsed_s"] > 1 for one in done)
    waits = until(lambda: stack.get(f"/v1/applications/{app}/waits")["all"]["queueing"])
    assert waits["count"] > MAPS / 2 and waits["max_s"] > 0.5, waits
    seen(browser, f"{url}/applications", "real-applications")
    assert {"SUCCEEDED"} <= {text.upper() for text in browser.texts_at_once("tbody td:nth-child(3)")}
    browser.open(f"{url}/applications/{app}")
    browser.until("return document.querySelector('#state').innerText.toUpperCase() === 'SUCCEEDED'", KEPT_S)
    assert "Nothing waits" in browser.text("#why")
    assert browser.run("return document.querySelectorAll('#timeline .bar .run').length") > MAPS / 2
    assert browser.console() == []


def both(items: list[dict[str, Any]], wanted: list[str]) -> list[dict[str, Any]]:
    """Return the rows once all wanted ones are there."""
    return items if set(wanted) <= {item["id"] for item in items} else []


def reload_from_the_page(stack: LocalDaemons, browser: Browser, url: str) -> None:
    """Check a changed file, then apply it; one with a mistake is refused."""
    file = stack.folder / "proxy.yaml"
    good = file.read_text()
    assert good.count("policies:\n") == 1
    try:
        file.write_text(good.replace("policies:\n", "policies:\n  order: {policy: hrn}\n"))
        seen(browser, url, "real-policies")
        browser.click("#reload button[type=submit]")
        browser.until("return document.querySelector('.mistakes') !== null")
        assert "did you mean hrrn" in browser.text(".mistakes")
        file.write_text(good.replace("policies:\n", "policies:\n  order: {policy: hrrn}\n"))
        browser.click("#reload button[type=submit]")
        browser.until("return !document.querySelector('#apply').disabled")
        assert "policies.order.policy" in browser.text("#checked")
        assert stack.get("/v1/policies")["version"].startswith("1-"), "nothing changed yet"
        browser.click("#apply")
        browser.until("return document.querySelector('.done') !== null")
        assert "3 of 3 sidecars" in browser.text("#checked")
        browser.screenshot("real-policies-applied")
        active = {one["slot"]: one["name"] for one in stack.get("/v1/policies")["active"]}
        assert active["order"] == "hrrn"
        browser.until(
            "return document.querySelector('#history tbody').textContent.includes('policies.order.policy')", KEPT_S
        )
        browser.console()  # the refusal was one of the network, too
    finally:
        file.write_text(good)
