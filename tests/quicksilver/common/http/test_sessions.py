"""Sessions of commands: no redirect is followed, no body is read without bound."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import requests

from apps.tests.client.sites import Answer, server
from quicksilver.common.http.rest_client import RestClient, rest_session
from quicksilver.common.http.rest_errors import RefusedError


def test_a_redirect_is_followed_only_where_it_may_be() -> None:
    asked: list[str] = []

    def inner(method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        asked.append(path)
        return 200, {}, b"[]"

    with server(inner) as there, server(lambda *_: (302, {"Location": f"{there}/x"}, b"{}")) as here:
        client = RestClient(here)
        with pytest.raises(RefusedError) as refused:
            client.get("/a")
        client.close()
        assert refused.value.status == 302
        with rest_session() as session:
            for method in ("GET", "PUT", "POST", "DELETE"):
                assert session.request(method, here, timeout=20).status_code == 302
            assert session.get(here, timeout=20, allow_redirects=True).status_code == 302
        assert asked == []
        with rest_session(redirects=True) as session:
            assert session.get(here, timeout=20).json() == []
        assert asked == ["/x"]


def test_an_answer_of_brackets_is_refused() -> None:
    with server(lambda *_: (200, {}, b"[" * 100_000)) as url:
        client = RestClient(url)
        with pytest.raises(RefusedError, match="instead of JSON"):
            client.get("/a")
        client.close()


def test_a_body_is_bounded() -> None:
    sizes = [100_000, 100_001]
    bounds = rest_session(answer_bytes=100_000)
    with server(lambda *_: (200, {}, b"x" * sizes.pop(0))) as url, bounds as session:
        assert len(session.get(url, timeout=20).content) == 100_000
        with pytest.raises(requests.ConnectionError, match="more than 100000 bytes"):
            session.get(url, timeout=20)
    late = pytest.raises(requests.ReadTimeout, match="is not there after")
    with server(lambda *_: (200, {}, b"x")) as url, rest_session(read_s=-1.0) as session, late:
        session.get(url, timeout=20)


@pytest.mark.parametrize("redirects", [False, True])
def test_the_body_of_a_redirect_is_bounded_too(redirects: bool) -> None:
    answer = (302, {"Location": "/x"}, b"x" * 100_001)
    bounds, long = rest_session(redirects=redirects, answer_bytes=100_000), pytest.raises(requests.ConnectionError)
    with server(lambda *_: answer) as url, bounds as session, long as error:
        session.get(url, timeout=20)
    assert "more than 100000 bytes" in str(error.value)
