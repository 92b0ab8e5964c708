import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from quicksilver.common.http.rest_errors import RefusedError, UnreachableError
from quicksilver.common.messages import Grant, Grants
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.grant_announcer import TRIES, Answer, GrantAnnouncer


def grants(*ids: str, drop: tuple[str, ...] = ()) -> Grants:
    grants = [Grant(container_id=one, app_id="a", attempt_id="t", memory_mb=1, vcores=1, max_hold_s=1) for one in ids]
    return Grants(grants=grants, drop=list(drop), drop_reason="gone" if drop else "")


class Sidecars:
    """Sidecars that take messages when they are let, and what the announcer said of it."""

    def __init__(self) -> None:
        self.metrics = ProxyMetrics()
        self.urls: dict[str, str] = {}
        self.told: list[tuple[str, list[str], list[str]]] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once = 0
        self.down: set[str] = set()
        self.refusing: dict[str, int] = {}
        self.tries = 0
        self.open = True
        self.connections: set[str] = set()
        self.by_connection: list[tuple[str, list[str]]] = []
        self.silent: set[str] = set()
        self.answers: list[Answer] = []
        self.failed: list[tuple[str, list[str]]] = []
        self.go_on = asyncio.Event()

    def announcer(self, **settings: Any) -> GrantAnnouncer:
        def url_of(node_id: str) -> str | None:
            return self.urls.get(node_id, f"http://{node_id}")

        def failed(node_id: str, message: Grants) -> None:
            self.failed.append((node_id, list(message.drop)))

        return GrantAnnouncer(
            self.metrics, url_of, self.connected, failed, self, **({"parallel": 4, "limit": 8} | settings)
        )

    def connected(self, node_id: str, message: Grants, answered: Answer) -> bool:
        if node_id in self.silent:
            self.answers.append(answered)
        elif node_id in self.connections:
            asyncio.get_running_loop().call_soon(answered, None)
        if node_id in self.connections:
            self.by_connection.append((node_id, [grant.container_id for grant in message.grants]))
        return node_id in self.connections

    async def post(self, url: str, body: BaseModel) -> None:
        assert self.open and url.endswith("/v1/grants") and isinstance(body, Grants)
        url = url.removesuffix("/v1/grants")
        self.tries += 1
        self.at_once[url] += 1
        self.most_at_once = max(self.most_at_once, self.at_once.total())
        assert self.at_once[url] == 1, "in order for each node"
        try:
            await self.go_on.wait()
        finally:
            self.at_once[url] -= 1
        if url in self.down:
            raise UnreachableError("down")
        if url in self.refusing:
            raise RefusedError("no", place=url, status=self.refusing[url], code="no")
        self.told.append((url, [g.container_id for g in body.grants], list(body.drop)))

    async def close(self) -> None:
        self.open = False

    def count(self, result: str) -> float:
        return self.metrics.announcements.labels(result)._value.get()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        await asyncio.sleep(0)
        if true():
            return
    raise AssertionError("it does not come")


async def test_what_waits_for_a_node_goes_together() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    announcer.send("n1", grants("a"))
    await until(lambda: sidecars.tries == 1)
    announcer.send("n1", grants("b"))
    announcer.send("n2", grants("c"))
    announcer.send("n1", grants(drop=("a",)))
    sidecars.go_on.set()
    await until(lambda: len(sidecars.told) == 3)
    assert sorted(sidecars.told) == [
        ("http://n1", ["a"], []),
        ("http://n1", ["b"], ["a"]),
        ("http://n2", ["c"], []),
    ]
    await until(lambda: sidecars.count("ok") == 3)
    await announcer.close()
    assert not sidecars.open


async def test_confirmations_go_together_and_fail_like_drops() -> None:
    sidecars = Sidecars()
    seen: list[Grants] = []
    announcer = sidecars.announcer(limit=1)
    announcer._failed = lambda node_id, message: seen.append(message)
    for node_id, container_id in (("n1", "a"), ("n1", "b"), ("n1", "d"), ("n2", "c")):
        announcer.send(node_id, Grants(known=[container_id]))
    assert [message.known for message in seen] == [["c"]], "no place is left: as if it could not be sent"
    sidecars.down.add("http://n1")
    sidecars.go_on.set()
    await until(lambda: len(seen) == 3)
    assert [message.known for message in seen[1:]] == [["a"], ["b", "d"]]
    await announcer.close()


async def test_only_so_many_are_on_their_way_and_only_so_many_wait() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer(parallel=2, limit=3)
    for number in range(7):
        announcer.send(f"n{number}", grants(str(number)))
    assert sidecars.count("dropped") == 2
    await until(lambda: sidecars.tries == 2)
    sidecars.go_on.set()
    await until(lambda: len(sidecars.told) == 5)
    assert sidecars.most_at_once == 2
    announcer.send("n6", grants("again"))
    await until(lambda: len(sidecars.told) == 6)
    await announcer.close()


