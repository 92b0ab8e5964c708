"""Thousands of unmanaged application masters in one process, over real RPC to the ResourceManager and the nodes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from hadoop_rpc.errors import LoginRefusedError
from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.yarn.yarn_client import RemoteCallError
from quicksilver_lab.bench.emulator.ledger import TaskLedger
from quicksilver_lab.bench.emulator.masters.am import AmSettings, MapReduceAm, TaskLaunch, TaskStop, one_rack
from quicksilver_lab.bench.emulator.masters.links import BROKEN, Address, NodeLinks, Outcome
from quicksilver_lab.bench.emulator.masters.session import MasterLife, MasterSession
from quicksilver_lab.bench.emulator.masters.submit import MasterSubmitter, NotAdmittedError
from quicksilver_lab.bench.emulator.masters.waiting import RackOf
from quicksilver_lab.bench.emulator.model import JobRecord, JobSpec
from rm_proxy.domain.ids import container_id_text

START_AGAIN_S: Final = 1.0
MOST_STARTS: Final = 5
"""So often a start is tried when the way to the node breaks; then the attempt has failed."""
_RUNS_ALREADY: Final = ("already is running", "already running", "Attempt to relaunch")


def emulated(_container_id: str, runs_s: float) -> str:
    """Return what a container of an emulated node runs."""
    return f"emulated {runs_s:.3f}"


@dataclass(frozen=True, slots=True)
class MastersSettings:
    """How masters live; times in seconds."""

    am: AmSettings = field(default_factory=AmSettings)
    app_type: str = "MAPREDUCE"
    """Type of the applications, which quicksilver's rules match."""
    heartbeat_s: float = 1.0
    """From an answer to the next heartbeat, and from registration to the first one, as in RMCommunicator."""
    linger_beats: int = 0
    """So many heartbeats at most a master waits to hear of the end of its containers before it unregisters. MapReduce
    waits for none; stock YARN may then take other opportunistic containers of a node for lost (findLostContainers)."""
    most_links: int = 4000
    """Connections to nodes, of all masters together."""


@dataclass(slots=True, eq=False)
class _Life(MasterLife):
    """A master that lives."""

    job: JobSpec
    am: MapReduceAm
    record: JobRecord


