"""Messages between proxy and sidecars, as pydantic models; JSON on the wire.

The sidecar sends a `Report` to the proxy regularly and on change, and gets an `Ack`: on a kept connection as what
changed (`quicksilver.common.reports`), or by a POST to `/v1/nodes/{node_id}/report`.
The proxy sends `Grants` on that connection, or posts them to the sidecar's `/v1/grants`, before the application master
hears of them.
Container events stay in the report until they are acknowledged, and are counted once by (boot, seq).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer


class Message(BaseModel):
    """Base of the messages; unknown keys of a newer version are ignored: daemons are upgraded one by one."""

    model_config = ConfigDict(extra="ignore")


class Grant(Message):
    """A queueable container that the proxy announces to the sidecar of its node."""

    container_id: str
    app_id: str
    attempt_id: str
    app_type: str = "YARN"
    queue: str = ""
    user: str = ""
    priority: int = 0
    precedence: int = 0
    app_priority: int = 0
    queue_priority: int = 0
    job_submitted_s: float = 0.0
    """Unix time."""
    expected_s: float = 10.0
    spread_s: float = Field(0.0, ge=0)
    """Standard deviation of what its siblings took; 0 when not known."""
    job_remaining_s: float = Field(0.0, ge=0)
    """Task-seconds that the job has left, by estimates."""
    sheds: int = Field(0, ge=0)
    """How often its task was shed or killed before."""
    memory_mb: int = Field(ge=0)
    vcores: float = Field(ge=0)
    max_hold_s: float = Field(gt=0)
    """How long the sidecar may hold the start; the token's expiry may be sooner."""
    core_wait_s: float = Field(0.0, ge=0)
    """How long its start waits for a core of its own; without one it is shed then. 0: it needs none."""
    known: bool = True
    """Whether the ResourceManager knows it; without that its start waits until `Grants.known` names it."""


class MasterKeyMessage(Message):
    """A master key of the ResourceManager; `secret`: its bytes, base64."""

    key_id: int
    secret: SecretStr = Field(min_length=4, max_length=256)

    @field_serializer("secret", when_used="json")
    def _shown(self, secret: SecretStr) -> str:
        return secret.get_secret_value()


class NodeKeysMessage(Message):
    """The master keys that a NodeManager has, from its tracker relay."""

    container: MasterKeyMessage
    nm: MasterKeyMessage
    rm_identifier: int = Field(0, ge=0)
    """Start time (ms) of the ResourceManager at which it registered; 0 where the relay did not see that."""


class Grants(Message):
    """New grants for a node, and containers whose held starts are to be dropped (released, attempt gone)."""

    grants: list[Grant] = []
    known: list[str] = []
    """Containers that the ResourceManager knows by now: their starts may go."""
    drop: list[str] = []
    drop_reason: str = ""


class EventKind(StrEnum):
    """Kind of an event of a container at its node."""

    HELD = "held"
    """The start was answered and waits."""
    STARTED = "started"
    """The NodeManager accepted the start."""
    ENDED = "ended"
    """Its process is gone."""
    SHED = "shed"
    """It never started: hold limit, full queue, draining; ask for it again."""
    KILLED = "killed"
    """It ran and was stopped by the sidecar to make room."""
    STOPPED = "stopped"
    """The application master stopped it while it waited."""
    FAILED = "failed"
    """The NodeManager refused the late start; `reason` has its text."""
    LOST = "lost"
    """The session with the NodeManager was lost before the start, the token expired, the sidecar restarted, or the
    NodeManager lost it in its own restart."""


SHED_CAUSES: Final = frozenset(
    ("hold", "late", "full", "drain", "shed", "police", "steal", "correct", "quota", "restart", "admit", "proxy")
)
KILL_CAUSES: Final = frozenset(("room", "memory", "queued", "admit", "drain", "proxy"))


class ContainerEvent(Message):
    """One event; `seq` grows with each event of one boot of the sidecar."""

    seq: int
    container_id: str
    kind: EventKind
    at_s: float
    reason: str = ""
    am: bool = False
    """Whether it is an application master."""
    cause: str = ""
    """The cause in one word.

    For SHED and KILLED one of SHED_CAUSES and KILL_CAUSES; for ENDED the container for which it was shrunk last.
    """
    waited_s: float = 0.0
    ran_s: float | None = None
    """Wall time from start to end, for ENDED and KILLED."""
    attained_s: float | None = None
    """CPU seconds that it was given by then; None when not measured."""
    times_shrunk: int = Field(0, ge=0)
    saved_s: float = Field(0.0, ge=0)
    """CPU seconds that kills in place of its shrinks would have lost, for ENDED."""


