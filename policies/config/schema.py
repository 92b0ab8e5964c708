"""The `policies:` section of quicksilver.yaml: its shape, checked. `policies.config.policy_set.Policies` is what comes
of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import translate
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, ValidationError

from policies.config.presets import PresetName
from policies.model import AppView
from policies.settings_model import SettingsModel

Mode = Literal["active", "shadow", "bypass"]
Test = Callable[[AppView, int], bool]
"""Returns whether an application and a request priority match."""


class Section(SettingsModel):
    """Base of the settings here: frozen, and unknown keys are errors."""


def full_queue(name: str, known: Collection[str] = ()) -> str:
    """Return the full path of a YARN queue, `root.` and all.

    The ResourceManager gives some names as full paths and some as leaf names. Of the `known` full paths, the only one
    that ends in the leaf name is taken; without one, the queue is taken to be right below root.
    """
    name = name.strip() or "default"
    if name == "root" or name.startswith("root."):
        return name
    leaves = [path for path in known if path.endswith(f".{name}")]
    return leaves[0] if len(leaves) == 1 else f"root.{name}"


def queue_test(patterns: Collection[str]) -> Callable[[str], bool]:
    """Return a test of queue names: equal to one of the glob patterns, or a queue below it. `*` is all queues."""
    full = [p if p.startswith("*") else full_queue(p) for p in patterns]
    compiled = re.compile("|".join(f"(?:{translate(p)})|(?:{translate(p + '.*')})" for p in full) if full else r"(?!)")
    return lambda name: compiled.match(full_queue(name)) is not None


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


class Priorities(Section):
    """Request priorities: those listed, or those from min to max."""

    among: tuple[StrictInt, ...] = ()
    """Those that fit; with them min and max count for nothing."""
    min: StrictInt | None = None
    """The least that fits."""
    max: StrictInt | None = None
    """The greatest that fits."""

    def __contains__(self, priority: int) -> bool:
        if self.among:
            return priority in self.among
        return (self.min is None or priority >= self.min) and (self.max is None or priority <= self.max)


def _priorities(value: object) -> Priorities:
    if isinstance(value, Priorities):
        return value
    fields = value if isinstance(value, Mapping) and value else {"among": value if isinstance(value, list) else [value]}
    try:
        return Priorities.model_validate(fields)
    except ValidationError:
        raise ValueError("must be a whole number, a list of them, or {min: .., max: ..}") from None


class Progress(Section):
    """A part of a job, as its application master reports it: 0 at its begin, 1 at its end."""

    min: float = Field(0.0, ge=0, le=1)
    """The least that fits."""
    max: float = Field(1.0, ge=0, le=1)
    """The greatest that fits."""

    def __contains__(self, progress: float) -> bool:
        return self.min <= progress <= self.max


Globs = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Match(Section):
    """The requests that a rule applies to: each named property must fit; a list fits if one of its values does."""

    queue: Globs = ()
    """YARN queues, as globs; a queue stands for those below it too, and `batch` for `root.batch`."""
    user: Globs = ()
    """Users, as globs."""
    type: Globs = ()
    """YARN application types (MAPREDUCE, SPARK, TEZ, YARN), as globs; upper and lower case are alike."""
    name: Globs = ()
    """Application names, as globs."""
    tag: Globs = ()
    """Application tags, as globs; one of the application's tags must fit."""
    priority: Annotated[Priorities, BeforeValidator(_priorities)] = Priorities()
    """Request priorities as YARN has them (MapReduce: 5 failed maps, 10 reduces, 20 maps): a number, a list of numbers,
    or {min: .., max: ..}."""
    progress: Progress = Progress()
    """How far the job is, {min: .., max: ..} from 0 to 1, as its application master reported it when it asked.
    Containers that wait for a place keep the route that they got."""

    def __str__(self) -> str:
        parts = [f"{name} {'|'.join(globs)}" for name in _NAMES if (globs := getattr(self, name))]
        if self.priority.among:
            parts.append(f"priority {'|'.join(map(str, self.priority.among))}")
        elif self.priority != Priorities():
            low, high = self.priority.min, self.priority.max
            parts.append(f"priority {'' if low is None else low}..{'' if high is None else high}")
        if self.progress != Progress():
            parts.append(f"progress {self.progress.min:g}..{self.progress.max:g}")
        return ", ".join(parts) or "everything"


