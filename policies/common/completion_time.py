"""When a task would be over on a server, all that matters counted in seconds (Apollo, OSDI '14, §3.3).

E = I + W + R: fetching its files, waiting, and running, which is reading its inputs and computing. Servers that may
fail count as slower: C = P E + K (1 - P) E.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from policies.base import PolicyConfig


@dataclass(frozen=True, slots=True)
class Input:
    """A part of a task's input, and its place; `rack` is the rack of `host`."""

    size_mb: float
    host: str
    rack: str


class CompletionTime(PolicyConfig):
    """Settings of the estimate."""

    local_mb_s: float = Field(160.0, gt=0, json_schema_extra={"unit": "MB/s", "source": "Apollo §3.3, Figure 4"})
    """How fast a task reads from its own server."""
    rack_mb_s: float = Field(100.0, gt=0, json_schema_extra={"unit": "MB/s", "source": "Apollo §3.3, Figure 4"})
    """How fast it reads from its own rack."""
    remote_mb_s: float = Field(80.0, gt=0, json_schema_extra={"unit": "MB/s", "source": "Apollo §3.3, Figure 4"})
    """How fast it reads from another rack."""
    fail_ratio: float = Field(2.0, ge=1, json_schema_extra={"source": "own; Apollo §3.3, K, found by trial"})
    """How many times longer a task takes by the time it is over when its server fails under it."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a task's choice."""

    host: str
    rack: str
    wait_s: float = 0.0
    """W: by the wait-time matrix, for the size of the task."""
    init_s: float = 0.0
    """I: 0 where its files are already."""
    success_ratio: float = 1.0
    """P: how likely the server stays up that long."""


def reading_s(inputs: Iterable[Input], server: Server, cfg: CompletionTime) -> float:
    """Return how long a task reads its inputs on a server, one after the other."""
    return sum(part.size_mb / _speed_mb_s(part, server, cfg) for part in inputs)


def _speed_mb_s(part: Input, server: Server, cfg: CompletionTime) -> float:
    if part.host == server.host:
        return cfg.local_mb_s
    return cfg.rack_mb_s if part.rack == server.rack else cfg.remote_mb_s


def estimate_s(inputs: Iterable[Input], cpu_s: float, server: Server, cfg: CompletionTime) -> float:
    """Return C: seconds from now until a task is over that reads `inputs` and computes for `cpu_s`."""
    done_s = server.init_s + server.wait_s + reading_s(inputs, server, cfg) + cpu_s
    return with_failures_s(done_s, server.success_ratio, cfg.fail_ratio)


def with_failures_s(done_s: float, success_ratio: float, fail_ratio: float) -> float:
    """Return C = P E + K (1 - P) E: how long a task takes where it may fail, as its time counts."""
    return success_ratio * done_s + fail_ratio * (1 - success_ratio) * done_s
