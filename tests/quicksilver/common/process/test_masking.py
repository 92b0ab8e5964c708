"""Known secrets, passwords in URLs and bearer tokens are masked in text."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.http.rest_server import install_error_handlers
from quicksilver.common.process import masking
from quicksilver.common.process.logs import configure_logs, get_logger
from quicksilver.common.process.masking import MASK, hide, masked
from quicksilver.common.settings.settings_file import SettingsFileError


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_known", {})


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    configure_logs(stream=stream)
    yield stream
    logging.getLogger().handlers[:], _ = before
    logging.getLogger().setLevel(before[1])


@pytest.mark.parametrize("secret", ["plainsecret", "with space & more", 'quo"te', "ümlaut%", "back\\slash"])
def test_a_secret_is_masked_in_every_form(secret: str) -> None:
    hide(secret)
    for form in (secret, quote(secret, safe=""), json.dumps(secret), repr(secret), f"postgresql://u:{quote(secret)}@h"):
        assert secret not in masked(f"before {form} after") and MASK in masked(f"before {form} after")
    assert masked("nothing of it") == "nothing of it"


def test_short_ones_are_left_and_old_ones_forgotten() -> None:
    hide("abc")
    assert masked("abc") == "abc"
    for number in range(3000):
        hide(f"secret-{number:05}")
    assert masked("secret-02999") == MASK and len(masking._known) <= 1000


def test_what_looks_like_a_secret_is_masked() -> None:
    assert masked("postgresql+psycopg://u:p%40ss@h:5432/db") == f"postgresql+psycopg://u:{MASK}@h:5432/db"
    assert masked(f"Authorization: Bearer {'x' * 43}, and more") == f"Authorization: Bearer {MASK}, and more"
    for fine in ("http://host:8088/path", "https://[::1]:8390/", "ann@10.0.0.1", "yarn/rm@REALM", "the bearer of it"):
        assert masked(fine) == fine


def test_logs_mask_values_and_tracebacks(lines: io.StringIO) -> None:
    hide("topsecret")
    log = get_logger("x")
    log.info("a topsecret event", key="topsecret", other={"inner": "topsecret"})
    try:
        raise ValueError("topsecret")
    except ValueError:
        log.exception("it failed")
    logging.getLogger("library").error("of a library: %s", "topsecret")
    text = lines.getvalue()
    assert "topsecret" not in text and text.count(MASK) >= 5


def test_answers_and_errors_mask() -> None:
    hide("topsecret")
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/fault")
    async def fault() -> None:
        raise ApiError(400, "x", "it was topsecret")

    assert TestClient(app).get("/fault").json()["error"]["message"] == f"it was {MASK}"
    assert str(SettingsFileError(["a: topsecret"])) == f"a: {MASK}"
