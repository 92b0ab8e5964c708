"""Chromium without a window, by WebDriver's own REST (https://www.w3.org/TR/webdriver2/)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

MISSING = (
    ""
    if shutil.which("chromedriver") and shutil.which("chromium")
    else "no chromium or no chromedriver here; on Debian: apt-get install chromium-driver"
)

_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000")


class Browser:
    """One session. Raises requests.HTTPError with the driver's words when a command fails."""

    def __init__(self, url: str, profile: Path, dark: bool) -> None:
        """Begin a session at the driver under `url`."""
        arguments = [*_OPTIONS, f"--user-data-dir={profile}"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        wanted = {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._url = url
        began = self._call("POST", "/session", capabilities={"alwaysMatch": wanted})
        self._session = f"/session/{began['sessionId']}"

    def _call(self, method: str, path: str, **body: Any) -> Any:
        answer = requests.request(method, self._url + path, json=body if method == "POST" else None, timeout=60)
        if not answer.ok:
            raise requests.HTTPError(answer.text)
        return answer.json()["value"]

    def open(self, page: Path) -> None:
        """Open a file, and wait until it is loaded."""
        self._call("POST", f"{self._session}/url", url=page.as_uri())

    def resize(self, width: int, height: int = 844) -> None:
        """Have the page on a screen of this size, which may be narrower than a window can be."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("POST", f"{self._session}/goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=size)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns."""
        return self._call("POST", f"{self._session}/execute/sync", script=script, args=list(arguments))

    def click(self, css: str) -> None:
        """Click the first element of a selector, as a mouse does."""
        found = self._call("POST", f"{self._session}/element", using="css selector", value=css)
        self._call("POST", f"{self._session}/element/{next(iter(found.values()))}/click")

    def console(self) -> list[str]:
        """Return what the console has had since the last call."""
        return [entry["message"] for entry in self._call("POST", f"{self._session}/se/log", type="browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", type="performance")
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        """End the session, and the browser with it."""
        self._call("DELETE", self._session)


@contextmanager
def browser(folder: Path, dark: bool = False) -> Iterator[Browser]:
    """Run a driver and a browser with its profile in `folder`; both are gone in the end."""
    with subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as driver:
        try:
            assert driver.stdout is not None
            for line in driver.stdout:  # "ChromeDriver was started successfully on port 34567."
                if b"successfully on port" in line:
                    break
            else:
                raise RuntimeError("chromedriver ended before it listened")
            port = int(line.rstrip().rstrip(b".").rsplit(b" ", 1)[1])
            session = Browser(f"http://127.0.0.1:{port}", folder / "profile", dark)
            try:
                yield session
            finally:
                session.close()
        finally:
            driver.terminate()
