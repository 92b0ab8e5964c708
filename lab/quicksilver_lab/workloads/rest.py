"""HTTP to the daemons of a local cluster: never through an HTTP proxy, always with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import requests
from requests.auth import AuthBase

from quicksilver_lab.workloads.errors import OutputError

T = TypeVar("T")
TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.5


def session() -> requests.Session:
    """Return a session for loopback; close it after use."""
    client = requests.Session()
    client.trust_env = False
    return client


def get_json(url: str, auth: AuthBase | None = None) -> dict[str, Any]:
    """Return the JSON object at `url`; `auth` as Cluster.web_auth gives it. Raises requests.RequestException."""
    with session() as http:
        answer = http.get(url, headers={"Accept": "application/json"}, timeout=TIMEOUT_S, auth=auth)
        answer.raise_for_status()
        data: dict[str, Any] = answer.json()
        return data


def get_text(url: str, auth: AuthBase | None = None) -> str:
    """Return the text at `url`. Raises requests.RequestException."""
    with session() as http:
        answer = http.get(url, timeout=TIMEOUT_S, auth=auth)
        answer.raise_for_status()
        return answer.text


def eventually(subject: str, ask: Callable[[], T | None], timeout_s: float = 60.0) -> T:
    """Ask every half second until the answer is not None; an HTTP error counts as None.

    Raises OutputError naming `subject` when that takes longer than `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    problem = ""
    while True:
        try:
            answer = ask()
        except requests.RequestException as error:
            answer, problem = None, f"; the last answer: {error}"
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise OutputError(f"not there after {timeout_s:g} s{problem}", place=subject)
        time.sleep(_POLL_S)