_NAMES = ("queue", "user", "type", "name", "tag")


def _glob_test(globs: Collection[str]) -> Callable[[str], bool]:
    compiled = re.compile("|".join(f"(?:{translate(glob)})" for glob in globs))
    return lambda text: compiled.match(text) is not None


def match_test(match: Match) -> Test:
    """Return a ready test for a match; globs are compiled once."""
    tests: list[Test] = []
    if match.queue:
        in_queue = queue_test(match.queue)
        tests.append(lambda app, _: in_queue(app.queue))
    if match.user:
        of_user = _glob_test(match.user)
        tests.append(lambda app, _: of_user(app.user))
    if match.type:
        of_type = _glob_test([glob.upper() for glob in match.type])
        tests.append(lambda app, _: of_type(app.type.upper()))
    if match.name:
        named = _glob_test(match.name)
        tests.append(lambda app, _: named(app.name))
    if match.tag:
        tagged = _glob_test(match.tag)
        tests.append(lambda app, _: any(tagged(tag) for tag in app.tags))
    if match.priority != Priorities():
        tests.append(lambda _, priority: priority in match.priority)
    if match.progress != Progress():
        tests.append(lambda app, _: app.progress in match.progress)
    if len(tests) < 2:
        return tests[0] if tests else lambda _app, _priority: True
    return lambda app, priority: all(test(app, priority) for test in tests)


class Choice(Section):
    """A policy by name, and its settings."""

    policy: str
    """Name of the policy (`quicksilver policy list` shows all)."""
    settings: dict[str, Any] = Field({})
    """Settings of the policy (`quicksilver policy show NAME` explains them)."""


def _choices(value: object) -> object:
    """Return one choice as a list of one."""
    if isinstance(value, Mapping | Choice):
        return (value,)
    if isinstance(value, list) and not value:
        raise ValueError("must name at least one policy (`none` for no limit)")
    if not isinstance(value, list | tuple):
        raise ValueError("must be a policy ({policy: NAME}), or a list of them")
    return tuple(value)


class RouteRule(Choice):
    """A route policy for matching requests."""

    match: Match = Match()
    """The requests that the rule applies to."""


class ModeRule(Section):
    """A mode for the applications of some queues, or for a part of them."""

    queue: Globs = ("*",)
    """YARN queues, as globs; a queue stands for those below it too."""
    mode: Mode
    """Active, shadow (decide and record, change nothing) or bypass (bytes pass as they are)."""
    percent: float = Field(100.0, ge=0, le=100)
    """Percent of the applications that earlier entries left, chosen by their ids: the same one always gets the same
    answer, and a higher percentage keeps the earlier ones."""

    def takes(self, app_id: str) -> bool:
        """Return whether an application is in this rule's part; raising `percent` keeps those that were."""
        return _drawn(f"{self.mode} {' '.join(self.queue)} {app_id}") < self.percent


def _drawn(key: str) -> float:
    """Return a percentage below 100 that depends on the key alone."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) / 2**64 * 100


def _at_any_time(match: Match) -> Match:
    if match.progress != Progress():
        raise ValueError("cannot have progress here: a hint is for the whole job; progress is for routes")
    return match


class Hint(Section):
    """Expected run time of matching tasks, from the admin's knowledge."""

    match: Annotated[Match, AfterValidator(_at_any_time)] = Match()
    """The requests that the hint applies to; without `progress`."""
    expected_s: float = Field(gt=0, allow_inf_nan=False)
    """Expected duration of a task."""


