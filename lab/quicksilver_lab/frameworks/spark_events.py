"""What a Spark application did, by its event log: executors that came and went, tasks, tasks done twice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quicksilver_lab.workloads.errors import OutputError


@dataclass(slots=True)
class SparkHistory:
    """Executors and tasks of one application; moments in Unix seconds."""

    began_s: float = 0.0
    ended_s: float | None = None
    jobs_s: list[float] = field(default_factory=list)
    """When each of its jobs (the program's actions) began."""
    added: dict[str, float] = field(default_factory=dict)
    """Executors by id, with the moment at which they registered."""
    removed: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Executors by id, with moment and reason."""
    excluded: int = 0
    """How often an executor or a node was excluded after failures."""
    tasks: int = 0
    """Different tasks (data and partition) that ended well."""
    repeated: int = 0
    """Tasks that ended well although the same one had ended well before."""
    repeated_s: float = 0.0
    """Their run time, and that of tasks that did not end well."""
    lost: int = 0
    """Tasks that did not end well: killed or failed."""
    lost_reasons: dict[str, int] = field(default_factory=dict)
    task_s: float = 0.0
    """Run time of all tasks."""

    @property
    def at_once(self) -> int:
        """The most executors that were registered at the same time."""
        steps = [(at_s, 1) for at_s in self.added.values()] + [(at_s, -1) for at_s, _ in self.removed.values()]
        now = most = 0
        for _, change in sorted(steps):
            now += change
            most = max(most, now)
        return most

    @property
    def wall_s(self) -> float:
        """From the begin of the application to its end, which it must have reached."""
        assert self.ended_s is not None
        return self.ended_s - self.began_s


def read_history(folder: Path, application: str) -> SparkHistory:
    """Return what the event log of an application in `folder` says. Raises OutputError when there is none."""
    files = sorted(folder.glob(f"{application}*"))
    if not files:
        raise OutputError("no event log", place=str(folder / application), remedy="read the driver's log")
    return history_of(line for line in files[-1].read_text(errors="replace").splitlines() if line.endswith("}"))


def history_of(lines: Iterable[str]) -> SparkHistory:
    """Return what the lines of an event log say."""
    history, ended_well = SparkHistory(), set[tuple[int, int]]()
    data: dict[int, int] = {}
    for line in lines:
        event = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerApplicationStart":
            history.began_s = event["Timestamp"] / 1000
        elif kind == "SparkListenerApplicationEnd":
            history.ended_s = event["Timestamp"] / 1000
        elif kind == "SparkListenerJobStart":
            history.jobs_s.append(event["Submission Time"] / 1000)
        elif kind == "SparkListenerExecutorAdded":
            history.added[event["Executor ID"]] = event["Timestamp"] / 1000
        elif kind == "SparkListenerExecutorRemoved":
            history.removed[event["Executor ID"]] = event["Timestamp"] / 1000, event["Removed Reason"]
        elif kind in ("SparkListenerExecutorExcluded", "SparkListenerNodeExcluded"):
            history.excluded += 1
        elif kind == "SparkListenerStageSubmitted":
            stage = event["Stage Info"]
            data[stage["Stage ID"]] = max(rdd["RDD ID"] for rdd in stage["RDD Info"])
        elif kind == "SparkListenerTaskEnd":
            _add_task(history, event, data[event["Stage ID"]], ended_well)
    return history


def _add_task(history: SparkHistory, event: dict[str, Any], data: int, ended_well: set[tuple[int, int]]) -> None:
    """Count a task's end; data: the RDD that its stage makes, which a stage that is run again makes again."""
    info, reason = event["Task Info"], event["Task End Reason"]["Reason"]
    ran_s = (info["Finish Time"] - info["Launch Time"]) / 1000
    history.task_s += ran_s
    key = data, info["Partition ID"]
    if reason != "Success":
        history.lost += 1
        history.lost_reasons[reason] = history.lost_reasons.get(reason, 0) + 1
        history.repeated_s += ran_s
    elif key in ended_well:
        history.repeated += 1
        history.repeated_s += ran_s
    else:
        ended_well.add(key)
        history.tasks += 1
