"""The pages Applications, Queues and Policies in a real browser."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from quicksilver.common.messages import ReloadAnswer, ReloadRequest, SettingChange
from quicksilver.common.settings.reload import How, ReloadRefusedError
from tests.rm_proxy.ui.busy_proxy import RUNNING, make_busy
from tests.rm_proxy.ui.chromium import Browser, inspect_page
from tests.rm_proxy.ui.serving import serving
from tests.rm_proxy.ui.small_proxy import SmallProxy, small_proxy
from tests.rm_proxy.yarn_messages import cid

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallProxy]:
    with small_proxy(tmp_path_factory.mktemp("busy")) as proxy:
        proxy.queue_history = make_busy(proxy)
        yield proxy


@pytest.fixture(scope="module")
def url(busy: SmallProxy) -> Iterator[str]:
    with serving(busy.app()) as url:
        yield url


@pytest.fixture
def empty_url(tmp_path: Path) -> Iterator[str]:
    with small_proxy(tmp_path) as proxy, serving(proxy.app()) as url:
        yield url


def test_the_list_of_applications(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/applications", "applications", focusable=20)
    browser.open(f"{url}/ui/applications")
    assert browser.text(".table-status") == "1–25 of 61"
    assert "join <b>clicks</b>" in browser.texts_at_once("tbody td:nth-child(2)"), "no markup"
    browser.run("document.querySelector('[name=user]').value = 'bob'")
    browser.click("#filters button[type=submit]")
    browser.until(
        "return [...document.querySelectorAll('tbody td:nth-child(5)')].every((e) => e.textContent === 'bob')"
    )
    assert "user=bob" in browser.driver.current_url
    shown = int(browser.text(".table-status").rpartition(" ")[2])
    json_url = browser.run("return document.querySelector('#list-json').href")
    assert len(requests.get(json_url, timeout=10).json()["items"]) == shown
    browser.click("th:nth-child(8) button")
    browser.until("return document.querySelector('th:nth-child(8)').ariaSort === 'descending'")
    elapsed = browser.run("return [...document.querySelectorAll('tbody td:nth-child(8) a')].map((e) => e.href)")
    assert all("/v1/applications/" in one for one in elapsed)
    browser.open(f"{url}/ui/applications?state=running")
    assert browser.texts_at_once("tbody td:nth-child(3)") == ["running"]
    browser.click("tbody a")
    browser.until("return document.querySelector('#name')?.textContent === 'join <b>clicks</b>'")


def test_one_application(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/applications/{RUNNING}", "application", focusable=25)
    browser.open(f"{url}/ui/applications/{RUNNING}")
    why = browser.texts_at_once("#why li")
    assert any("at a node" in one and "cores: 8 of 8 are used" in one for one in why), why
    waiting = requests.get(f"{url}/v1/applications/{RUNNING}/waiting", timeout=10).json()
    counts = [int(one.split()[0]) for one in why]
    assert sum(counts) == waiting["wanted"] + waiting["held"] == int(browser.text("#waiting")) > 10
    assert browser.run("return document.querySelectorAll('#timeline .bar').length") == 44
    assert {"killed", "shed", "moved"} <= set(browser.texts_at_once("#losses tbody td:nth-child(2)"))
    percentiles = browser.texts_at_once("#percentiles tbody tr:first-child td")
    assert percentiles[2] == str(waiting["wanted"]), "their waits so far count"
    assert browser.text("#waits .legend-time").startswith(("now ", "last "))
    assert browser.text("#kills") == "2" and "of work lost" in browser.text("#kills-hint")
    assert any("quota" in one for one in browser.texts_at_once("#choices td")) and browser.texts_at_once("#story li")
    browser.click("#containers tbody a")
    browser.until("return document.querySelector('[data-container]') !== null")


def test_a_finished_application_and_one_that_nobody_knows(browser: Browser, url: str) -> None:
    browser.open(f"{url}/ui/applications/{RUNNING.replace('_0001', '_0007')}")
    assert browser.text("#state") in ("SUCCEEDED", "FAILED", "KILLED") and "Nothing waits" in browser.text("#why")
    assert "No container yet" in browser.text("#timeline")
    browser.open(f"{url}/ui/applications/application_9_9")
    assert "Nothing is known of application_9_9" in browser.text("#unknown")
    assert browser.console() == []


def test_one_container(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/containers/{cid(9)}", "container", focusable=5)
    browser.open(f"{url}/ui/containers/{cid(9)}")
    browser.until("return document.querySelectorAll('#story li').length > 0")
    story = browser.texts_at_once("#story li")
    assert any("killed to make room" in one for one in story), story
    assert browser.texts_at_once("#events tbody td:nth-child(2)") == ["started", "killed"]
    assert browser.texts_at_once("#scores tbody td:nth-child(2)") == ["0.4", "1.8", "∞"]
    browser.open(f"{url}/ui/containers/container_9")
    assert "Nothing is known of container_9" in browser.text("#unknown")


def test_the_tree_of_queues(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/queues", "queues", focusable=15)
    browser.open(f"{url}/ui/queues")
    names = ["root", "adhoc", "batch", "default", "prod", "etl no Qs"]
    assert [one.replace("\n", " ") for one in browser.texts_at_once("#tree tbody td:first-child")] == names
    tree = {one["name"]: one for one in requests.get(f"{url}/v1/queue-tree", timeout=10).json()["items"]}
    wanted = [str(tree[f"root.{name}"]["wanted_q"]) for name in ("adhoc", "batch")]
    assert browser.texts_at_once("#tree tbody td:nth-child(7)")[1:3] == wanted and int(wanted[1]) > 0
    assert browser.text("#over .legend-time").startswith(("now ", "last "))
    browser.click("#tree tbody tr:nth-child(3) a")
    browser.until("return document.querySelector('[data-queue]')?.dataset.queue === 'root.batch'")


def test_one_queue(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/queues/root.batch", "queue", focusable=15)
    browser.open(f"{url}/ui/queues/root.batch")
    detail = requests.get(f"{url}/v1/queues/root.batch", timeout=10).json()
    assert browser.texts_at_once("#users tbody td:first-child") == [one["user"] for one in detail["users"]] == ["ann"]
    assert "queue_share" in browser.text("#facts")
    browser.click("#spans button:nth-child(2)")
    browser.until("return document.querySelector('#use-json').href.includes('last_s=14400')")
    browser.open(f"{url}/ui/queues/root.nothing")
    assert "There is no YARN queue root.nothing" in browser.text("#unknown")


def test_policies(browser: Browser, url: str) -> None:
    inspect_page(browser, f"{url}/ui/policies", "policies", focusable=15)
    browser.open(f"{url}/ui/policies")
    rows = dict(
        zip(
            browser.texts_at_once("#slots tbody td:first-child strong"),
            browser.texts_at_once("#slots .badge"),
            strict=True,
        )
    )
    assert rows["order"] == "file over preset default" and rows["dispatch"] == "preset default"
    assert "backup" in browser.text("#windows") and "25 %" in browser.text("#rollout")
    assert "next: backup" in browser.text("#window-hint")
    changes = browser.texts_at_once("#history tbody tr")
    assert len(changes) == 3 and "unknown policy hrn" in "".join(changes) and '"srpt"' in "".join(changes)


class Settings:
    """Takes the second file; the first one has mistakes."""

    def __init__(self) -> None:
        self.applied: list[tuple[str, ReloadRequest]] = []
        self.lock = threading.Lock()

    async def check(self, file: str) -> ReloadAnswer:
        if file == "bad.yaml":
            raise ReloadRefusedError(("bad.yaml:1:1: policies.plce: unknown setting", "bad.yaml:9:1: <i>no</i>"))
        change = SettingChange(path="policies.order.policy", before='"srpt"', after='"hrrn"')
        return ReloadAnswer(file=file, version="2-b", before="1-a", digest="b", changes=[change], notes=["a remark"])

    async def reload(self, who: str, how: How, request: ReloadRequest) -> ReloadAnswer:
        self.applied.append((who, request))
        return await self.check(request.file)


def test_a_reload_is_checked_first_and_applies_what_was_checked(browser: Browser, tmp_path: Path) -> None:
    settings = Settings()
    with small_proxy(tmp_path) as proxy:
        parts: dict[str, Any] = {"check": settings.check, "reload": settings.reload}
        make = proxy.parts
        proxy.parts = lambda **more: make(**(parts | more))  # type: ignore[method-assign]
        with serving(proxy.app()) as url:
            browser.open(f"{url}/ui/policies")
            browser.console()
            file = "document.querySelector('#reload [name=file]')"
            browser.type("#reload [name=file]", "bad.yaml\n")
            browser.until("return document.querySelector('.mistakes') !== null")
            assert "<i>no</i>" in browser.text(".mistakes") and browser.text(".mistakes").count("\n") == 1
            assert not browser.driver.find_element("id", "apply").is_enabled() and settings.applied == []
            browser.run(f"{file}.value = ''")
            browser.type("#reload [name=file]", "new.yaml\n")
            browser.until("return !document.querySelector('#apply').disabled")
            assert browser.text("#checked del").endswith('"srpt"') and "a remark" in browser.text("#checked")
            assert browser.audit() == []
            browser.screenshot("policies-checked")
            browser.click("#apply")
            browser.until("return document.querySelector('.done') !== null")
            ((who, request),) = settings.applied
            assert (who, request.file, request.expect, request.nodes) == ("dashboard@127.0.0.1", "new.yaml", "b", True)
            browser.type("#reload [name=file]", "x")
            assert not browser.driver.find_element("id", "apply").is_enabled(), "another file has to be checked"


def test_empty_states_say_what_to_do(browser: Browser, empty_url: str) -> None:
    browser.driver.get("about:blank")
    browser.console()
    for page, expected in (
        ("applications", "Submit a job to YARN"),
        ("queues", "Nothing waited yet"),
        ("policies", "Name alternatives in policies.shadow"),
        ("queues/root.default", "The chart begins when"),
    ):
        browser.open(f"{empty_url}/ui/{page}")
        assert expected in browser.text("main"), page
        browser.screenshot(f"empty-{page.replace('/', '-')}")
        assert browser.audit() == []
    assert browser.console() == []


PREFIX = "/gateway/qs"


def below_prefix(app: ASGIApp) -> ASGIApp:
    """Return an application below a path, as a web proxy shows it; it takes the path off, and answers nothing else."""

    async def passed_on(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{PREFIX}/"):
            raw = scope["raw_path"].removeprefix(PREFIX.encode())
            await app({**scope, "path": scope["path"].removeprefix(PREFIX), "raw_path": raw}, receive, send)
        else:
            await PlainTextResponse("not of this gateway's", 404)(scope, receive, send)

    return passed_on


def test_pages_below_a_prefix(browser: Browser, busy: SmallProxy) -> None:
    with serving(below_prefix(busy.app())) as url:
        browser.driver.get("about:blank")  # the page before asks for nothing any more
        browser.console(), browser.requests()
        for page in ("applications", f"applications/{RUNNING}", "queues", "queues/root.batch", "policies"):
            browser.open(f"{url}{PREFIX}/ui/{page}")
        browser.open(f"{url}{PREFIX}/docs")
        browser.until("return document.querySelectorAll('.opblock').length > 20")
        assert browser.console() == []
        asked = [one for one in browser.requests() if not one.startswith("data:")]
        assert asked and [one for one in asked if not one.startswith(f"{url}{PREFIX}/")] == []
        browser.click("#operations-nodes-nodes_v1_nodes_get button")
        for step in (".try-out__btn", ".execute"):
            browser.until(f"return document.querySelector('{step}') !== null")
            browser.click(step)
        browser.until("return document.querySelector('.live-responses-table .response-col_status') !== null")
        assert browser.text(".request-url pre") == f"{url}{PREFIX}/v1/nodes?limit=1000&offset=0"
        assert browser.text(".live-responses-table tbody td.response-col_status").startswith("200")
