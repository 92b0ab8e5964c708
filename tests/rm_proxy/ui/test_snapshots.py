"""JSON that is rendered once for all viewers."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from starlette.requests import Request

from quicksilver.common.web.snapshots import PageSnapshot, Snapshots, answer, rendered


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.built = 0
        self.takes_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    async def build(self) -> dict[str, Any]:
        self.built += 1
        await asyncio.sleep(0)
        self.now_s += self.takes_s
        if self.built == 3:
            raise OSError("the store is out")
        return {"built": self.built, "text": "x" * 2000}


def call(**headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": pairs})


async def test_viewers_together_get_one_rendering_until_it_is_old() -> None:
    clock = Clock()
    snapshot = PageSnapshot(clock.build, 2.0, clock_s=clock)

    async def look() -> list[int]:
        found = await asyncio.gather(*(snapshot.get() for _ in range(5)))
        return [json.loads(one.body)["built"] for one in found]

    assert await look() == [1] * 5
    clock.now_s = 1.9
    assert await look() == [1] * 5
    clock.now_s = 2.0
    assert await look() == [2] * 5 and clock.built == 2
    clock.now_s = 9.0
    with pytest.raises(OSError, match="the store is out"):
        await snapshot.get()
    assert json.loads((await snapshot.get()).body)["built"] == 4, "a failure is not kept"


@pytest.mark.parametrize(("takes_s", "kept_s"), [(1.0, 50.0), (3.0, 60.0)])
async def test_what_takes_long_is_made_less_often(takes_s: float, kept_s: float) -> None:
    clock = Clock()
    clock.takes_s = takes_s
    snapshot = PageSnapshot(clock.build, 2.0, share=0.02, clock_s=clock)

    await snapshot.get()
    clock.now_s = takes_s + kept_s - 1.0
    await snapshot.get()
    assert clock.built == 1
    clock.now_s = takes_s + kept_s
    await snapshot.get()
    assert clock.built == 2


def test_an_answer_is_packed_and_not_sent_twice() -> None:
    one = rendered({"text": "x" * 2000})
    whole = answer(call(accept_encoding="gzip, br"), one)
    assert gzip.decompress(whole.body) == one.body and len(whole.body) < 200
    assert answer(call(), one).body == one.body
    tag = whole.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = answer(call(if_none_match=known), one)
        assert (again.status_code, again.body) == (304, b"")
    assert answer(call(if_none_match='"other"'), one).status_code == 200
    assert rendered(b"{}").packed == b""


def test_keys_that_nobody_asks_for_are_forgotten() -> None:
    asked: list[str] = []
    known = Snapshots(asked.append, 1e9, limit=2)

    async def look(key: str) -> None:
        await known.of(key).get()

    for key in ("a", "b", "a", "c", "a", "b"):
        asyncio.run(look(key))
    assert asked == ["a", "b", "c", "b"]
