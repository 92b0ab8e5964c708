"""What a description of an application says (Zoe, §2.1 and §5): services, core or elastic, and what each one needs.

Memory in MB (2**20 bytes), CPU in vcores, times in seconds. `reader.read` makes an `Application` of a file;
`quicksilver app check` prints its mistakes with their lines.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints

from policies.settings_model import SettingsModel

FORMAT_VERSION: Final = 1
"""The version of the format that this program writes; older ones are read."""
FIRST_PRIORITY: Final = 10
"""YARN request priority of the first service in the order of starts; each later one has the next number."""
MAX_QUEUE_CHARACTERS: Final = 200
"""Of the name or path of a queue."""
CORES_IN_A_TAG: Final = 9
"""YARN's tags have 100 characters at most; a priority and a count take up to 10."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
"""A small letter, then small letters, digits or `-`; 40 characters at most: it becomes a part of file names."""
QueueName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f,]*$", max_length=MAX_QUEUE_CHARACTERS)]
"""A leaf of the scheduler, or its path."""
Environment = dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]


class Part(SettingsModel):
    """Base of the parts: frozen, and unknown keys are errors; the docstring under a field describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AppClass(StrEnum):
    """The kind of an application (Zoe, §4.1)."""

    BATCH = "batch"
    INTERACTIVE = "interactive"
    """A person waits: with `admit: preemptive` it goes before batch applications."""


class Parameter(Part):
    """A value that is given when the application is submitted; `${parameters.NAME}` stands for it in strings."""

    type: Literal["string", "integer", "number", "boolean"] = "string"
    """Type of its values."""
    default: str | int | float | bool | None = None
    """Its value when none is given; without one a value has to be given."""
    description: str = ""
    """For people who submit."""
    choices: tuple[str | int | float, ...] = ()
    """Empty: any value of the type."""


class File(Part):
    """A file that YARN localises into the working directory of each instance."""

    source: str
    """`hdfs://..`, `file:///..` that all nodes see, or a local path, from the folder of the description, to upload."""
    name: str = ""
    """Its name in the working directory; "": the last part of the source."""
    kind: Literal["file", "archive"] = "file"
    """An archive (.zip, .tar.gz, .tgz, .tar, .jar) is unpacked into a folder of this name."""


class Port(Part):
    """A port that an instance listens on; its number is in the environment variable `PORT_NAME`."""

    name: Name
    """By which variables, `ready.port` and lists call it."""
    number: int = Field(0, ge=0, le=65535)
    """0: the instance gets a free one of its node."""
    link: str = ""
    """For people: `http` or `https` makes a link of it; a path may follow, such as `http/lab`."""


class Constraints(Part):
    """Where instances may run."""

    nodes: tuple[str, ...] = ()
    """Host names; empty: any."""
    racks: tuple[str, ...] = ()
    """Names of racks as YARN has them, such as `/rack1`; empty: any."""
    label: str = ""
    """YARN node label; "": the default partition of the queue."""
    strict: bool = True
    """Whether it may run nowhere else; otherwise nodes and racks are preferences."""


class Ready(Part):
    """How an instance shows that it works; the first of port, log and command that is named counts.

    Without any, an instance is ready once its process runs.
    """

    port: str = ""
    """Name of one of its ports that accepts connections."""
    log: str = ""
    """Regular expression that a line of its standard output or error matches."""
    command: str = ""
    """Shell command that ends with 0, run in its working directory and environment."""
    timeout_s: float = Field(120.0, gt=0)
    """An instance that is not ready by then has failed."""
    every_s: float = Field(1.0, gt=0)
    """Time between two looks."""


class Restart(Part):
    """What follows the end of an instance that was not asked for."""

    policy: Literal["never", "on-failure", "always"] = "on-failure"
    """Whether an instance is started again: never, after an exit status that is not 0, or always."""
    limit: int = Field(3, ge=0, le=1_000_000)
    """Restarts of one instance before the service has failed. A core service that failed fails the application; a
    failed elastic instance is given up (Zoe, §5). Preempted and lost containers do not count."""


class ServiceResources(Part):
    """What one instance needs."""

    memory_mb: int = Field(ge=1, le=10_000_000)
    """Memory of its container, which YARN rounds up to its own step; YARN ends a container that uses more."""
    vcores: int = Field(1, ge=1, le=100_000)
    """Virtual cores, as YARN counts them."""


class Service(Part):
    """A kind of process: some instances are core, others elastic."""

    name: Name
    """Unique among the services; variables of others begin with it."""
    core: int = Field(0, ge=0, le=100_000)
    """Instances without which the application makes no progress; they are guaranteed containers."""
    elastic: int = Field(0, ge=0, le=100_000)
    """Further instances at most, which come and go as there is room."""
    command: str = Field(min_length=1)
    """Shell command; its exit status is that of the instance."""
    image: str = ""
    """Docker image, for NodeManagers with YARN's Docker runtime; "": the node itself."""
    resources: ServiceResources
    """What each instance needs."""
    environment: Environment = Field({})
    """Variables of its instances; they come before those of the whole application."""
    ports: tuple[Port, ...] = ()
    """Ports that each instance listens on."""
    files: tuple[File, ...] = ()
    """Files in the working directory of each instance, besides those of the whole application."""
    constraints: Constraints = Constraints()
    """Where its instances may run."""
    after: tuple[Name, ...] = ()
    """Services whose core instances have to be ready before an instance of this one is started."""
    ready: Ready = Ready()
    """How an instance shows that it works."""
    restart: Restart = Restart()
    """What follows the end of an instance."""
    main: bool = False
    """Whether the application ends when the instances of this service have ended by themselves; with status 0 of all it
    succeeded. Without any main service it ends once all services have, or when it is killed."""


