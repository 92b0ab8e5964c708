"""A node under the virtual clock: the sidecar's machine as it is, before a NodeManager that needs a moment for all.

Where containers share the cores they are resized at once; a task goes on in proportion to the cores that it has. With
the sliver that a shrunk container keeps it does nothing, else there would be more work than cores; unless masters or
waiting reduces hold containers, which leave their cores unused, and would stop for ever what gave way to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from policies.common.shrinking import Shrinking
from policies.config.policy_set import Policies
from policies.model import Resources
from policies.value_types import replace
from quicksilver.common.messages import Ack, ContainerEvent, EventKind, Grant, Report, Targets
from sidecar.cpu_sharing.events import Freeze, ReadyContainer, Resized, Restore, Shrink
from sidecar.node import events as ev
from sidecar.node.container import Rules
from sidecar.node.node import SidecarNode
from sidecar.node.node_policies import NodePolicies
from sidecar.node.report_view import picture
from sidecar.node.sharing import Sharing

KILL_S: Final = 0.25
"""From a kill to the end of its process."""
KILLED: Final = -105
HELD: Final = b"launch context"
_CHANGE_NO_TURN: Final = (ev.Granted, ev.SessionUp)
"""Events after which the next turn is as before, if nothing is executed."""


class Surroundings(Protocol):
    """What a node needs of the world."""

    start_s: float
    """From a start that goes to the NodeManager to its process."""
    launch_s: float
    """From a process to its first task's begin."""
    reuse_s: float | None
    """From a task's end to the next one's begin in the same container; None: a container for each."""
    slivers: bool
    """Whether a shrunk container goes on by what it keeps; else it stands still."""

    @property
    def now_s(self) -> float:
        """The time."""

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something after so many seconds."""

    def run_s(self, container_id: str, node_id: str) -> float:
        """Return how long a container runs on a node; inf until it is told to end."""

    def began(self, container_id: str) -> None:
        """Note that a task runs."""

    def ended(self, container_id: str) -> None:
        """Note that a task has run to its end."""

    def reused(self, container_id: str) -> bool:
        """Have a container whose task is done take another one of its job; False when it has to end."""

    def changed(self, node_id: str) -> None:
        """Note that the node has something to report."""

    def stirred(self, node_id: str) -> Targets | None:
        """Note that something comes to the node that had nothing; return what the proxy wants of it."""


@dataclass(slots=True)
class Process:
    """A container that runs. The size is what it takes of the node."""

    size: Resources
    began_s: float
    run_s: float
    """What it has to run at its full size."""
    done_s: float = 0.0
    """What it had run of that at `at_s`."""
    at_s: float = 0.0
    speed: float = 1.0
    """Of its full size, since then."""
    resized: int = 0

    def go_on(self, now_s: float) -> None:
        """Count until now."""
        self.done_s += (now_s - self.at_s) * self.speed
        self.at_s = now_s


class Site:
    """One node with its sidecar."""

    def __init__(
        self,
        node_id: str,
        capacity: Resources,
        policies: Policies,
        world: Surroundings,
        shares: bool = False,
        report_s: float = 2.0,
    ) -> None:
        """Begin empty. shares: whether containers share the cores, as a `preempt` policy that shrinks has it.

        report_s: between reports; what the proxy answers to one is kept for ten of them, as in production.
        """
        self.id, self.capacity, self.policies = node_id, capacity, policies
        shrinking = policies.node.shrinking() if shares else None
        self.shares = shrinking is not None
        self._sliver = shrinking.min_cores if shrinking is not None else 0.0
        self.node = _machine(lambda: self.policies, capacity, shrinking, targets_keep_s=10 * report_s)
        self._turn_s: float | None = None
        self.running: dict[str, Process] = {}
        self.unacknowledged: list[ContainerEvent] = []
        """Events that the proxy has not acknowledged."""
        self.ends: list[tuple[str, int]] = []
        """Containers and exit codes that the next heartbeat tells the ResourceManager."""
        self.sheds: Counter[str] = Counter()
        """By cause."""
        self.lost_s: list[float] = []
        """What killed containers had run."""
        self.busy_s = 0.0
        """Core seconds of processes that are over."""
        self.peak = Resources()
        """The largest size that ran at once."""
        self.warnings: Counter[str] = Counter()
        self.resizes: Counter[str] = Counter()
        self._world = world
        self._reports = 0

    def use(self, policies: Policies) -> None:
        """Use these policies from now on; whether containers are shrunk at all stays, as in production."""
        shrinking = policies.node.shrinking()
        if (shrinking is not None) != self.shares:
            policies = policies.keeping("preempt", self.policies)
            shrinking = policies.node.shrinking()
        self.policies = policies
        if shrinking is not None:
            self.handle(ev.Retuned(shrinking, self._world.now_s))

    def handle(self, event: ev.Event) -> None:
        """Handle an event and execute the commands of the machine."""
        commands = self.node.handle(event)
        for command in commands:
            self._execute(command)
        if self.shares and (commands or type(event) not in _CHANGE_NO_TURN):
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Schedule the next turn: a quantum is over, or a container that stands still has waited long enough."""
        at_s = self.node.state.sharing.deadline_s()
        if at_s is not None and at_s != self._turn_s:
            self._turn_s = at_s
            self._world.later(max(0.0, at_s - self._world.now_s), self._turn)

    def _turn(self) -> None:
        if self._turn_s is not None and self._turn_s <= self._world.now_s:
            self._turn_s = None
            self.tick()

    def _execute(self, command: ev.Command) -> None:
        match command:
            case ev.Forward() | ev.Launch():
                self._world.later(self._world.start_s, lambda: self._begin(command.container_id))
            case ev.Kill():
                self._world.later(KILL_S, lambda: self._killed(command.container_id))
            case Shrink() | Freeze() | Restore():
                self._resize(command)
            case ev.ReportEvent():
                self.unacknowledged.append(command.event)
                if command.event.kind is EventKind.SHED:
                    self.sheds[command.event.cause or "other"] += 1
                self._world.changed(self.id)
            case ev.Warn():
                self.warnings[command.text.partition(":")[0]] += 1

    # Starts

    @property
    def at_rest(self) -> bool:
        """Whether the node has no containers, and nothing to report: nothing changes until something comes."""
        node = self.node
        return not (
            node.state.containers or node.state.announced or node.state.unwanted or self.unacknowledged or self.running
        )

    def _stir(self) -> None:
        """Learn what the proxy wants of an empty node when something comes: while it is empty, nobody tells it."""
        node = self.node
        if node.state.containers or node.state.announced:
            return
        targets = self._world.stirred(self.id)
        if targets is not None:
            self.handle(ev.Targeted(targets, (), (), self._world.now_s))

    def announce(self, grant: Grant) -> None:
        """Handle a container that the proxy announces."""
        self._stir()
        self.handle(ev.Granted((grant,), self._world.now_s))

    def drop(self, container_ids: Sequence[str], reason: str) -> None:
        """Drop starts that the proxy does not want any more."""
        self._stir()
        self.handle(ev.Dropped(tuple(container_ids), reason, self._world.now_s))

    def start(self, start: ev.Start) -> None:
        """Handle a start of an application master, which has a session then."""
        self._stir()
        if start.attempt_id not in self.node.state.sessions:
            self.handle(ev.SessionUp(start.attempt_id, self._world.now_s))
        self.handle(ev.Arrived(start, self._world.now_s))
        self._world.changed(self.id)

    def _begin(self, container_id: str) -> None:
        now_s, entry = self._world.now_s, self.node.state.containers.get(container_id)
        if entry is None:
            return  # its application is over
        assert container_id not in self.running, f"{container_id} started twice"
        run_s = self._world.launch_s + self._world.run_s(container_id, self.id)
        process = self.running[container_id] = Process(entry.start.resources, now_s, run_s, at_s=now_s)
        self.peak = _higher(self.peak, self.running.values(), self.shares)
        self._world.began(container_id)
        if run_s < inf:
            self._world.later(run_s, lambda: self._over(container_id, process, 0))
        self.handle(ev.Answered(container_id, ev.Outcome.STARTED, "", now_s))
        if self.shares:
            self.handle(ReadyContainer(container_id, now_s))
            self.peak = _higher(self.peak, self.running.values(), self.shares)

    def end(self, container_id: str) -> None:
        """Have a container end by itself, if it has begun."""
        process = self.running.get(container_id)
        if process is not None:
            self._over(container_id, process, process.resized)

    def begin_task(self, container_id: str) -> None:
        """Begin the task of a container that stood still, because its stage is on now."""
        process, now_s = self.running.get(container_id), self._world.now_s
        if process is None:
            return  # killed meanwhile
        process.go_on(now_s)
        launch_s = max(0.0, self._world.launch_s - (now_s - process.began_s))
        process.run_s = process.done_s + launch_s + self._world.run_s(container_id, self.id)
        process.began_s = now_s
        process.resized += 1
        number = process.resized
        if process.speed > 0:
            left_s = (process.run_s - process.done_s) / process.speed
            self._world.later(left_s, lambda: self._over(container_id, process, number))

    def _resize(self, command: Shrink | Freeze | Restore) -> None:
        """Give a container other cores; it is over when it has run what it has to."""
        container_id, now_s = command.container_id, self._world.now_s
        process = self.running.get(container_id)
        if process is not None:
            process.go_on(now_s)
            least = 0.0 if self._world.slivers else self._sliver
            cores = command.cores if isinstance(command, Shrink) and command.cores > least else 0.0
            process.speed = 1.0 if isinstance(command, Restore) else min(1.0, cores / process.size.vcores)
            process.resized += 1
            self.resizes[type(command).__name__.lower()] += 1
            if process.speed > 0 and process.run_s < inf:
                left_s, number = max(0.0, process.run_s - process.done_s), process.resized
                self._world.later(left_s / process.speed, lambda: self._over(container_id, process, number))
        self.handle(Resized(container_id, "" if process is not None else "it does not run", now_s))

    # Ends

    def _over(self, container_id: str, process: Process, resized: int) -> None:
        if self.running.get(container_id) is not process or process.resized != resized:
            return  # killed or resized before
        self._world.ended(container_id)
        reuse_s = self._world.reuse_s
        if reuse_s is not None and self._world.reused(container_id):
            self._settle(process)
            self._world.later(reuse_s, lambda: self._next_task(container_id, process))
            return
        self._gone(container_id, 0)
        self.handle(ev.Ended(container_id, self._world.now_s))
        self._world.changed(self.id)

    def _next_task(self, container_id: str, process: Process) -> None:
        """Begin another task in a container that keeps its process."""
        if self.running.get(container_id) is not process:
            return  # killed meanwhile
        process.began_s = process.at_s = self._world.now_s
        process.run_s, process.done_s, process.resized = (
            self._world.run_s(container_id, self.id),
            0.0,
            process.resized + 1,
        )
        number = process.resized
        self._world.began(container_id)
        if process.speed > 0:
            self._world.later(process.run_s / process.speed, lambda: self._over(container_id, process, number))

    def _settle(self, process: Process) -> None:
        """Book what a process has run."""
        process.go_on(self._world.now_s)
        self.busy_s += process.done_s * process.size.vcores
        process.began_s, process.done_s = self._world.now_s, 0.0

    def _killed(self, container_id: str) -> None:
        if container_id in self.running:
            process = self.running[container_id]
            self.lost_s.append(self._world.now_s - process.began_s if process.run_s < inf else 0.0)
            self._gone(container_id, KILLED)
        self.handle(ev.KillOver(container_id, True, "", self._world.now_s))
        self._world.changed(self.id)

    def _gone(self, container_id: str, exit_status: int) -> None:
        self._settle(self.running.pop(container_id))
        self.ends.append((container_id, exit_status))

    # Reports

    def tick(self) -> None:
        """Let the machine look at the clock."""
        self.handle(ev.Tick(self._world.now_s))

    def report(self) -> Report:
        """Return the node's state with the events that the proxy has not acknowledged."""
        self._reports += 1
        return Report(
            node_id=self.id,
            boot="virtual",
            seq=self._reports,
            sidecar_url="http://127.0.0.1:1",
            events=list(self.unacknowledged),
            limits=[],
            **picture(self.node, self._world.now_s),
        )

    def acknowledged(self, ack: Ack) -> None:
        """Handle the proxy's answer to a report."""
        self.unacknowledged = [event for event in self.unacknowledged if event.seq > ack.events_to]
        now_s = self._world.now_s
        if ack.drop:
            self.drop(ack.drop, ack.drop_reason)
        if ack.targets is not None or ack.shed or ack.promoted:
            self.handle(ev.Targeted(ack.targets, tuple(ack.shed), tuple(ack.promoted), now_s))

    def so_far_s(self) -> float:
        """Return the core seconds that all processes have used, those that run included."""
        for process in self.running.values():
            process.go_on(self._world.now_s)
        return self.busy_s + sum(p.done_s * p.size.vcores for p in self.running.values())

    def busy_vcores(self) -> float:
        """Return the cores that tasks have now; slivers are no more cores than there are."""
        return min(self.capacity.vcores, sum(p.speed * p.size.vcores for p in self.running.values()))


