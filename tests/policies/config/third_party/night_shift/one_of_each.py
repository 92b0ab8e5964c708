"""A policy for each other slot, as a package that knows quicksilver only as a library writes it."""

from collections.abc import Mapping, Sequence
from random import Random

from policies.admission import Admission, Standing
from policies.base import NoSettings, Policy
from policies.model import (
    AppView,
    Ask,
    Candidates,
    ContainerView,
    Gap,
    JobClass,
    JobView,
    Limit,
    NodeQueue,
    NodeUse,
    NodeView,
    Placement,
    QueueView,
    Resources,
    ShedTarget,
    WorkShares,
)
from policies.probes import NewTasks, ProbedNode


def classify(job: JobView, cfg: NoSettings) -> JobClass:
    """Return long for jobs of the night shift."""
    return JobClass.LONG if job.app.user == "owl" else JobClass.SHORT


def partition(nodes: Sequence[NodeView], shares: WorkShares, cfg: NoSettings) -> list[str]:
    """Return the first node."""
    return [min(node.id for node in nodes)] if nodes else []


def probe(tasks: NewTasks, nodes: Sequence[ProbedNode], cfg: NoSettings, rng: Random) -> Sequence[str]:
    """Return the first node for each task."""
    return [nodes[0].node.id] * tasks.tasks


def place(ask: Ask, nodes: Sequence[NodeView], cfg: NoSettings, rng: Random) -> Placement:
    """Choose the last node."""
    return Placement(max(node.id for node in nodes), reason="the last")


def match(tasks: Sequence[Candidates], cfg: NoSettings) -> Sequence[str | None]:
    """Return the worst candidate of each."""
    return [one[-1][0] for one in tasks]


def order(waiting: ContainerView, cfg: NoSettings, now_s: float) -> tuple[float, ...]:
    """Return the longest expected duration first."""
    return (-waiting.expected_s,)


def fill(waiting: ContainerView, gap: Gap, cfg: NoSettings) -> bool:
    """Return whether it is as short as the gap."""
    return waiting.expected_s <= gap.head_starts_s


def preempt(need: Resources, running: Sequence[ContainerView], cfg: NoSettings, now_s: float) -> list[str]:
    """Choose all."""
    return [one.id for one in running]


def headroom(limit: Resources, app: AppView, cfg: NoSettings) -> Resources:
    """Return half of it."""
    return Resources(limit.memory_mb // 2, limit.vcores / 2)


def quota(ask: Ask, queue: QueueView, cfg: NoSettings) -> str | None:
    """Return that owls have none."""
    return "no owls" if ask.app.user == "owl" else None


def admit(ask: Ask, queue: QueueView, cfg: NoSettings) -> Admission | None:
    """Return that bats have tokens."""
    return Admission(Standing.REGULAR, "bats have tokens") if ask.app.user == "bat" else None


def shed(nodes: Sequence[NodeView], cfg: NoSettings, now_s: float) -> Mapping[str, ShedTarget]:
    """Return that one may wait at each node."""
    return {node.id: ShedTarget(max_queue=1) for node in nodes}


def steal(thief: NodeView, others: Sequence[NodeQueue], cfg: NoSettings, rng: Random, now_s: float) -> list[str]:
    """Return the first that waits anywhere."""
    return [other.waiting[0].id for other in others if other.waiting][:1]


def correct(waiting: ContainerView, here: NodeQueue, best: NodeView, cfg: NoSettings, now_s: float) -> str | None:
    """Return that the night is short."""
    return "the night is short"


def police(use: NodeUse, cfg: NoSettings, now_s: float) -> Limit | None:
    """Return what guaranteed containers leave."""
    return Limit(use.capacity - use.used_g, "the rest")


def promote(running: ContainerView, app: AppView, queue: QueueView, cfg: NoSettings, now_s: float) -> str | None:
    """Return that larks are promoted."""
    return "a lark" if app.user == "lark" else None


CLASSIFY = Policy("night_owls", NoSettings, classify)
PARTITION = Policy("night_first_node", NoSettings, partition)
PROBE = Policy("night_probe", NoSettings, probe)
PLACE = Policy("night_last", NoSettings, place)
MATCH = Policy("night_match", NoSettings, match)
ORDER = Policy("night_longest", NoSettings, order, steady=True)
FILL = Policy("night_short", NoSettings, fill)
PREEMPT = Policy("night_all", NoSettings, preempt)
HEADROOM = Policy("night_half", NoSettings, headroom)
QUOTA = Policy("night_no_owls", NoSettings, quota)
ADMIT = Policy("night_tokens", NoSettings, admit)
SHED = Policy("night_one", NoSettings, shed)
STEAL = Policy("night_thief", NoSettings, steal)
CORRECT = Policy("night_correct", NoSettings, correct)
POLICE = Policy("night_police", NoSettings, police)
PROMOTE = Policy("night_larks", NoSettings, promote)