class Estimate(Section):
    """Expected durations of tasks: the estimate before their siblings completed, and its weight afterwards."""

    default_s: float = Field(10.0, gt=0, allow_inf_nan=False)
    """Expected duration of a task about which nothing is known."""
    rules: tuple[Hint, ...] = ()
    """Hints; the first that matches counts."""
    tags: bool = True
    """Whether applications may name durations in their tags (`expected_s:12`), which count before the rules."""
    doubt_tags: bool = True
    """Whether tags of users whose tags were wrong before are corrected, and weigh less (own; Mercury §4.1)."""
    prior_weight: float = Field(3.0, ge=0, le=1000, json_schema_extra={"unit": "tasks"})
    """Completed siblings that a hint, or the durations of earlier jobs of the name, counts as; 0: the first completed
    sibling decides (own)."""
    history_tasks: int = Field(1000, ge=2, le=1_000_000, json_schema_extra={"unit": "tasks"})
    """Durations stored for a job name count as at most this number of tasks, so that old ones fade (own)."""
    node_tasks: int = Field(32, ge=0, le=10_000, json_schema_extra={"unit": "tasks"})
    """Number of ended tasks from which a node's slowness relative to the others is estimated; its waits and run times
    are multiplied by it. 0: all nodes count as equal (own; Mercury §7.2.3 has such nodes)."""


class Notice(Section):
    """How application masters hear of containers that will be taken from them, before they are killed."""

    wait_s: float = Field(0.0, ge=0, le=60)
    """Time between YARN's preemption message to the application master and the kill; 0: no message, killed at once. A
    guaranteed container that needs the room waits for as long (YARN's own schedulers wait 15 s)."""
    type: Globs = ("MAPREDUCE", "YARN")
    """Application types that get it, as globs; containers of others are killed at once. The masters of Spark, Tez and
    Flink do not read the message."""


class Protection(Section):
    """A minimum run time of containers in some queues."""

    queue: Globs = ("*",)
    """YARN queues, as globs; a queue stands for those below it too."""
    protect_s: float = Field(gt=0, le=86_400)
    """Containers that have run for less are killed for room or memory only where the others do not suffice, and are
    not taken back by a policy of the slot admit."""


class PolicySet(Section):
    """Policies that go together: the `policies:` section without its alternatives, or one of those."""

    preset: PresetName | None = None
    """Preset below these settings (`quicksilver policy presets` shows all): it counts where they say nothing."""
    queues: Globs = ()
    """YARN queues whose containers may be queueable, as globs; an empty list for none, "*" for all."""
    mode: Mode = "active"
    """Mode of the applications that no entry of modes takes."""
    modes: tuple[ModeRule, ...] = ()
    """Modes by queue and percent of applications; the first that takes an application counts."""
    routes: tuple[RouteRule, ...] = ()
    """Route policies; the first matching rule counts, and a request without a match is guaranteed."""
    classify: Choice = Choice(policy="none")
    """Which class a job is of: short, long or none."""
    partition: Choice = Choice(policy="none")
    """Which nodes are kept for short jobs."""
    dispatch: Choice = Choice(policy="none")
    """Which application gets the next free place, of those whose containers wait at the proxy."""
    probe: Choice = Choice(policy="none")
    """On which nodes an application reserves turns in the queue, instead of binding its containers early."""
    place: Choice = Choice(policy="topk_wait")
    """Where a queueable container waits."""
    match: Choice = Choice(policy="none")
    """How the containers of one request are paired with the nodes that `place` finds best."""
    order: Choice = Choice(policy="job_submission")
    """Which waiting container starts first."""
    fill: Choice = Choice(policy="none")
    """Which waiting containers start in room that the first of the queue does not fit into."""
    preempt: Choice = Choice(policy="kill_newest")
    """Which queueable containers make room for a guaranteed one."""
    notice: Notice = Notice()
    """What application masters hear before containers of theirs are killed."""
    protect: tuple[Protection, ...] = ()
    """Minimum run times by YARN queue; the first entry that has the queue counts."""
    headroom: Choice = Choice(policy="by_framework")
    """The headroom that is reported to applications."""
    quota: Annotated[tuple[Choice, ...], BeforeValidator(_choices)] = (Choice(policy="queue_share"),)
    """How many queueable containers there may be: one policy or a list of them, of which each has to allow it."""
    admit: Choice = Choice(policy="none")
    """Which applications are in service as a whole; or which queueable containers have a token and go guaranteed, and
    how many without one an application may have."""
    shed: Choice = Choice(policy="none")
    """How much may wait at a node; containers beyond it are shed and asked for again."""
    steal: Choice = Choice(policy="none")
    """Which waiting containers of other nodes an idle node takes over."""
    correct: Choice = Choice(policy="none")
    """When a waiting container moves to a better node."""
    police: Choice = Choice(policy="none")
    """Limit to queueable containers on a node."""
    promote: Choice = Choice(policy="none")
    """When a running queueable container becomes guaranteed."""
    estimate: Estimate = Estimate()
    """Expected durations of tasks."""
    straggler_ratio: float = Field(0.0, ge=0)
    """A node where a container of an application has run this many times as long as expected gets the next ones of
    it last, such as a second copy of that task (MapReduce's speculative attempts). Durations have to be known; 0: off
    (Apollo, OSDI '14, §3.4; figure own)."""
    retries_to_g: int = Field(3, ge=0)
    """A task whose queueable containers were shed or killed more often than this is asked for as guaranteed."""