class Application(Part):
    """A whole application, checked; after `templates.fill` no `${parameters...}` is left."""

    version: Literal[1]
    """Version of this format."""
    name: Name
    """Name of the YARN application."""
    title: str = Field("", max_length=200)
    """For people; "": the name."""
    app_class: AppClass = Field(AppClass.BATCH, alias="class")
    """A person waits for an interactive one: with `admit: preemptive` it goes before batch applications."""
    queue: QueueName = ""
    """YARN queue; "": that of the submitter."""
    priority: int = Field(0, ge=0, le=1000)
    """YARN application priority."""
    expected_s: float | None = Field(None, gt=0)
    """How long it runs with all of its elastic instances; by it SJF, SRPT and HRRN order applications."""
    labels: dict[str, str] = Field({})
    """For people and lists; YARN does not know them."""
    parameters: dict[Name, Parameter] = Field({})
    """Values that are given when it is submitted, by name."""
    environment: Environment = Field({})
    """Variables of the instances of all services."""
    files: tuple[File, ...] = ()
    """Files in the working directory of each instance of all services."""
    services: tuple[Service, ...] = Field(min_length=1, max_length=50)
    """Kinds of processes, in the order in which they get containers."""
    master: ServiceResources = ServiceResources(memory_mb=256, vcores=1)
    """What the application master needs."""
    attempts: int = Field(2, ge=1, le=10)
    """Application masters at most, one after the other: a new one follows one that failed."""
    idle_s: float | None = Field(None, gt=0)
    """Elastic instances whose CPU use stays below 5 % for this time are given back; without a value: as the
    cluster has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)

    def priority_of(self, service: str) -> int:
        """Return the YARN request priority of a service: its place in the list, from FIRST_PRIORITY on.

        Raises KeyError for a service that it has not.
        """
        for number, each in enumerate(self.services):
            if each.name == service:
                return FIRST_PRIORITY + number
        raise KeyError(service)

    def tags(self) -> tuple[str, ...]:
        """Return the YARN application tags from which a proxy knows what is core, how long it runs, and its class.

        `core:PRIORITY=COUNT/PRIORITY=COUNT`, in several tags where one would be too long for YARN; then
        `runtime_s:SECONDS`, `class:interactive`, `idle_s:SECONDS`.
        """
        cores = [f"{self.priority_of(each.name)}={each.core}" for each in self.services if each.core]
        core_tags = [f"core:{'/'.join(cores[at : at + CORES_IN_A_TAG])}" for at in range(0, len(cores), CORES_IN_A_TAG)]
        runtime = [f"runtime_s:{self.expected_s:g}"] if self.expected_s is not None else []
        interactive = ["class:interactive"] if self.app_class is AppClass.INTERACTIVE else []
        idle = [f"idle_s:{self.idle_s:g}"] if self.idle_s is not None else []
        return (*core_tags, *runtime, *interactive, *idle)


def as_json(application: Application) -> dict[str, Any]:
    """Return a description as JSON data, without what is as by default; `Application.model_validate` reads it."""
    return application.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"version": FORMAT_VERSION}