class ContainerState(StrEnum):
    """The state of a container at its node."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SHRUNK = "shrunk"
    """It runs, but gave way: it has a sliver of CPU, or none."""


class ContainerReport(Message):
    """A container that the sidecar knows of."""

    container_id: str
    app_id: str
    kind: str
    """G or Q."""
    state: ContainerState
    memory_mb: int
    vcores: float
    priority: int = 0
    since_s: float = 0.0
    """Seconds in this state."""
    expected_s: float = 0.0
    starts_in_s: float | None = None
    """For a waiting one: when it will start, by estimates, from now."""
    bypassed_s: float = 0.0
    """Expected work of later containers that were started before it."""
    why: str = ""
    """For a waiting one: the reason why it waits; for a shrunk one: why it was shrunk."""
    attained_s: float | None = None
    """CPU seconds that it was given; None when not measured."""
    cores: float | None = None
    """Cores that a shrunk one may use; None: its full limits."""
    times_shrunk: int = 0
    shrunk_by: str = ""
    """The container that took its place last."""
    shrunk_ago_s: float | None = None
    """Seconds since it was shrunk last; None when it never was."""
    am: bool = False
    """Whether it is an application master."""
    kill_in_s: float | None = None
    """When it will be killed, from now: its application master is to hear of it before. None: nobody intends it."""


class Draining(Message, extra="forbid"):
    """Whether a node is to hold starts."""

    on: bool
    reason: str = Field("draining", max_length=500)
    timeout_s: float | None = Field(None, ge=1, le=7 * 86_400)
    """Time after which the queueable containers that still run there are killed; None: they run to their ends."""


class WaitBySize(Message):
    """How long a container of a size would wait behind a node's queue (Apollo §3.2, one cell of the matrix)."""

    memory_mb: int = Field(ge=0)
    vcores: float = Field(ge=0)
    wait_s: float = Field(ge=0)


class Comparison(Message):
    """What an alternative of `policies.shadow` would have decided at a node, in one slot."""

    alternative: str
    slot: str
    """order, fill or preempt."""
    since_s: float = 0.0
    """When the counts began, Unix seconds: when the sidecar began to use its settings."""
    decisions: int = Field(0, ge=0)
    differ: int = Field(0, ge=0)
    faults: int = Field(0, ge=0)
    chosen: str = ""
    """The last decision of the policy in force that differs, in few words."""
    other: str = ""
    """What the alternative would have decided in its place."""
    fault: str = ""
    """The last fault."""


class Report(Message):
    """State of a node at the sidecar."""

    node_id: str
    boot: str
    """A random name of the sidecar's journal; event numbers start again with it."""
    seq: int
    sidecar_url: str
    """Where the proxy reaches this sidecar's REST, e.g. http://10.0.0.7:8391."""
    memory_mb: int
    vcores: float
    used_g_mb: int = 0
    used_g_vcores: float = 0
    used_q_mb: int = 0
    used_q_vcores: float = 0
    free_physical_mb: int = 0
    queue_length: int = 0
    ahead: int = 0
    """How many in the queue were bound ahead and still wait for a core of their own."""
    queued_s: float = 0.0
    remaining_s: float = 0.0
    since_queueable_s: float = 0.0
    slots: int = 0
    """Containers that the node starts at once (N + Q of Kairos)."""
    fences: bool = False
    """Whether this sidecar starts no container of the proxy's own before the ResourceManager knows it."""
    attained_sd_s: float = 0.0
    """Standard deviation of the service that its containers have attained."""
    waits: list[WaitBySize] = Field([], max_length=64)
    """Waits by size, where the `place` policy looks at them."""
    attained_sum_s: float = 0.0
    """What they have attained together."""
    draining: bool = False
    drain_reason: str = ""
    empty_in_s: float | None = None
    """When the queueable containers that still run here are killed, from now; None where the node is not drained with
    a time limit."""
    nm_down: str = ""
    """Why its NodeManager takes no starts; "" when it does."""
    containers: list[ContainerReport] = []
    events: list[ContainerEvent] = []
    release: list[str] = []
    """Containers that were killed here and that no session can stop: the ResourceManager has to end them."""
    compared: list[Comparison] = Field([], max_length=60)
    """How alternatives in shadow compare here; the counts grow from report to report."""
    version: str = ""
    """The sidecar's."""
    settings_version: str = ""
    """Number and digest of the settings that the sidecar uses, and the windows that are open."""
    limits: list[str] = []
    """Limitations of this sidecar and their reasons (not root, no pid files ...)."""