_NAME: Final = r"^[A-Za-z][A-Za-z0-9_.-]{0,59}$"
Name = Annotated[str, Field(pattern=_NAME)]
"""A letter, then letters, digits, `_`, `.` or `-`; 60 characters at most."""
MAX_ALTERNATIVES: Final = 20


class Rollout(Section):
    """An alternative for the applications of some queues, or for a part of them."""

    queue: Globs = ("*",)
    """YARN queues, as globs; a queue stands for those below it too."""
    percent: float = Field(100.0, ge=0, le=100)
    """Percent of the applications that earlier entries left, chosen by their ids: the same one always gets the same
    answer, and a higher percentage keeps the earlier ones."""
    use: str
    """Name of the alternative (a key of policies.alternatives)."""

    def takes(self, app_id: str) -> bool:
        """Return whether an application is in this part; raising `percent` keeps those that were."""
        return _drawn(f"rollout {self.use} {' '.join(self.queue)} {app_id}") < self.percent


def _cron(value: object) -> object:
    if isinstance(value, str) and len(value.split()) != 5:
        raise ValueError("must have five fields (minute hour day month weekday), such as '0 20 * * mon-fri'")
    return value


class Window(Section):
    """A time in which an alternative is in force."""

    name: Name
    """Its name in records and metrics."""
    cron: Annotated[str, BeforeValidator(_cron)]
    """When it begins, as crontab has it: minute, hour, day, month, weekday (0 and 7 are Sunday, or mon to sun).
    Day and weekday must both fit."""
    length_s: float = Field(gt=0, le=366 * 86400.0)
    """How long it lasts; a begin within it prolongs it."""
    drain_s: float = Field(0.0, ge=0, le=86400.0)
    """Time before its begin and its end in which only containers that the next settings allow become queueable."""
    queue: Globs = ("*",)
    """YARN queues, as globs; choices that concern a node as a whole change only in a window of all queues (`*`)."""
    use: str
    """Name of the alternative (a key of policies.alternatives)."""


class PoliciesSection(PolicySet):
    """The `policies:` section."""

    alternatives: dict[Name, dict[str, Any]] = Field({}, max_length=MAX_ALTERNATIVES)
    """By name: keys of this section that replace those of the base; used by rollout, windows and shadow. 20 at most,
    and without `alternatives`, `rollout`, `windows`, `time_zone` and `shadow`."""
    rollout: tuple[Rollout, ...] = ()
    """Alternatives for some applications; the first entry that takes an application counts."""
    windows: tuple[Window, ...] = ()
    """Alternatives for some times; of those that are open, the first that has the application's queue counts."""
    time_zone: str = ""
    """Time zone of the windows, such as Europe/Berlin; empty for the machine's own."""
    shadow: tuple[str, ...] = ()
    """Alternatives whose decisions are computed beside the real ones, which they never change."""