class Masters:
    """Runs jobs, each as one master. `umbilical` is what containers' processes call.

    Records hold readings of `clock`; what the umbilical says is stamped by it, too.
    """

    def __init__(
        self,
        rm: Address,
        scheduler: Address,
        settings: MastersSettings | None = None,
        *,
        rack_of: RackOf = one_rack,
        clock: Callable[[], float] = time.monotonic,
        command: Callable[[str, float], str] = emulated,
    ) -> None:
        """Prepare. rm: the client service. scheduler: that of the ResourceManager, or a proxy.

        command: a container's id and a task's seconds to what the container runs.
        """
        self.settings = settings or MastersSettings()
        self.counts: Counter[str] = Counter()
        """heartbeats, granted, released, starts, refused, retried_starts, resyncs, reconnects, killed, failed_jobs,
        exit_* (attempts that did not come to their end, by exit status); and after `run`: links, evicted_links, lost,
        doubled, strays, late_begins, late_ends."""
        self.ledger = TaskLedger()
        self._scheduler, self._rack_of, self._clock, self._command = scheduler, rack_of, clock, command
        self._submitter = MasterSubmitter(rm, self.settings.app_type)
        self._links = NodeLinks(self.settings.most_links)
        self._of: dict[str, _Life] = {}
        """Whose a container is, of masters that live."""
        self._ended: list[JobSpec] = []

    @property
    def living(self) -> int:
        """How many containers were given to masters that live."""
        return len(self._of)

    def umbilical(self, container_id: str, kind: Literal["began", "done"], _now_s: float) -> None:
        """Handle a report of the process in a container."""
        self.ledger.heard(container_id, kind)
        life = self._of.get(container_id)
        if life is None:
            return
        now_s = self._clock()
        if kind == "began":
            life.am.began(container_id, now_s)
        elif life.am.done(container_id, now_s) and life.am.over:
            life.rouse()

    async def run(
        self,
        jobs: Iterable[JobSpec],
        *,
        concurrent: int | None = None,
        submit_for_s: float | None = None,
        stop_after_s: float | None = None,
    ) -> list[JobRecord]:
        """Run jobs and return their records in the order of submission; `lost` and `doubled` are then counted.

        Jobs come in the order of their arrival, and may be endless. Each is submitted when it arrives; with
        `concurrent`, when moreover fewer than so many are under way. submit_for_s: nothing is submitted later.
        stop_after_s: what is not over then is killed, and its record says so. Both count from this call.
        """
        records: list[JobRecord] = []
        began_s = self._clock()
        try:
            async with asyncio.timeout(stop_after_s) as limit, asyncio.TaskGroup() as group:
                due = _due(jobs, submit_for_s)  # all take from it
                if concurrent is None:
                    for job in due:
                        await self._until(began_s + job.arrives_s)
                        group.create_task(self._live(job, records))
                else:
                    for _ in range(concurrent):
                        group.create_task(self._one_after_another(due, began_s, submit_for_s, records))
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            await self._links.close()
            await self._submitter.close()
        self.counts["lost"], self.counts["doubled"] = self.ledger.lost(self._ended), self.ledger.doubled
        self.counts["strays"] = self.ledger.strays
        self.counts["late_begins"], self.counts["late_ends"] = self.ledger.late_begins, self.ledger.late_ends
        self.counts["links"], self.counts["evicted_links"] = self._links.opened, self._links.evicted
        return records

    async def _one_after_another(
        self, due: Iterator[JobSpec], began_s: float, submit_for_s: float | None, records: list[JobRecord]
    ) -> None:
        for job in due:
            await self._until(began_s + job.arrives_s)
            if submit_for_s is not None and self._clock() - began_s > submit_for_s:
                return
            await self._live(job, records)

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._clock()))

    # One master

    async def _live(self, job: JobSpec, records: list[JobRecord]) -> None:
        work_s = sum(task.runs_s for task in job.tasks)
        record = JobRecord(job.number, job.klass, self._clock(), work_s=work_s, queue=job.queue, user=job.user)
        records.append(record)
        try:
            async with self._submitter.admitted(job, record.errors.append) as token:
                await self._work(job, record, MasterSession(self._scheduler, token))
        except (*BROKEN, NotAdmittedError, TimeoutError) as error:
            record.errors.append(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            record.errors.append("cut off before its end")
            raise
        finally:
            self.counts["failed_jobs"] += bool(record.errors) and record.ended_s is None

    async def _work(self, job: JobSpec, record: JobRecord, session: MasterSession) -> None:
        life = None
        try:
            await session.register()
            now_s = record.registered_s = self._clock()
            am = MapReduceAm(job, self.settings.am, now_s, self._rack_of)
            record.tasks = am.records
            life = _Life(job, am, record)
            await self._beat_until_over(life, session)
            self._over(life)
            for _ in range(self.settings.linger_beats if not am.broken else 0):
                if not am.open_containers:
                    break
                await asyncio.sleep(self.settings.heartbeat_s)
                await self._beat(life, session)
            await session.unregister(am.broken, self.settings.heartbeat_s)
        finally:
            session.close()
            self.counts["resyncs"] += session.resyncs
            self.counts["reconnects"] += session.reconnects
            if life is not None:
                self._forget(life)

    async def _beat_until_over(self, life: _Life, session: MasterSession) -> None:
        while not life.am.over:
            await life.wait(self.settings.heartbeat_s)
            if not life.am.over:
                await self._beat(life, session)

    def _over(self, life: _Life) -> None:
        if life.am.broken:
            life.record.errors.append(life.am.broken)
        else:
            life.record.ended_s = self._clock()
            self._ended.append(life.job)

    def _forget(self, life: _Life) -> None:
        am = life.am
        life.record.errors += am.errors
        self.counts["granted"] += am.granted
        self.counts["released"] += am.released
        self.counts["killed"] += sum(task.killed for task in am.records)
        self.counts.update({f"exit_{status}": count for status, count in am.exits.items()})
        self._links.drop(life.job.number, life.nodes)
        for container_id in life.containers:
            del self._of[container_id]

    async def _beat(self, life: _Life, session: MasterSession) -> None:
        self.counts["heartbeats"] += 1
        answer = await session.allocate(life.am.request())
        if answer is None:
            life.am.resync()
            return
        for token in answer.nm_tokens:
            life.tokens[token.nodeId.host, token.nodeId.port] = token.token
        for status in answer.completed_container_statuses:
            self.ledger.given_up(container_id_text(status.container_id))
        for command in life.am.answered(answer, self._clock()):
            if isinstance(command, TaskLaunch):
                self._of[command.container_id] = life
                life.containers.append(command.container_id)
                self.ledger.assigned(command.container_id, life.job.number, command.task)
                self._start(life, command, 1)
            else:
                self._stop(life, command)

    # Containers

    def _start(self, life: _Life, launch: TaskLaunch, tries: int) -> None:
        if launch.container_id not in self._of or not life.am.holds(launch.container_id):
            return  # its master ended, or it was lost, before the way to its node was there again
        node = launch.container.nodeId
        address = (node.host, node.port)
        token = life.tokens.get(address)
        if token is None:
            self._refused(life, launch, f"no NMToken for {node.host}:{node.port}")
            return
        life.nodes.add(address)
        self.counts["starts"] += 1
        command = self._command(launch.container_id, life.job.tasks[launch.task].runs_s)

        def answered(outcome: Outcome) -> None:
            self._started(life, launch, tries, outcome)

        self._links.start(life.job.number, token, launch.container, command, answered)

    def _started(self, life: _Life, launch: TaskLaunch, tries: int, outcome: Outcome) -> None:
        if launch.container_id not in self._of:
            return
        if isinstance(outcome, bytes):
            for failed in y.StartContainersResponseProto.FromString(outcome).failed_requests:
                why = failed.exception.message or failed.exception.class_name
                if tries == 1 or not any(text in why for text in _RUNS_ALREADY):
                    self._refused(life, launch, why.partition("\n")[0])
        elif isinstance(outcome, RemoteCallError | LoginRefusedError) or tries == MOST_STARTS:
            self._refused(life, launch, f"{type(outcome).__name__}: {outcome}")
        else:
            self.counts["retried_starts"] += 1
            asyncio.get_running_loop().call_later(START_AGAIN_S, self._start, life, launch, tries + 1)

    def _refused(self, life: _Life, launch: TaskLaunch, why: str) -> None:
        self.counts["refused"] += 1
        self.ledger.given_up(launch.container_id)
        life.am.refused(launch.container_id, why, self._clock())
        if life.am.over:
            life.rouse()

    def _stop(self, life: _Life, stop: TaskStop) -> None:
        node = stop.container.nodeId
        token = life.tokens.get((node.host, node.port))
        self.counts["stops"] += 1
        if token is not None:
            self._links.stop(life.job.number, token, stop.container, lambda outcome: self._stopped(life, outcome))

    def _stopped(self, life: _Life, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            life.am.note(f"a reduce was not stopped: {outcome}")


def _due(jobs: Iterable[JobSpec], submit_for_s: float | None) -> Iterator[JobSpec]:
    for job in jobs:
        if submit_for_s is not None and job.arrives_s > submit_for_s:
            return
        yield job
