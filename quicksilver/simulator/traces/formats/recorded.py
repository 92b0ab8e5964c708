"""Jobs out of a proxy's store: what applications asked for, what was decided, and what became of it.

A job is an application; its tasks are the containers that were delivered to it and ended. One that was shed or killed,
and for which another one was asked (`grants.follows`), is a try of the other's task. The job arrives when its first
container was asked for, so that the start of its master is left out of both, record and replay.

Stages: MapReduce's reduces wait for its maps, and what they run counts from the last map's end on. In other
applications requests of another priority are a later stage when none of them began before the earlier ones had ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import URL, Connection, Row, create_engine, func, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from quicksilver.common.messages import EventKind
from quicksilver.simulator.model import JobOutcome, SimulatedJob
from quicksilver.simulator.traces.lines import Mistakes, TraceError, leave_out, met
from quicksilver.simulator.traces.spec import NO_TASKS, after_maps
from rm_proxy.store.tables import AppRow, Completion, DecisionRow, Event, GrantRow

_SCHEMES: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_MAPREDUCE: Final = "MAPREDUCE"
_MAPS: Final = 20
_REDUCES: Final = 10
"""Request priorities; maps that failed have another one."""
_REMEDY: Final = "give a proxy's store; `quicksilver store status` tells of its tables"


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """One task as it was done. Times count from the first job's arrival."""

    container_id: str
    kind: str
    """G or Q: what it was granted as."""
    node_id: str
    reason: str
    """Why it was guaranteed or queueable."""
    asked_s: float
    """When the container that did it was asked for."""
    begun_s: float
    ended_s: float
    expected_s: float
    """How long the proxy expected it to run."""
    tries: int
    """Containers that were delivered for it."""
    lost_s: float
    """Run time of tries that were killed."""
    priority: int = 0
    """Of the request."""

    @property
    def runs_s(self) -> float:
        """From its begin to its end."""
        return self.ended_s - self.begun_s


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A job with what was decided of it; `job.durations_s` are those of `tasks`, one by one."""

    job: SimulatedJob
    app_id: str
    tasks: tuple[RecordedTask, ...]
    unfinished: int
    """Tasks whose end is not in the store; they are left out."""
    choices: Mapping[str, int]
    """Decisions beside those of its containers: how often, by `slot: chosen`."""

    @property
    def outcome(self) -> JobOutcome:
        """What became of it."""
        job = self.job
        wait_s = sum(task.begun_s - job.arrives_s for task in self.tasks) / len(self.tasks)
        ended_s = max(task.ended_s for task in self.tasks)
        return JobOutcome(job.number, job.arrives_s, ended_s, len(self.tasks), job.work_s, wait_s=wait_s)


def read_recorded(store: str | Path, mistakes: Mistakes | None = None) -> Iterator[RecordedJob]:
    """Yield the jobs of a store by arrival: a SQLite file or the URL of a PostgreSQL. Nothing in it is changed.

    Applications of which no task ended are left out. Raises TraceError.
    """
    name = _name(store)
    with _connected(store, name) as connection:
        first_s: float | None = None
        number = 0
        for app in connection.execute(_applications()).all():
            first_s = app.asked_s if first_s is None else first_s
            try:
                record = _job(connection, app, first_s, name)
            except TraceError as error:
                met(mistakes, error)
                continue
            if record is None:
                leave_out(mistakes, NO_TASKS)
            else:
                leave_out(mistakes, "tasks without an end", record.unfinished)
                number += 1
                yield replace(record, job=replace(record.job, number=number))


def _name(store: str | Path) -> str:
    """Return how a store is called in errors, without its password."""
    if isinstance(store, Path):
        return str(store)
    try:
        return make_url(store).render_as_string(hide_password=True) if "://" in store else store
    except ArgumentError:
        return "the store"


@contextmanager
def _connected(store: str | Path, name: str) -> Iterator[Connection]:
    """Connect for reading. Raises TraceError."""
    try:
        if isinstance(store, str) and "://" in store and not store.startswith("sqlite"):
            engine = create_engine(_url(store, name), connect_args={"options": "-c default_transaction_read_only=on"})
        else:
            path = Path(str(store).removeprefix("sqlite:///"))
            uri = f"file:{quote(str(path.absolute()))}?mode=ro"
            engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True))
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()
    except (SQLAlchemyError, sqlite3.Error) as error:
        text = " ".join(str(getattr(error, "orig", None) or error).split())[:300]
        raise TraceError(f"cannot be read: {text}", place=name, remedy=_REMEDY) from error


def _url(store: str, name: str) -> URL:
    try:
        url = make_url(store)
    except ArgumentError as error:
        raise TraceError("not a database URL", place=name, remedy="write postgresql://user@host/database") from error
    driver = _SCHEMES.get(url.drivername.partition("+")[0])
    if driver is None:
        raise TraceError(f"{url.drivername!r} is not supported", place=name, remedy="take sqlite or postgresql")
    return url.set(drivername=driver)


def _applications() -> Any:
    """Select all applications that were given containers, by their first ask."""
    asks = select(GrantRow.app_id, func.min(GrantRow.asked_s).label("asked_s")).group_by(GrantRow.app_id).subquery()
    columns = (
        asks.c.app_id,
        asks.c.asked_s,
        AppRow.name,
        AppRow.user,
        AppRow.queue,
        AppRow.type,
    )
    joined = select(*columns).outerjoin(AppRow, AppRow.id == asks.c.app_id)
    return joined.order_by(asks.c.asked_s, asks.c.app_id)


def _job(connection: Connection, app: Row[Any], first_s: float, name: str) -> RecordedJob | None:
    """Return one application, numbered 0; None when no task of it ended. Raises TraceError."""
    grants = connection.execute(_grants(app.app_id)).all()
    ends, losts, begins = _events(connection, app.app_id)
    done = {row.container_id: row.at_s for row in connection.execute(_completions(app.app_id))}
    by_id = {row.container_id: row for row in grants}
    followed = {row.follows for row in grants if row.follows}
    tasks = []
    leaves = [row for row in grants if row.container_id not in followed]
    for row in leaves:
        span_s = ends.get(row.container_id)
        if span_s is None and row.container_id in done:  # no sidecar told of its end: what its master was told
            span_s = (begins.get(row.container_id, row.granted_s), done[row.container_id])
        if span_s is None:
            continue
        chain = _chain(row, by_id)
        if span_s[1] < span_s[0] or span_s[0] < app.asked_s - 60:
            problem = (
                f"{row.container_id} began at {span_s[0]}, ended at {span_s[1]} and was asked for at {row.asked_s}"
            )
            raise TraceError(problem, place=name, remedy="leave the application out with --skip; compare the clocks")
        tasks.append(_task(row, span_s, chain, losts, first_s))
    if not tasks:
        return None
    tasks, stages = by_stage(tasks, app.type or "")
    job = SimulatedJob(
        0,
        app.asked_s - first_s,
        tuple(task.runs_s for task in tasks),
        sum(task.expected_s for task in tasks) / len(tasks),
        app.name or app.app_id,
        app.user or "",
        app.queue or "default",
        cores=max(row.vcores for row in leaves),
        memory_mb=max(row.memory_mb for row in leaves),
        stages=stages,
    )
    choices = connection.execute(_choices(app.app_id))
    counted = {f"{row.slot}: {row.chosen}": int(row.weight) for row in choices}
    return RecordedJob(job, app.app_id, tuple(tasks), len(leaves) - len(tasks), counted)


def _task(
    row: Row[Any], span_s: tuple[float, float], chain: Sequence[str], losts: Mapping[str, float], first_s: float
) -> RecordedTask:
    return RecordedTask(
        row.container_id,
        row.kind,
        row.node_id,
        row.route_reason,
        row.asked_s - first_s,
        span_s[0] - first_s,
        span_s[1] - first_s,
        row.expected_s,
        len(chain),
        sum(losts.get(container_id, 0.0) for container_id in chain),
        row.priority,
    )


def by_stage(tasks: Sequence[RecordedTask], kind: str) -> tuple[list[RecordedTask], tuple[int, ...]]:
    """Return an application's tasks in the order of its stages, and how many each has; none for one stage.

    kind: the application's type. A reduce that waited in its container begins when the last map has ended.
    """
    groups: dict[int, list[RecordedTask]] = {}
    for task in tasks:
        priority = task.priority
        if kind == _MAPREDUCE:
            priority = _REDUCES if priority == _REDUCES else _MAPS
        groups.setdefault(priority, []).append(task)
    if kind == _MAPREDUCE and len(groups) == 2:
        ends_s = sorted(task.ended_s for task in groups[_MAPS])
        groups[_REDUCES] = [
            replace(task, begun_s=after_maps(task.begun_s, task.ended_s, ends_s)) for task in groups[_REDUCES]
        ]
    stages: list[list[RecordedTask]] = []
    over_s = inf
    for group in sorted(groups.values(), key=lambda group: min(task.begun_s for task in group)):
        if min(task.begun_s for task in group) >= over_s:
            stages.append(group)
        elif stages:
            stages[-1] += group
        else:
            stages = [group]
        over_s = max(task.ended_s for task in stages[-1])
    if len(stages) == 1:
        return list(tasks), ()
    return [task for stage in stages for task in stage], tuple(map(len, stages))


def _chain(row: Row[Any], by_id: Mapping[str, Row[Any]]) -> list[str]:
    """Return the containers of one task, the last one first."""
    chain = [row.container_id]
    while row.follows in by_id and row.follows not in chain:
        row = by_id[row.follows]
        chain.append(row.container_id)
    return chain


def _grants(app_id: str) -> Any:
    columns = (
        GrantRow.container_id,
        GrantRow.kind,
        GrantRow.node_id,
        GrantRow.route_reason,
        GrantRow.memory_mb,
        GrantRow.vcores,
        GrantRow.expected_s,
        GrantRow.asked_s,
        GrantRow.granted_s,
        GrantRow.follows,
        GrantRow.priority,
    )
    return select(*columns).where(GrantRow.app_id == app_id).order_by(GrantRow.asked_s, GrantRow.container_id)


def _completions(app_id: str) -> Any:
    """Select containers that ended well, as their master was told."""
    columns = (Completion.container_id, Completion.at_s)
    return select(*columns).where(Completion.app_id == app_id, Completion.exit_status == 0, ~Completion.own)


def _choices(app_id: str) -> Any:
    columns = (DecisionRow.slot, DecisionRow.chosen, func.sum(DecisionRow.weight).label("weight"))
    query = select(*columns).where(DecisionRow.app_id == app_id, DecisionRow.alternative == "")
    return query.group_by(DecisionRow.slot, DecisionRow.chosen).order_by(DecisionRow.slot, DecisionRow.chosen)


def _events(
    connection: Connection, app_id: str
) -> tuple[dict[str, tuple[float, float]], dict[str, float], dict[str, float]]:
    """Return by container: begin and end of those that ended, run time of those that were killed, and begins."""
    ends: dict[str, tuple[float, float]] = {}
    losts: dict[str, float] = {}
    begins: dict[str, float] = {}
    kinds = (EventKind.STARTED.value, EventKind.ENDED.value, EventKind.KILLED.value)
    query = select(Event.container_id, Event.kind, Event.at_s, Event.ran_s).join(
        GrantRow, GrantRow.container_id == Event.container_id
    )
    for row in connection.execute(query.where(GrantRow.app_id == app_id, Event.kind.in_(kinds))):
        if row.kind == EventKind.STARTED:
            begins[row.container_id] = row.at_s
        elif row.kind == EventKind.KILLED:
            losts[row.container_id] = row.ran_s or 0.0
        elif row.ran_s is not None:
            ends[row.container_id] = (row.at_s - row.ran_s, row.at_s)
    return ends, losts, begins
