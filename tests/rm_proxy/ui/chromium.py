"""A Chromium without a window, and what holds for each page of the dashboard: `inspect_page`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from selenium.common.exceptions import TimeoutException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

DRIVER: Final = shutil.which("chromedriver")
CHROMIUM: Final = shutil.which("chromium")
MISSING: Final = (
    "" if DRIVER and CHROMIUM else "no chromium or no chromedriver here; on Debian: apt-get install chromium-driver"
)
_OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--force-prefers-reduced-motion",
    "--hide-scrollbars",
)
_AUDIT: Final = (Path(__file__).parent / "audit.js").read_text()


class Browser:
    """One session; `folder` gets the screenshots."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver, self.folder = driver, folder

    def open(self, url: str, *, width: int = 1400, height: int = 1000) -> None:
        """Open a page, and wait until it has drawn the first answers of its polls."""
        self.driver.set_window_size(width, height)
        self.driver.get(url)
        self.until("return document.readyState === 'complete'")
        self.settled()

    def settled(self) -> None:
        """Wait until all of the page's polls have answered."""
        self.until("return document.body.dataset.polled !== 'no'")

    def until(self, script: str, timeout_s: float = 60) -> Any:
        """Wait until a script returns something true, and return it."""
        return WebDriverWait(self.driver, timeout_s, 0.05).until(lambda driver: driver.execute_script(script), script)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, css: str) -> str:
        """Return the text of the first element of a selector, as it is drawn."""
        return self.driver.find_element(By.CSS_SELECTOR, css).text

    def texts(self, css: str) -> list[str]:
        """Return the texts of all elements of a selector."""
        return [one.text for one in self.driver.find_elements(By.CSS_SELECTOR, css)]

    def texts_at_once(self, css: str) -> list[str]:
        """Return the texts of all elements of a selector as they are at one moment, on a page that is drawn anew."""
        texts: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText.trim())", css
        )
        return texts

    def click(self, css: str) -> None:
        """Click the first element of a selector, as a mouse does."""
        element = self.driver.find_element(By.CSS_SELECTOR, css)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def type(self, css: str, text: str) -> None:
        """Type into the first element of a selector."""
        self.driver.find_element(By.CSS_SELECTOR, css).send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys, as at a keyboard."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def use_theme(self, name: str) -> None:
        """Let the system prefer `dark` or `light`."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, name: str) -> Path:
        """Write the whole page to a file."""
        path = self.folder / f"{name}.png"
        height = self.run("return Math.min(4000, Math.max(600, document.documentElement.scrollHeight))")
        size = self.driver.get_window_size()
        self.driver.set_window_size(size["width"], height + 160)
        self.run("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        patient = WebDriverWait(self.driver, 120, 0.5, ignored_exceptions=[TimeoutException])
        assert patient.until(lambda driver: driver.save_screenshot(str(path)), "jobs leave the browser no CPU")
        self.driver.set_window_size(size["width"], size["height"])
        return path

    def console(self) -> list[str]:
        """Return errors and warnings of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def audit(self) -> list[str]:
        """Return faults of the page as it is drawn: contrast, controls without names, dead links, doubled ids."""
        faults: list[str] = self.run(_AUDIT)
        return faults

    def walk(self, limit: int = 400) -> list[str]:
        """Press the tab key through the whole page; returns the focused elements, each seen to show its focus."""
        self.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        seen: list[str] = []
        self.press(Keys.TAB)
        for _ in range(limit):
            name, shown = self.run(
                "const e = document.activeElement; if (e === document.body) return ['', true];"
                "if (!e.dataset.walk) e.dataset.walk = String(Math.random());"
                "const style = getComputedStyle(e);"
                "return [`${e.dataset.walk} ${e.tagName} ${e.id || e.textContent.trim().slice(0, 40)}`,"
                " e.matches(':focus-visible') && (style.outlineStyle !== 'none' ||"
                " getComputedStyle(e.querySelector('.frame') ?? e).stroke !== 'none')]"
            )
            if not name or name in seen:
                break
            assert shown, f"no sign of the focus at {name}"
            seen.append(name)
            self.press(Keys.TAB)
        return [name.partition(" ")[2] for name in seen]


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Run a browser; it and its driver are gone in the end."""
    assert DRIVER is not None and CHROMIUM is not None, MISSING
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*_OPTIONS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    try:
        yield Browser(driver, folder)
    finally:
        driver.quit()


def inspect_page(
    browser: Browser, url: str, name: str, *, width: int = 1400, focusable: int = 5, walk: bool = True
) -> list[str]:
    """Open a page in both themes, and check what holds for each; returns the stops of the tab key.

    focusable: stops of the tab key that the page has at least, beside the frame's own; walk: whether they are counted.
    """
    host = urlsplit(url).netloc
    browser.driver.get("about:blank")  # the page before asks for nothing any more
    browser.console(), browser.requests()
    for theme in ("light", "dark"):
        browser.use_theme(theme)
        browser.open(url, width=width)
        browser.screenshot(f"{name}-{theme}")
        faults = browser.audit()
        assert faults == [], f"{name} in {theme}: {faults}"
    stops = []
    if walk:
        browser.click("#live")  # what is polled meanwhile would be drawn anew under the focus
        assert browser.text("#live") == "Paused"
        stops = browser.walk()
        assert len(stops) >= 10 + focusable, stops
    assert browser.console() == []
    asked = [one for one in browser.requests() if not one.startswith("data:")]
    assert asked, "the log of requests works"
    assert {urlsplit(one).netloc for one in asked} == {host}, "no request leaves the host"
    return stops
