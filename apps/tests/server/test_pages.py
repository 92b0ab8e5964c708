"""The pages in Chromium: in both themes, by keyboard, for each role; submitting, scaling, killing by them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import (
    HELLO,
    Client,
    eventually,
    served,
    settings,
    simple,
    token_security,
)
from quicksilver.common.http.security import OPEN, Security
from tests.rm_proxy.ui.chromium import Browser, inspect_page

pytestmark = pytest.mark.browser

ANN, ROOT, READER = "a" * 40, "r" * 40, "v" * 40


@pytest.fixture(autouse=True)
def quiet(browser: Browser) -> None:
    """Leave the page of the test before, whose server is gone."""
    browser.driver.get("about:blank")
    browser.use_theme("light")
    browser.console()


class Site:
    def __init__(self, url: str, cluster: FakeCluster, token: str = "") -> None:
        self.url, self.cluster, self.client = url, cluster, Client(url, token)

    def running(self, name: str = "hello") -> str:
        """Submit an application and have it run; returns its id."""
        made = self.client("POST", "/v1/applications", 202, description=HELLO, parameters={"words": name})
        self.cluster.start(self.client.until_state(made["id"], "accepted")["yarn_id"])
        self.client.until_state(made["id"], "ready")
        return str(made["id"])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield from _site(tmp_path, OPEN)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Site]:
    lines = (f"user:ann {ANN}", f"admin:root {ROOT}", f"read {READER}")
    yield from _site(tmp_path, token_security(tmp_path, *lines), ROOT)


def _site(folder: Path, security: Security, token: str = "") -> Iterator[Site]:
    cluster = FakeCluster()
    with served(settings(folder), cluster, security) as (_, url):
        made = Site(url, cluster, token)
        yield made
        made.client.close()


def test_all_pages_in_both_themes_and_by_keyboard(browser: Browser, site: Site) -> None:
    inspect_page(browser, f"{site.url}/ui/", "apps-none", walk=False)
    assert "No application yet" in browser.text("main")
    one = site.running()
    bad = site.client("POST", "/v1/applications", 202, description=simple("large", master={"memory_mb": 99_999}))["id"]
    site.client.until_state(bad, "refused")
    site.client("PUT", "/v1/templates/hello", 200, text=HELLO)
    inspect_page(browser, f"{site.url}/ui/", "apps")
    assert "head 1/1, worker 1/1 + 2/2" in browser.text("#list")
    inspect_page(browser, f"{site.url}/ui/applications/{one}", "app")
    assert browser.text("#name") == "Says hello" and browser.text("#state") == "ready"
    links = [
        (a.text, a.get_attribute("href"))
        for a in browser.driver.find_elements(By.CSS_SELECTOR, "#instances a[rel~=external]")
    ]
    assert links == [("web", "http://n1.example.org:8000/")]
    inspect_page(browser, f"{site.url}/ui/applications/{bad}", "app-refused", walk=False)
    assert "the master wants 99999 MB" in browser.text("#why")
    for page, name in (("submit", "submit"), ("templates", "templates"), ("templates/hello", "template")):
        inspect_page(browser, f"{site.url}/ui/{page}", name, focusable=-2)
    inspect_page(browser, f"{site.url}/ui/quotas", "quotas", focusable=-2)
    inspect_page(browser, f"{site.url}/ui/templates/fresh", "template-new", walk=False)
    assert "not stored yet" in browser.text("#subtitle")
    inspect_page(browser, f"{site.url}/ui/", "apps-narrow", width=500, walk=False)
    inspect_page(browser, f"{site.url}/ui/applications/{one}", "app-narrow", width=500, walk=False)


def test_one_application_is_scaled_and_killed(browser: Browser, site: Site) -> None:
    one = site.running()
    browser.use_theme("light")
    browser.open(f"{site.url}/ui/applications/{one}")
    browser.until("return document.querySelectorAll('#timeline .bar').length >= 10")  # 6 states, 4 instances
    assert len(browser.texts("#changes li")) == 7
    browser.run("document.querySelector('#timeline .bar[tabindex=\"0\"]').focus()")
    browser.press(Keys.ARROW_RIGHT)
    assert browser.text("#pointed").startswith("checked for ")
    browser.press(Keys.END)
    assert browser.text("#pointed").startswith("worker[2] (elastic) container_")
    browser.click("#instances tbody tr:nth-child(2) button")
    browser.until("return document.querySelector('#log').textContent.includes('stdout of container_')")
    browser.click("#log-files [data-file=stderr]")
    browser.until("return document.querySelector('#log').textContent.includes('stderr of container_')")
    field = browser.driver.find_element(By.CSS_SELECTOR, "#services input")
    field.clear()
    field.send_keys("0", Keys.ENTER)
    browser.until("return document.querySelectorAll('#instances tbody tr').length === 2")
    browser.until("return document.querySelector('#timeline').textContent.includes('worker[2]')")
    browser.click("#kill")
    browser.press(Keys.ESCAPE)
    assert site.client.state(one) == "ready", "nothing happened"
    browser.click("#kill")
    browser.type("#reason", "seen enough")
    browser.click("#kill-yes")
    browser.until("return document.querySelector('#state').textContent === 'killed'")
    assert (
        browser.text("#why") == "killed by lab: seen enough"
        and not browser.driver.find_element(By.ID, "kill").is_displayed()
    )
    assert browser.console() == []


def test_submitting_from_a_template(browser: Browser, site: Site) -> None:
    site.client("PUT", "/v1/templates/hello", 200, text=HELLO)
    browser.open(f"{site.url}/ui/templates")
    browser.click("#list a[aria-label='Submit from hello']")
    browser.until("return document.querySelectorAll('#values [data-type]').length === 2")
    assert not browser.driver.find_element(By.ID, "text").is_displayed()
    go = browser.driver.find_element(By.ID, "go")
    assert not go.is_enabled()
    browser.type("#p-words", "good day")
    workers = browser.driver.find_element(By.ID, "p-workers")
    workers.clear()
    workers.send_keys("3")
    browser.click("#check")
    browser.until("return !document.querySelector('#go').disabled")
    assert "1 GB and 3 vcores" in browser.text("#checked")
    browser.type("#p-words", "!")
    assert not go.is_enabled(), "what was checked is not what would be sent"
    browser.click("#check")
    browser.until("return !document.querySelector('#go').disabled")
    browser.click("#go")
    browser.until("return location.pathname.includes('/ui/applications/')")
    eventually(lambda: site.cluster.apps)
    (app,) = site.cluster.apps.values()
    assert (
        app.order.application.services[0].command == "echo good day!" and app.order.application.services[1].elastic == 3
    )


def test_mistakes_of_a_text_are_shown_at_their_lines(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/ui/submit")
    browser.driver.find_element(By.ID, "text")
    text = HELLO.replace("memory_mb: 512", "memory: 512").replace("core: 1\n    elastic", "core: one\n    elastic")
    browser.run("document.querySelector('#text').value = arguments[0]", text)
    browser.click("#check")
    browser.until("return document.querySelectorAll('.mistake-list li').length >= 2")
    browser.use_theme("dark")
    assert browser.audit() == []
    browser.use_theme("light")
    assert browser.texts(".mistake-list button")[0] == "Line 14"
    browser.click(".mistake-list button")
    chosen = browser.run(
        "const t = document.querySelector('#text'); return t.value.slice(t.selectionStart, t.selectionEnd)"
    )
    assert chosen == "    core: one"
    assert not browser.driver.find_element(By.ID, "go").is_enabled()
    browser.run("document.querySelector('#text').value = arguments[0]", HELLO)
    browser.click("#check")
    browser.until("return document.querySelectorAll('#values [data-type]').length === 2")
    browser.until("return document.querySelector('#checked').textContent.includes('words: has no value yet')")
    browser.type("#p-words", "hi")
    browser.click("#check")
    browser.until("return !document.querySelector('#go').disabled")
    browser.click("#go")
    browser.until("return location.pathname.includes('/ui/applications/')")
    assert browser.console() == []


def test_a_template_is_written_and_deleted(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/ui/templates")
    browser.type("#new input", "greeting")
    browser.click("#new button")
    browser.until("return document.querySelector('#subtitle')?.textContent === 'not stored yet'")
    browser.run("document.querySelector('#text').value = arguments[0]", HELLO.replace("core: 1", "core: x"))
    browser.click("#edit button[type=submit]")
    browser.until("return document.querySelectorAll('.mistake-list button').length === 2")
    browser.run("document.querySelector('#text').value = arguments[0]", HELLO)
    browser.click("#edit button[type=submit]")
    browser.until("return document.querySelector('#checked').textContent === 'Saved as version 1.'")
    assert "How many of them" in browser.text("#parameters")
    browser.click("#delete")
    browser.click("#delete")
    browser.until("return location.pathname.endsWith('/ui/templates')")
    browser.until("return document.body.textContent.includes('No template yet')")


def test_the_list_is_filtered(browser: Browser, site: Site) -> None:
    site.running()
    for name in ("alpha", "beta"):
        site.client("POST", "/v1/applications", 202, description=simple(name))
    browser.open(f"{site.url}/ui/")
    browser.until("return document.querySelectorAll('#list tbody tr').length === 3")
    Select(browser.driver.find_element(By.CSS_SELECTOR, "select[name=group]")).select_by_value("ready")
    browser.until("return document.querySelectorAll('#list tbody tr').length === 1")
    assert "group=ready" in browser.driver.current_url
    browser.open(f"{site.url}/ui/?text=alp")
    browser.until("return document.querySelectorAll('#list tbody tr').length === 1")
    assert browser.text("#list tbody td") == "alpha"
    eventually(lambda: (time.sleep(0.2), browser.text("#ready"))[1] == "1")


def log_in(browser: Browser, url: str, token: str) -> None:
    browser.driver.delete_all_cookies()
    browser.open(f"{url}/ui/")
    assert browser.driver.current_url.endswith("/ui/login?to=")
    browser.type("#token", token)
    browser.press(Keys.ENTER)
    browser.until("return document.querySelector('#list') !== null && document.body.dataset.polled === 'yes'")


def test_each_role_sees_and_does_what_it_may(browser: Browser, guarded: Site) -> None:
    ann = Client(guarded.url, ANN)
    mine = ann("POST", "/v1/applications", 202, description=simple("of-ann"))["id"]
    guarded.client("POST", "/v1/applications", 202, description=simple("of-root"))
    ann.until_state(mine, "accepted")
    browser.console()
    log_in(browser, guarded.url, ANN)
    browser.until("return document.querySelectorAll('#list tbody tr').length === 1")
    assert "ann" in browser.text(".tools") and "Those of ann" in browser.text(".head")
    browser.open(f"{guarded.url}/ui/applications/{mine}")
    browser.until("return !document.querySelector('#kill').hidden")
    browser.click("#kill")
    browser.click("#kill-yes")
    assert ann.until_state(mine, "killed")["why"] == "killed by ann", "the form has the CSRF header"
    log_in(browser, guarded.url, READER)
    browser.until("return document.querySelectorAll('#list tbody tr').length === 2")
    browser.open(f"{guarded.url}/ui/submit")
    assert "A reader submits nothing" in browser.text("main")
    log_in(browser, guarded.url, ROOT)
    browser.until("return document.querySelectorAll('#list tbody tr').length === 2")
    cookie = browser.driver.get_cookie("quicksilver_token")
    assert cookie is not None and cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    forged = requests.post(
        f"{guarded.url}/v1/applications/{mine}/kill", json={}, cookies={"quicksilver_token": ROOT}, timeout=10
    )
    assert (forged.status_code, forged.json()["error"]["code"]) == (403, "csrf")
    browser.driver.delete_all_cookies()
    ann.close()
