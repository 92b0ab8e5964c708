"""The pages Cluster, Nodes and Health in Chromium: at 3, 64 and 1,000 nodes, empty, and behind a web proxy."""

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import requests
from selenium.webdriver.common.keys import Keys
from starlette.types import Receive, Scope, Send

from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.messages import Draining
from rm_proxy.store.store import Store
from tests.rm_proxy.ui.chromium import Browser, inspect_page
from tests.rm_proxy.ui.sample_cluster import busy, wave
from tests.rm_proxy.ui.serving import serving
from tests.rm_proxy.ui.small_proxy import SmallProxy, small_proxy
from tests.rm_proxy.yarn_messages import node_id

pytestmark = pytest.mark.browser

Served = tuple[SmallProxy, str]
NODE = f"nodes/{quote(node_id(1), safe='')}"
PAGES = (("", "cluster"), ("nodes", "nodes"), (NODE, "node"), ("health", "health"))
READ, ADMIN = "r" * 40, "a" * 40


@pytest.fixture(scope="module", params=[3, pytest.param(64, marks=pytest.mark.long), 1000], ids=str)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with small_proxy(tmp_path_factory.mktemp("store"), nodes=request.param) as proxy:
        busy(proxy, request.param)
        with serving(proxy.app()) as url:
            yield proxy, url


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with small_proxy(tmp_path_factory.mktemp("store"), nodes=64) as proxy:
        busy(proxy, 64)
        with serving(proxy.app()) as url:
            yield proxy, url


def numbers(browser: Browser) -> list[str]:
    """Return where the numbers and JSON links of the page lead, each once."""
    links: list[str] = browser.run("return [...document.querySelectorAll('a.n, a.json')].map((link) => link.href)")
    return sorted(set(links))


def test_every_page_at_every_size(browser: Browser, served: Served) -> None:
    proxy, url = served
    nodes = len(proxy.world.nodes)
    for page, name in PAGES:
        inspect_page(browser, f"{url}/ui/{page}", f"{name}-{nodes}", walk=nodes == 3)
        links = numbers(browser)
        assert len(links) >= 2 and browser.run("return document.querySelectorAll('a.n').length") >= 6
        for link in links[:40]:
            answer = requests.get(link, timeout=10)
            assert answer.status_code == 200 and answer.headers["content-type"] == "application/json", link


@pytest.mark.parametrize(("age_s", "word"), [(600, "last"), (0, "now")])
def test_old_samples_are_not_called_now(browser: Browser, tmp_path: Path, age_s: int, word: str) -> None:
    with small_proxy(tmp_path) as proxy, serving(proxy.app()) as url:
        wave(proxy.series, 24.0, time.time() - age_s)
        browser.open(f"{url}/ui/")
        assert browser.text("#chart .legend-time").startswith(f"{word} 20")
        assert browser.text("#delays .legend-time").startswith(f"{word} 20")
        browser.driver.get("about:blank")  # it asks for nothing once the server is gone
    browser.console()


def test_what_the_cluster_page_says(browser: Browser, few: Served) -> None:
    _, url = few
    browser.open(f"{url}/ui/")
    now = requests.get(f"{url}/v1/cluster/history", timeout=10).json()["now"]
    for tile, name in (("count-g", "count_g"), ("count-q", "count_q"), ("count-waiting", "count_waiting")):
        assert browser.text(f"#{tile}") == f"{now[name]:.0f}"
    kills = requests.get(f"{url}/v1/kills", timeout=10).json()["items"]
    ledger = requests.get(f"{url}/v1/ledger", params={"by": "day"}, timeout=10).json()["items"]
    assert sum(row["count"] for row in kills) == sum(row["kills"] for row in ledger) > 5
    assert "A guaranteed container needed the room" in browser.text("#kills")
    assert len(browser.texts("#chart .legend button")) == 5 and len(browser.texts("#delays .legend button")) == 4
    assert browser.text("#delays .legend-value").endswith(" s"), "the delays of the last step"
    label = "return document.querySelector('.chart-canvas').getAttribute('aria-label')"
    browser.run("document.querySelector('.chart-canvas').focus()")
    before = browser.run(label)
    browser.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.run(label) != before and browser.text(".legend-time").startswith("at ")
    browser.click("#units button[data-unit=memory]")
    browser.until("return document.querySelectorAll('#chart .legend button').length === 3")
    browser.click("#spans button[data-span='900']")
    browser.until("return document.querySelector('#history-json').href.endsWith('last_s=900')")
    assert browser.driver.current_url.endswith("unit=memory&last_s=900") and browser.console() == []


def test_map_by_keyboard_and_list_by_filter(browser: Browser, few: Served) -> None:
    _, url = few
    browser.open(f"{url}/ui/nodes?metric=queue")
    assert browser.run("return document.querySelectorAll('.map [tabindex=\"0\"]').length") == 1
    browser.run("document.querySelector('.map [tabindex=\"0\"]').focus()")
    browser.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.text("#pointed").startswith(f"{node_id(3)} · ")
    browser.press(Keys.END)
    assert browser.text("#pointed").startswith(f"{node_id(64)} · ")
    browser.type("input[type=search]", "draining")
    rows = browser.texts("#list tbody tr")
    assert len(rows) == 2 and all("kernel upgrade" in row for row in rows), "31 and 62"
    assert browser.driver.current_url.endswith("metric=queue&q=draining")
    browser.open(f"{url}/ui/nodes")
    browser.click("#list th:nth-child(8) button")
    waiting = [int(text) for text in browser.texts_at_once("#list td:nth-child(8)")]
    assert waiting == sorted(waiting, reverse=True) and waiting[0] > 0 and len(waiting) == 25
    browser.click("[aria-label='Next page']")
    assert browser.text(".table-status") == "26–50 of 64"
    browser.run("document.querySelector('.map [tabindex=\"0\"]').focus()")
    browser.press(Keys.ENTER)
    browser.until("return location.pathname.includes('/nodes/host1')")
    browser.settled()
    assert browser.text("h1") == node_id(1)


