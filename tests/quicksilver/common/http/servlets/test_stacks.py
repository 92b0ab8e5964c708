"""Stacks of tasks: equal ones together, each from its own coroutine to the one that waits."""

from __future__ import annotations

import asyncio

from quicksilver.common.http.servlets.stacks import stacks_text


async def inner(event: asyncio.Event) -> None:
    await event.wait()


async def outer(event: asyncio.Event) -> None:
    await inner(event)


def test_tasks_with_equal_stacks_are_counted() -> None:
    async def story() -> str:
        event = asyncio.Event()
        tasks = [asyncio.create_task(outer(event), name=f"waiter-{n}") for n in range(1000)]
        await asyncio.sleep(0)
        text = stacks_text()
        event.set()
        await asyncio.gather(*tasks)
        return text

    text = asyncio.run(story())
    (head,) = [line for line in text.splitlines() if "waiter-" in line]
    assert head == "1000 x waiter-0, waiter-1, waiter-10, waiter-100, waiter-101 and 995 more:"
    below = text[text.index(head) :].splitlines()[1:4]
    assert [line.rsplit(" in ", 1)[1] for line in below] == ["outer", "inner", "wait"]
    assert len(text) < 20_000
