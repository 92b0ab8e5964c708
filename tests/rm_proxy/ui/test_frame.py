"""The frame of the dashboard: addresses, headers, static files, login and the protection of actions."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.http.browser_login import COOKIE, BrowserLogin, base_path, csrf_of
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.web.assets import FOLDER, UPLOT
from quicksilver.common.web.docs_site import docs_routes
from quicksilver.common.web.pages import Pages
from rm_proxy.ui.site import SITE as DASHBOARD
from tests.rm_proxy.ui.chromium import Browser
from tests.rm_proxy.ui.serving import serving
from tests.rm_proxy.ui.small_proxy import SmallProxy, small_proxy

READ, ADMIN, NODE = "r" * 40, "a" * 40, "n" * 40
PAGES = ("", "nodes", "health")
HTML = {"Accept": "text/html"}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[SmallProxy]:
    with small_proxy(tmp_path) as made:
        yield made


@pytest.fixture
def client(proxy: SmallProxy) -> TestClient:
    return TestClient(proxy.app(), "http://localhost", raise_server_exceptions=False, follow_redirects=False)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[SmallProxy]:
    file = tmp_path / "tokens"
    file.write_text(f"read {READ}\nadmin {ADMIN}\nnode {NODE}\n")
    file.chmod(0o600)
    with small_proxy(tmp_path, security=Security(SecuritySettings(token_file=file, insecure=True))) as made:
        yield made


@pytest.fixture
def stranger(guarded: SmallProxy) -> TestClient:
    return TestClient(guarded.app(), raise_server_exceptions=False, follow_redirects=False)


def log_in(client: TestClient, token: str) -> str:
    """Log in; returns the CSRF header's value as a page has it."""
    answer = client.post("/ui/login", data={"token": token, "to": "nodes"})
    assert (answer.status_code, answer.headers["location"]) == (303, "../ui/nodes")
    page = client.get("/ui/nodes", headers=HTML).text
    found = re.search(r'data-csrf="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_relative_and_says_what_a_browser_may_load(client: TestClient, page: str) -> None:
    answer = client.get(f"/ui/{page}")
    assert answer.status_code == 200 and answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    links = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    assert len(links) > 10 and [link for link in links if not link.startswith(("../", "#"))] == []
    assert not re.search(r"<script>|style=|\son\w+=", answer.text), "nothing inline"
    assert 'aria-current="page"' in answer.text


def test_the_start_leads_to_the_dashboard(client: TestClient) -> None:
    for path in ("/", "/ui"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (307, "ui/")
    assert client.get("/ui/docs").headers["location"] == "docs/"
    assert client.get("/ui/nothing").json()["error"]["code"] == "not-found"


def test_the_documentation_is_served_or_said_to_be_missing(tmp_path: Path) -> None:
    app, pages = FastAPI(), Pages(DASHBOARD, BrowserLogin(lambda: None, ""))
    app.include_router(docs_routes(pages, tmp_path), prefix="/ui")
    visitor = TestClient(app, raise_server_exceptions=False)
    assert "make docs" in visitor.get("/ui/docs/").text
    (tmp_path / "index.html").write_text("built")
    assert visitor.get("/ui/docs/").text == "built"


def test_static_files_are_kept_for_a_year_under_their_hash(client: TestClient) -> None:
    found = re.search(r'src="\.\./(ui/static/[0-9a-f]{12}/)js/theme\.js"', client.get("/ui/").text)
    assert found is not None
    plain = client.get(f"/{found[1]}css/frame.css", headers={"Accept-Encoding": "identity"})
    packed = client.get(f"/{found[1]}css/frame.css", headers={"Accept-Encoding": "gzip"})
    assert plain.content == packed.content == (FOLDER / "css" / "frame.css").read_bytes()
    assert packed.headers["content-encoding"] == "gzip" and "immutable" in plain.headers["cache-control"]
    assert client.get("/ui/static/000000000000/css/frame.css").headers["cache-control"] == "no-cache"
    for name in ("css/none.css", "%2e%2e/pages.py", "..%2f..%2fpages.py"):
        assert client.get(f"/{found[1]}{name}").status_code == 404


def test_vendored_files_are_what_was_fetched_and_have_a_licence() -> None:
    lists = [UPLOT / "SHA256SUMS", *FOLDER.glob("vendor/*/SHA256SUMS")]
    for sums in lists:
        pairs = dict(reversed(line.split()) for line in sums.read_text().splitlines())
        others = {path.name for path in sums.parent.iterdir()} - {"SHA256SUMS"}
        assert "LICENSE" in others and pairs.keys() == others
        assert pairs == {name: hashlib.sha256((sums.parent / name).read_bytes()).hexdigest() for name in pairs}


def test_a_stranger_is_sent_to_log_in(stranger: TestClient) -> None:
    answer = stranger.get("/ui/nodes?sort=id", headers=HTML)
    assert (answer.status_code, answer.headers["location"]) == (303, "login?to=nodes%3Fsort%3Did")
    assert stranger.get("/ui", headers=HTML).headers["location"] == "ui/login?to="
    assert stranger.get("/ui/nodes/n1:1", headers=HTML).headers["location"] == "../login?to=nodes%2Fn1%3A1"
    assert stranger.get("/ui/nodes").status_code == 401 and stranger.get("/v1/nodes", headers=HTML).status_code == 401
    form = stranger.get("/ui/login?to=nodes").text
    assert 'name="to" value="nodes"' in form and "certs token read" in form
    for bad in ("//evil.example", "https://evil.example", "\\\\evil", "../x", "javascript:x"):
        assert 'name="to" value=""' in stranger.get("/ui/login", params={"to": bad}).text


def test_a_token_in_a_cookie_opens_pages_and_json(stranger: TestClient, guarded: SmallProxy) -> None:
    for bad in ("x" * 40, NODE, ""):
        answer = stranger.post("/ui/login", data={"token": bad})
        assert answer.status_code == 401 and "unknown" in answer.text and "set-cookie" not in answer.headers
    assert guarded.refusals == ["token"] * 3
    answer = stranger.post("/ui/login", data={"token": READ})
    assert re.search(r"HttpOnly.*Path=/;.*SameSite=strict", answer.headers["set-cookie"])
    log_in(stranger, READ)
    assert stranger.get("/v1/nodes").status_code == 200 and 'data-role="read"' in stranger.get("/ui/").text
    stranger.post("/ui/logout")
    assert stranger.cookies.get(COOKIE) is None and stranger.get("/v1/nodes").status_code == 401


def test_the_cookie_is_for_the_path_of_the_web_proxy_in_front(stranger: TestClient) -> None:
    headers = {"X-Forwarded-Context": "/gateway/prod", "X-Forwarded-Proto": "https"}
    cookie = stranger.post("/ui/login", data={"token": READ}, headers=headers).headers["set-cookie"]
    assert "Path=/gateway/prod/;" in cookie and "Secure" in cookie
    assert base_path({"x-forwarded-prefix": "/a/b/"}) == "/a/b" and base_path({}, "/s") == "/s"
    for bad in ("a", "/a; Domain=x", "//a", "/a\r\nb", "/a b"):
        assert base_path({"x-forwarded-prefix": bad}) == ""


def test_actions_need_admin_and_a_header_that_only_our_pages_know(stranger: TestClient, guarded: SmallProxy) -> None:
    body = {"on": True, "reason": "test"}
    drain = "/v1/nodes/host1:8041/drain"
    csrf = log_in(stranger, READ)
    assert csrf == csrf_of(READ)
    assert stranger.post(drain, json=body, headers={"X-Quicksilver-Csrf": csrf}).status_code == 403
    csrf = log_in(stranger, ADMIN)
    refused = stranger.post(drain, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf")
    assert stranger.post(drain, json=body, headers={"X-Quicksilver-Csrf": csrf_of(READ)}).status_code == 403
    assert guarded.drained == []
    assert stranger.post(drain, json=body, headers={"X-Quicksilver-Csrf": csrf}).status_code == 204
    assert [node for node, _, _ in guarded.drained] == ["host1:8041"]
    stranger.cookies.clear()
    assert stranger.post(drain, json=body, headers={"Authorization": f"Bearer {ADMIN}"}).status_code == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://knox"}, 204),
        ({"Sec-Fetch-Site": "none"}, 204),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost"}, 204),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://gate.example", "X-Forwarded-Host": "gate.example"}, 204),
    ],
)
def test_pages_of_other_sites_change_nothing(client: TestClient, headers: dict[str, str], status: int) -> None:
    answer = client.post("/v1/nodes/host1:8041/drain", json={"on": True}, headers=headers)
    assert answer.status_code == status
    assert status != 403 or answer.json()["error"]["code"] == "other-origin"


@pytest.mark.browser
def test_log_in_with_a_browser(browser: Browser, guarded: SmallProxy) -> None:
    with serving(guarded.app()) as url:
        browser.open(f"{url}/ui/nodes")
        assert browser.driver.current_url == f"{url}/ui/login?to=nodes"
        browser.screenshot("login")
        assert browser.audit() == []
        browser.type("#token", f"{READ}\n")
        browser.until("return document.querySelector('h1').textContent === 'Nodes'")
        assert browser.driver.current_url == f"{url}/ui/nodes"
        browser.click("form button")
        browser.until("return document.querySelector('h1').textContent === 'Log in'")
    browser.console()


@pytest.mark.browser
def test_the_switch_of_colours_stays(browser: Browser, proxy: SmallProxy) -> None:
    back = "return getComputedStyle(document.body).backgroundColor"
    with serving(proxy.app()) as url:
        browser.use_theme("dark")
        browser.open(f"{url}/ui/")
        dark = browser.run(back)
        browser.click("#theme")
        light = browser.run(back)
        assert dark != light and browser.text("#theme") == "Light"
        browser.open(f"{url}/ui/health")
        assert browser.run(back) == light
        browser.run("localStorage.clear()")
    assert browser.console() == []