def test_the_timeline_of_a_node(browser: Browser, few: Served) -> None:
    _, url = few
    browser.open(f"{url}/ui/{NODE}?last_s=3600")
    known = requests.get(f"{url}/v1/nodes/{node_id(1)}/timeline", params={"last_s": 3600}, timeout=10).json()
    assert browser.run("return document.querySelectorAll('.bar').length") == len(known["containers"]) > 80
    ends = [one["end"] for one in known["containers"]]
    assert browser.run("return document.querySelectorAll('.bar .end').length") == ends.count("killed") >= 2
    assert browser.run("return document.querySelectorAll('.bar .shed').length") == ends.count("shed") > 5
    browser.run("document.querySelector('.bar[tabindex=\"0\"]').focus()")
    browser.press(Keys.END)
    assert known["containers"][-1]["container_id"] in browser.text("#pointed")
    browser.click("#spans button[data-span='600']")
    browser.until(f"return document.querySelectorAll('.bar').length < {len(ends)}")
    browser.open(f"{url}/ui/nodes/none:1")
    assert "There is no node none:1" in browser.text("main")
    browser.console()


def test_a_pause_asks_for_nothing(browser: Browser, few: Served) -> None:
    _, url = few
    browser.open(f"{url}/ui/nodes?live=off")
    assert browser.text("#live") == "Paused" and browser.texts("#list tbody tr")
    browser.requests()
    time.sleep(4.5)
    assert browser.requests() == []
    browser.click("#live")
    browser.until("return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('nodes')).length > 1")
    assert browser.text("#live") == "Live"


def test_an_empty_cluster_says_what_to_do(browser: Browser, tmp_path: Path) -> None:
    with small_proxy(tmp_path, nodes=0) as proxy, serving(proxy.app()) as url:
        for page, words in (
            ("", "No samples yet"),
            ("nodes", "a sidecar on each node"),
            ("health", "No sidecar has reported"),
        ):
            inspect_page(browser, f"{url}/ui/{page}", f"empty-{page or 'cluster'}", walk=False)
            assert words in browser.text("main")


def test_a_store_that_is_out_is_said_and_the_rest_goes_on(browser: Browser, tmp_path: Path) -> None:
    with small_proxy(tmp_path) as proxy:
        busy(proxy, 3)
        broken = Store(f"sqlite:///{tmp_path / 'broken.db'}")
        working, proxy.store = proxy.store, broken
        with serving(proxy.app()) as url:
            browser.open(f"{url}/ui/")
            browser.until("return !document.querySelector('#banner').hidden")
            assert "broken.db" in browser.text("#banner") and browser.text("#count-g") != "–"
        proxy.store = working
        broken.close()
    browser.console()


def test_actions_by_role(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"read {READ}\nadmin {ADMIN}\n")
    file.chmod(0o600)
    security = Security(SecuritySettings(token_file=file, insecure=True))
    with small_proxy(tmp_path, security=security) as proxy:
        busy(proxy, 3)
        with serving(proxy.app()) as url:
            for token, buttons in ((READ, 0), (ADMIN, 1)):
                browser.open(f"{url}/ui/{NODE}")
                browser.type("#token", f"{token}\n")
                browser.until("return document.querySelector('[data-node]') !== null")
                browser.settled()
                assert browser.run("return document.querySelectorAll('#drain').length") == buttons
                if not buttons:
                    browser.click("form button")
                    browser.until("return document.querySelector('#token') !== null")
            browser.click("#drain")
            browser.until("return document.querySelector('#banner').hidden")
            deadline = time.monotonic() + 60
            while not proxy.drained and time.monotonic() < deadline:
                time.sleep(0.05)
            assert [(node, order) for node, order, _ in proxy.drained] == [
                (node_id(1), Draining(on=True, reason="drained from the dashboard"))
            ]
            browser.open(f"{url}/ui/health")
            browser.click("#orders button[data-order=on]")
            browser.until("return document.querySelector('[data-order=on]').getAttribute('aria-pressed') === 'true'")
            assert proxy.order == "on"
            browser.run("document.body.dataset.csrf = 'stale'")
        browser.driver.delete_all_cookies()
    browser.console()


def test_behind_a_web_proxy_with_a_path_of_its_own(browser: Browser, tmp_path: Path) -> None:
    prefix = "/gateway/prod/quicksilver"
    with small_proxy(tmp_path) as proxy:
        busy(proxy, 3)
        app = proxy.app()

        async def knox(scope: Scope, receive: Receive, send: Send) -> None:
            """Cut the prefix off, as a web proxy in front does; anything else is not there."""
            if scope["type"] == "http":
                assert scope["path"].startswith(prefix), scope["path"]
                path, raw = scope["path"].removeprefix(prefix), scope["raw_path"].removeprefix(prefix.encode())
                scope = {**scope, "path": path, "raw_path": raw}
            await app(scope, receive, send)

        with serving(knox) as url:
            browser.open(f"{url}{prefix}/ui")
            assert browser.driver.current_url == f"{url}{prefix}/ui/"
            for page, name in PAGES[1:3]:
                inspect_page(browser, f"{url}{prefix}/ui/{page}", f"gateway-{name}", walk=False)
                assert all(link.startswith(f"{url}{prefix}/v1/") for link in numbers(browser))