class Expected(Message):
    """How long tasks of an application and request priority are expected to run, as far as is known by now."""

    app_id: str
    priority: int
    expected_s: float = Field(ge=0)
    spread_s: float = Field(0.0, ge=0)
    """Standard deviation; 0 when not known."""


class Targets(Message):
    """The coordinator's limits for a node until the next answer; None: no limit (Mercury §3, the Coordinator)."""

    max_wait_s: float | None = Field(None, ge=0)
    """Containers that are estimated to start later than this are shed from the end of the queue."""
    max_queue: int | None = Field(None, ge=0)
    """Containers beyond this number are shed from the end of the queue."""
    shed_reason: str = ""
    max_sheds: int = Field(2, ge=0)
    """A task that was shed or killed this many times is not shed again."""
    max_share_ratio: float = Field(1.0, gt=0, le=1)
    """At most this share of the queue is shed within a second, but always one container."""
    settle_s: float = Field(0.0, ge=0)
    """Containers that have waited less than this are not shed."""
    limit_q_mb: int | None = Field(None, ge=0)
    """Queueable containers start only while they use no more memory than this."""
    limit_q_vcores: float | None = Field(None, ge=0)
    limit_reason: str = ""
    job_remaining_s: dict[str, float] = {}
    """Remaining task-seconds of the applications that wait here, by application id."""
    job_attained_s: dict[str, float] = {}
    """Service over all nodes, in seconds of run time, of the applications whose queueable containers share this node's
    cores, by application id; empty while they are all of one level, so that only their own service counts."""
    spared: list[str] = []
    """Those of them of which as many containers gave way as may: containers of others give way first."""
    over_share: list[str] = []
    """Applications here with more elastic containers than their share: theirs are killed before others' for room."""
    expected: list[Expected] = []
    """Of containers here, guaranteed ones too, where it is not what the sidecar reported; it holds from now on."""


class Shed(Message):
    """A waiting container that is to be shed, so that its task can start elsewhere or as guaranteed.

    With the cause admit one that runs is killed.
    """

    container_id: str
    cause: str
    """steal, correct, quota, restart or admit."""
    reason: str = ""


class Ack(Message):
    """The proxy's answer to a report."""

    events_to: int
    """The proxy has handled the events with a `seq` up to here, and the application masters know the results."""
    active: bool = True
    """Whether the proxy serves application masters; the rest of a standby's answer has no meaning."""
    drop: list[str] = []
    drop_reason: str = ""
    known: list[str] = []
    """As in `Grants`."""
    targets: Targets | None = None
    """None when the proxy has none for this node (yet); the sidecar keeps what it had for `targets_keep_s`."""
    shed: list[Shed] = []
    drain: str | None = None
    """Why YARN wants nothing held there (decommissioning, unhealthy, lost); "" when it does not, None when unknown."""
    promoted: list[str] = []
    """Containers that the ResourceManager made guaranteed."""


class ReloadRequest(Message, extra="forbid"):
    """A command to reload the settings: its user, and the file."""

    who: str = Field("", max_length=100)
    """The user on whose behalf the command was given; the peer's address is added."""
    command: bool = False
    """Whether it comes from `quicksilver policy reload`."""
    file: str = Field("", max_length=1000)
    """Another settings file, in the directory of the one in use; "" for that one."""
    nodes: bool = False
    """At the proxy: reload the settings of all nodes' sidecars too."""
    expect: str = Field("", max_length=100)
    """At the proxy: digest that a check of the file answered; a file with other settings is refused. "" for any."""


class CheckRequest(Message, extra="forbid"):
    """A question: what would a reload change?"""

    file: str = Field("", max_length=1000)
    """As in a reload."""


class SettingChange(Message):
    """One setting that changed; values as JSON, "" where there is none."""

    path: str
    before: str
    after: str


class NodeReload(Message):
    """A sidecar's answer to a reload."""

    node_id: str
    ok: bool
    version: str = ""
    error: str = ""
    changes: list[SettingChange] = []
    kept: list[str] = []


class ReloadAnswer(Message):
    """Result of a reload."""

    file: str
    version: str
    """Of the settings that are in use now."""
    before: str
    """Of those that were."""
    digest: str = ""
    """Of the settings in the file."""
    changes: list[SettingChange] = []
    kept: list[str] = []
    """Changes in the file that did not take effect, with the reason."""
    notes: list[str] = []
    warnings: list[str] = []
    """As `quicksilver policy check` gives them."""
    nodes: list[NodeReload] = []
