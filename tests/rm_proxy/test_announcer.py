import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from rm_proxy.announcer import TRIES, Announcer
from rm_proxy.metrics import ProxyMetrics
from shell.messages import Grant, Grants
from shell.rest import UnreachableError


def grants(*ids: str, drop: tuple[str, ...] = ()) -> Grants:
    made = [Grant(container_id=one, app_id="a", attempt_id="t", memory_mb=1, vcores=1, max_hold_s=1) for one in ids]
    return Grants(grants=made, drop=list(drop), drop_reason="gone" if drop else "")


class Sidecars:
    """Sidecars that take messages when they are let, and what the announcer said of it."""

    def __init__(self) -> None:
        self.metrics = ProxyMetrics()
        self.urls: dict[str, str] = {}
        self.told: list[tuple[str, list[str], list[str]]] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once = 0
        self.down: set[str] = set()
        self.tries = 0
        self.open: Counter[str] = Counter()
        self.failed: list[tuple[str, list[str]]] = []
        self.go_on = asyncio.Event()

    def announcer(self, **settings: Any) -> Announcer:
        def url_of(node_id: str) -> str | None:
            return self.urls.get(node_id, f"http://{node_id}")

        def failed(node_id: str, message: Grants) -> None:
            self.failed.append((node_id, list(message.drop)))

        return Announcer(self.metrics, url_of, failed, self._sender, **({"most": 4, "limit": 8} | settings))

    def _sender(self, url: str) -> Any:
        sidecars = self
        self.open[url] += 1

        class Way:
            base_url = url

            async def post(self, path: str, body: BaseModel) -> None:
                assert path == "/v1/grants" and isinstance(body, Grants)
                sidecars.tries += 1
                sidecars.at_once[url] += 1
                sidecars.most_at_once = max(sidecars.most_at_once, sidecars.at_once.total())
                assert sidecars.at_once[url] == 1, "in order for each node"
                try:
                    await sidecars.go_on.wait()
                finally:
                    sidecars.at_once[url] -= 1
                if url in sidecars.down:
                    raise UnreachableError("down")
                sidecars.told.append((url, [g.container_id for g in body.grants], list(body.drop)))

            def close(self) -> None:
                sidecars.open[url] -= 1

        return Way()

    def count(self, result: str) -> float:
        return self.metrics.announcements.labels(result)._value.get()


async def until(true: Callable[[], bool]) -> None:
    for _ in range(1000):
        await asyncio.sleep(0)
        if true():
            return
    raise AssertionError("it does not come")


def run(play: Callable[[Sidecars], Awaitable[None]]) -> None:
    async def main() -> None:
        await play(Sidecars())

    asyncio.run(main())


def test_what_waits_for_a_node_goes_together() -> None:
    async def play(sidecars: Sidecars) -> None:
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
        assert (sidecars.open, sidecars.count("ok")) == (Counter({"http://n1": 1, "http://n2": 1}), 3)
        await announcer.close()
        assert sidecars.open.total() == 0

    run(play)


def test_only_so_many_are_on_their_way_and_only_so_many_wait() -> None:
    async def play(sidecars: Sidecars) -> None:
        announcer = sidecars.announcer(most=2, limit=3)
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

    run(play)


def test_a_sidecar_that_does_not_answer_is_tried_again_then_told_of() -> None:
    async def play(sidecars: Sidecars) -> None:
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

    run(play)


def test_a_sidecar_that_moved_is_dialed_anew_and_one_that_is_gone_let_go() -> None:
    async def play(sidecars: Sidecars) -> None:
        announcer = sidecars.announcer()
        sidecars.go_on.set()
        for url in ("http://old", "http://new", "http://new/"):
            sidecars.urls["n1"] = url
            announcer.send("n1", grants(url))
            await until(lambda url=url: bool(sidecars.told) and sidecars.told[-1][1] == [url])
            await until(lambda: not sidecars.at_once.total())
        assert +sidecars.open == Counter({"http://new": 1})
        announcer.forget(lambda node_id: False)
        assert sidecars.open.total() == 1
        announcer.forget(lambda node_id: node_id == "n1")
        assert sidecars.open.total() == 0
        await announcer.close()

    run(play)


def test_closing_ends_what_is_on_its_way() -> None:
    async def play(sidecars: Sidecars) -> None:
        announcer = sidecars.announcer()
        announcer.send("n1", grants("a"))
        await until(lambda: sidecars.tries == 1)
        announcer.send("n1", grants("b"))
        await announcer.close()
        announcer.send("n1", grants("c"))
        sidecars.go_on.set()
        await asyncio.sleep(0)
        assert (sidecars.told, sidecars.at_once.total(), sidecars.open.total()) == ([], 0, 0)
        assert sidecars.count("dropped") == 1

    run(play)
