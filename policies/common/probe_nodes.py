"""Shared by the `probe` policies: settings, and where the probes of long jobs go."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from policies.base import PolicyConfig
from policies.common.least_wait import spread
from policies.model import JobClass
from policies.probes import NewTasks, ProbedNode


class Probing(PolicyConfig):
    """Settings of policies that sample nodes for short jobs."""

    ratio: float = Field(2.0, ge=1, json_schema_extra={"unit": "probes", "source": "Sparrow §3.3; Hawk, thesis §2.3.5"})
    """Probes for each task of a job that is not long, each at another node while there are any."""
    min_probes: int = Field(0, ge=0, json_schema_extra={"unit": "probes", "source": "Hawk has none"})
    """Probes of a job at least, however few tasks it has."""
    long_by_wait: bool = Field(True, json_schema_extra={"source": "Hawk, thesis §2.3.7; Eagle §3.3.3"})
    """A long job has one probe for each task, where it waits least; off: long jobs are sampled like others."""
    sticky: bool = Field(False, json_schema_extra={"source": "Hawk: a probe is for one task"})
    """A probe stays in its queue until all tasks of its application that wait have got places, and is served again."""
    behind_long: bool = Field(True, json_schema_extra={"source": "own"})
    """Whether a container of a job that is not long may be bound to a node whose cores long tasks hold, ahead of the
    end of one."""


def by_wait(tasks: NewTasks, nodes: Sequence[ProbedNode]) -> list[str]:
    """Return a node for each task: the one whose slot is free first, which then is taken for as long as a task runs."""
    waits = sorted((wait_s, at) for at, node in enumerate(nodes) for wait_s in node.slots_s)
    return [nodes[at].node.id for at in spread(tasks.tasks, tasks.expected_s, waits)]


def waits_least(tasks: NewTasks, cfg: Probing) -> bool:
    """Return whether the probes of a job go where it waits least."""
    return cfg.long_by_wait and tasks.app.job_class is JobClass.LONG