async def test_a_sidecar_that_does_not_answer_is_tried_again_then_told_of() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.down.add("http://n1")
    sidecars.urls["n2"] = ""
    sidecars.go_on.set()
    announcer.send("n1", grants("a", drop=("x",)))
    announcer.send("n2", grants("b", drop=("y",)))
    await until(lambda: len(sidecars.failed) == 2)
    assert sorted(sidecars.failed) == [("n1", ["x"]), ("n2", ["y"])]
    assert (sidecars.tries, sidecars.count("failed"), sidecars.told) == (TRIES, 2, [])
    sidecars.down.clear()
    announcer.send("n1", grants("c"))
    await until(lambda: bool(sidecars.told))
    await announcer.close()


async def test_a_sidecar_that_moved_is_told_where_it_is_now() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.go_on.set()
    for number, url in enumerate(("http://old", "http://new", "http://new/")):
        sidecars.urls["n1"] = url
        announcer.send("n1", grants(str(number)))
        await until(lambda number=number: len(sidecars.told) == number + 1)
    assert sidecars.told == [("http://old", ["0"], []), ("http://new", ["1"], []), ("http://new", ["2"], [])]
    await announcer.close()


async def test_closing_ends_what_is_on_its_way() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    announcer.send("n1", grants("a"))
    await until(lambda: sidecars.tries == 1)
    announcer.send("n1", grants("b"))
    await announcer.close()
    announcer.send("n1", grants("c"))
    sidecars.go_on.set()
    await asyncio.sleep(0)
    assert (sidecars.told, sidecars.at_once.total(), sidecars.open) == ([], 0, False)
    assert sidecars.count("dropped") == 1


async def test_only_errors_that_may_pass_are_tried_again() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.go_on.set()
    for status, tries in ((503, TRIES), (403, 1), (422, 1)):
        sidecars.refusing, sidecars.tries, failed = {"http://n1": status}, 0, sidecars.count("failed")
        announcer.send("n1", grants("c1"))
        await until(lambda failed=failed: sidecars.count("failed") == failed + 1)
        assert sidecars.tries == tries
    await announcer.close()


async def test_a_node_with_a_connection_gets_no_post() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.go_on.set()
    sidecars.connections.add("n1")
    for node_id in ("n1", "n2"):
        announcer.send(node_id, grants("c1"))
    await until(lambda: sidecars.count("ok") == 2)
    assert sidecars.by_connection == [("n1", ["c1"])]
    assert sidecars.told == [("http://n2", ["c1"], [])]
    await announcer.close()


async def test_what_waits_for_a_connection_goes_together() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.connections, sidecars.silent = {"n1"}, {"n1"}
    for name in "abc":
        announcer.send("n1", grants(name))
    assert sidecars.by_connection == [("n1", ["a"])]
    sidecars.answers.pop()(None)
    assert sidecars.by_connection == [("n1", ["a"]), ("n1", ["b", "c"])] and sidecars.count("ok") == 1
    sidecars.answers.pop()(None)
    assert sidecars.count("ok") == 2 and not sidecars.answers
    await announcer.close()


async def test_a_connection_that_is_lost_is_followed_by_posts() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.go_on.set()
    sidecars.connections, sidecars.silent = {"n1"}, {"n1"}
    announcer.send("n1", grants("a"))
    announcer.send("n1", grants("b"))
    sidecars.connections, sidecars.silent = set(), set()
    sidecars.answers.pop()(UnreachableError("closed"))
    await until(lambda: sidecars.count("ok") == 2)
    assert sidecars.told == [("http://n1", ["a"], []), ("http://n1", ["b"], [])]
    await announcer.close()


async def test_grants_that_no_connection_delivers_count_as_failed() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.connections, sidecars.silent = {"n1"}, {"n1"}
    announcer.send("n1", grants("a", drop=("x",)))
    for _ in range(TRIES):
        await until(lambda: bool(sidecars.answers))
        sidecars.answers.pop()(UnreachableError("no answer"))
    await until(lambda: sidecars.failed == [("n1", ["x"])])
    assert (sidecars.count("failed"), len(sidecars.by_connection)) == (1, TRIES)
    await announcer.close()
    sidecars.answers.clear()


async def test_an_answer_after_the_end_is_of_no_account() -> None:
    sidecars = Sidecars()
    announcer = sidecars.announcer()
    sidecars.connections, sidecars.silent = {"n1"}, {"n1"}
    announcer.send("n1", grants("a"))
    announcer.send("n1", grants("b"))
    await announcer.close()
    sidecars.answers.pop()(UnreachableError("closed"))
    assert (sidecars.by_connection, sidecars.tries) == ([("n1", ["a"])], 0)
