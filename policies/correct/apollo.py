"""Move a waiting container when the decision to place it looks wrong by now (Apollo, OSDI '14, §3.4).

Apollo sends a duplicate to the better server and drops the one that starts later. Here there is one container of each
task: the one that waits is shed, and its task asked for again at the better node.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from policies.base import Policy
from policies.common.move_limits import Moving
from policies.model import ContainerView, NodeQueue, NodeView


class Apollo(Moving):
    """Settings of apollo."""

    max_per_node: int = Field(2, ge=1, json_schema_extra={"unit": "containers", "source": "own, against herds"})
    """Containers on their way from one node, or to one node, at a time."""
    grown_ratio: float = Field(
        2.0, ge=1, json_schema_extra={"source": "Apollo §3.4 (i): significantly higher; figure own"}
    )
    """Looked at again when its wait, past and expected, is this many times the one that was expected when placed ..."""
    grown_s: float = Field(5.0, ge=0, json_schema_extra={"source": "own"})
    """... and longer than that by this."""
    average_ratio: float = Field(1.0, ge=1, json_schema_extra={"source": "Apollo §3.4 (ii), (iii): above the average"})
    """Looked at again when its wait, past and expected, is above this many times the average of its stage ..."""
    elapsed_ratio: float = Field(1.0, ge=0, json_schema_extra={"source": "Apollo §3.4 (iii)"})
    """... or when what it has waited alone is above this many times that average."""
    slow_ratio: float = Field(2.0, ge=1, json_schema_extra={"source": "own; after Apollo's straggler detection, §3.4"})
    """A running task that took this many times its expected duration is overdue."""
    slow_share_ratio: float = Field(0.5, gt=0, le=1, json_schema_extra={"source": "own"})
    """A node of whose running tasks this share is overdue is slow; containers that wait there are looked at again."""
    gain_s: float = Field(5.0, ge=0, json_schema_extra={"source": "own: what it takes to move one"})
    """It moves only when it would wait less by this at the better node ..."""
    gain_ratio: float = Field(0.5, ge=0, le=1, json_schema_extra={"source": "own"})
    """... and by this share of its remaining wait where it is."""


def slowness(here: NodeQueue, cfg: Apollo, now_s: float) -> float:
    """Return how many times longer than expected the tasks of a slow node run on the average; 1 when it is not slow."""
    return slower(
        [
            (now_s - task.started_s) / task.expected_s
            for task in here.running
            if task.started_s is not None and task.expected_s > 0
        ],
        cfg,
    )


def slower(ran_ratios: Sequence[float], cfg: Apollo) -> float:
    """Return the same for the ratios of run time to estimate of a node's running tasks."""
    overdue = [ratio for ratio in ran_ratios if ratio > cfg.slow_ratio]
    if not overdue or len(overdue) < cfg.slow_share_ratio * len(ran_ratios):
        return 1.0
    return sum(overdue) / len(overdue)


def worth(left_s: float, best_s: float, cfg: Apollo) -> bool:
    """Return whether waiting `best_s` elsewhere gains enough on `left_s` here; whoever waits longer gains too."""
    gain_s = left_s - best_s
    return gain_s > 0 and gain_s >= max(cfg.gain_s, cfg.gain_ratio * left_s)


def trigger(waiting: ContainerView, left_s: float, slow: float, cfg: Apollo, now_s: float) -> str | None:
    """Return why the decision is looked at again; None when it is not."""
    elapsed_s = max(0.0, now_s - waiting.arrived_s)
    wait_s, placed_s, stage_s = elapsed_s + left_s, waiting.placed_wait_s, waiting.stage_wait_s
    if placed_s is not None and wait_s > max(cfg.grown_ratio * placed_s, placed_s + cfg.grown_s):
        return f"its wait grew from {placed_s:.1f} s, as expected when placed, to {wait_s:.1f} s"
    if stage_s is not None and wait_s > cfg.average_ratio * stage_s:
        return f"its wait of {wait_s:.1f} s is above its stage's average of {stage_s:.1f} s"
    if stage_s is not None and elapsed_s > cfg.elapsed_ratio * stage_s:
        return f"it has waited {elapsed_s:.1f} s, above its stage's average of {stage_s:.1f} s"
    if slow > 1:
        return f"its node is slow: what runs there is {slow:.1f} times over its expected duration"
    return None


def correct(waiting: ContainerView, here: NodeQueue, best: NodeView, cfg: Apollo, now_s: float) -> str | None:
    """Return why a waiting container should move to `best`, or None to leave it."""
    if waiting.starts_in_s is None:
        return None
    slow = slowness(here, cfg, now_s)
    left_s = waiting.starts_in_s * slow
    why = trigger(waiting, left_s, slow, cfg, now_s)
    if why is None or not worth(left_s, best.wait_s, cfg):
        return None
    return f"{why}; it would wait {left_s:.1f} s more here, {best.wait_s:.1f} s at {best.id}"


POLICY = Policy("apollo", Apollo, correct)