def _higher(peak: Resources, running: Iterable[Process], shares: bool) -> Resources:
    """Return the larger of a peak and what runs, by memory and, unless they are shared, by cores."""
    used = sum((process.size for process in running), Resources())
    return max(peak, Resources(used.memory_mb, 0) if shares else used, key=_amount)


def _amount(used: Resources) -> tuple[float, int]:
    return used.vcores, used.memory_mb


def _machine(
    current: Callable[[], Policies],
    capacity: Resources,
    shrinking: Shrinking | None,
    targets_keep_s: float,
) -> SidecarNode:
    """Return a node's machine, as the sidecar makes it. current: returns the policies in force."""
    extra = shrinking.extra if shrinking is not None else 0.0
    rules = Rules(
        capacity, reserve_mb=0, shares_cpu=shrinking is not None, extra_vcores=extra, targets_keep_s=targets_keep_s
    )
    slots = current().node
    node_policies = NodePolicies(
        slots.order_key,
        lambda need, running, now_s: current().node.victims(need, running, now_s),
        slots.bypass_limit_s,
        slots.order_steady,
        lambda: current().node.grace_s,
        lambda app_type: current().kills.notice_s(app_type),
        lambda: current().node.waits_by_size,
        lambda: current().node.fills,
        lambda waiting, gap: current().node.fill(waiting, gap),
    )
    if current().windows:  # which change the order as well
        node_policies = replace(
            node_policies,
            order_key=lambda waiting, now_s: current().node.order_key(waiting, now_s),
            bypass_limit=lambda waiting: current().node.bypass_limit_s(waiting),
            steady=lambda: current().node.order_steady(),
        )
    return SidecarNode(rules, node_policies, Sharing(shrinking, rules))
