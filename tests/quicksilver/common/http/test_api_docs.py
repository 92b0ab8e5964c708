import gzip
import hashlib
import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from quicksilver.common.http.api_docs import FILES, HERE, add_api_docs
from quicksilver.common.http.rest_server import install_error_handlers


@pytest.fixture
def client() -> TestClient:
    app = FastAPI(title="a <daemon>", docs_url=None, redoc_url=None)
    install_error_handlers(app)
    add_api_docs(app)
    return TestClient(app)


def test_the_page_names_files_of_this_package_alone(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200 and "a &lt;daemon&gt;" in page.text
    named = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sorted(named) == sorted([*(f"docs/{name}" for name in FILES), "openapi.json"])
    for name in named:
        assert client.get(f"/{name}").status_code == 200
    assert "'unsafe-inline'" not in page.headers["Content-Security-Policy"].partition("style-src")[0]
    assert "<script>" not in page.text and " on" not in re.sub(r">[^<]*<", "><", page.text)


def test_files_are_sent_packed_to_those_who_take_it(client: TestClient) -> None:
    plain = client.get("/docs/swagger-ui.css", headers={"Accept-Encoding": "identity"})
    assert (
        plain.content == (HERE / "swagger_ui" / "swagger-ui.css").read_bytes()
        and "Content-Encoding" not in plain.headers
    )
    with client.stream("GET", "/docs/swagger-ui.css", headers={"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert gzip.decompress(raw) == plain.content and len(raw) < len(plain.content) / 4


def test_nothing_else_is_served(client: TestClient) -> None:
    for name in ("SHA256SUMS", "LICENSE", "..%2Fapi_docs.py", "nothing.js"):
        answer = client.get(f"/docs/{name}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not-found")


def test_the_description_has_relative_addresses_and_tokens(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert described["servers"] == [{"url": "."}] and described["security"] == [{"token": []}, {}]
    assert described["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}


def test_the_files_are_those_that_were_fetched() -> None:
    folder = HERE / "swagger_ui"
    sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt", "VERSION"} < sums.keys()
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
