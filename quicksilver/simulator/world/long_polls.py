"""Calls of masters that wait for news, under the virtual clock (rm_proxy/relay and rm_proxy/service/long_polls).

The proxy's own machines decide when a call may wait, when the ResourceManager is asked again, and when the wait ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quicksilver.simulator.clock import Clock
from quicksilver.simulator.world.setup import Run
from rm_proxy.attempt.attempt import Attempt
from rm_proxy.attempt.effects import Effect
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.long_poll.long_poll import FAST_PACE_S, PACE_S, Act, Why


@dataclass(slots=True)
class _Waiting:
    """A call that waits."""

    attempt: Attempt
    absorbed: bytes
    """The last answer, which has no news."""
    timer: int = 0
    """Of the last timer that was set; earlier ones are void."""


class LongPolls:
    """All waiting calls, by job.

    allocate: sends a request to the ResourceManager, and returns its answer. answer: gives a master its answer.
    """

    def __init__(
        self,
        clock: Clock,
        coordinator: Coordinator,
        run: Run,
        calls_per_s: float,
        allocate: Callable[[int, bytes], bytes],
        answer: Callable[[int, bytes], None],
        carry_out: Callable[[Iterable[Effect]], None],
    ) -> None:
        """Begin with no call."""
        self._clock, self._coordinator, self._run, self._calls_per_s = clock, coordinator, run, calls_per_s
        self._allocate, self._answer, self._carry_out = allocate, answer, carry_out
        self._waiting: dict[int, _Waiting] = {}
        self._numbers: dict[str, int] = {}
        """Jobs of waiting attempts."""

    def __contains__(self, number: int) -> bool:
        """Return whether a job's master waits for its answer."""
        return number in self._waiting

    @property
    def _pace_s(self) -> float:
        return min(PACE_S, max(FAST_PACE_S, len(self._waiting) / self._calls_per_s))

    def holds(self, number: int, attempt: Attempt, answer: bytes) -> bool:
        """Return whether an answer to a master's own request is held, because it has no news."""
        now_s, exchange = self._clock.now_s, attempt.exchange
        limit_s = 0.0 if exchange.has_news else attempt.wait_limit_s(now_s)
        if not limit_s:
            return False
        attempt.long_poll.begin(now_s, limit_s, attempt.wants_guaranteed)
        waiting = self._waiting[number] = _Waiting(attempt, answer)
        self._numbers[attempt.id] = number
        self._coordinator.wakeups.waiting[attempt.id] = attempt
        self._run.counts["waits"] += 1
        self._plan(number, waiting)
        return True

    def wake(self) -> None:
        """Do what is due for the calls for which there is something."""
        for attempt_id in self._coordinator.wakeups.take():
            number = self._numbers.get(attempt_id)
            if number is not None:
                self._act(number, self._waiting[number])

    def finish(self, number: int) -> None:
        """Answer a call because its application master is about to unregister."""
        waiting = self._waiting.get(number)
        if waiting is not None:
            self._end(number, waiting, Why.FINISH)

    def _plan(self, number: int, waiting: _Waiting) -> None:
        waiting.timer += 1
        due_s = waiting.attempt.long_poll.due_s(self._pace_s)
        self._clock.at(max(self._clock.now_s, due_s), self._due, number, waiting, waiting.timer)

    def _due(self, number: int, waiting: _Waiting, timer: int) -> None:
        if self._waiting.get(number) is waiting and waiting.timer == timer:
            self._act(number, waiting)

    def _act(self, number: int, waiting: _Waiting) -> None:
        act = waiting.attempt.long_poll.act(self._clock.now_s, self._pace_s)
        if act is Act.END:
            self._end(number, waiting, Why.BOUND)
            return
        if act is Act.POLL and self._poll(number, waiting):
            return
        self._plan(number, waiting)

    def _poll(self, number: int, waiting: _Waiting) -> bool:
        """Ask the ResourceManager for news; returns whether the wait ended."""
        attempt, now_s = waiting.attempt, self._clock.now_s
        exchange, poll = attempt.exchange, attempt.long_poll
        body = exchange.poll(now_s)
        poll.polled()
        self._run.counts["polls"] += 1
        got = self._allocate(number, body)
        rewritten = exchange.on_answer(got, now_s)
        waiting.absorbed = got if rewritten is None else rewritten
        self._carry_out(attempt.take_effects())
        why = Why.NEWS if exchange.has_news else poll.answered(now_s, attempt.wants_guaranteed)
        if why is None and not attempt.wait_limit_s(now_s):
            why = Why.MODE
        if why is None:
            return False
        self._end(number, waiting, why)
        if why is Why.NEWS:
            poll.signs.delivered(exchange.delivered, now_s)
        return True

    def _end(self, number: int, waiting: _Waiting, why: Why) -> None:
        """Give a master its answer: the last one that came."""
        attempt = waiting.attempt
        del self._waiting[number], self._numbers[attempt.id]
        self._coordinator.wakeups.waiting.pop(attempt.id, None)
        attempt.long_poll.end(why, self._clock.now_s)
        self._run.counts[f"waits ended: {why}"] += 1
        self._answer(number, waiting.absorbed)
