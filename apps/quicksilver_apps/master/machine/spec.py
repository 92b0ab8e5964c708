"""The description of an application as the master reads it: application.json, without pydantic.

Names, defaults and units are those of `quicksilver_apps.description.model`, which checked the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FIRST_PRIORITY: Final = 10
"""YARN request priority of the first service; each later one has the next number."""


class SpecError(Exception):
    """application.json or resources.json is not what the submitter writes."""


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port of each instance; `number` 0: a free one of its node."""

    name: str
    number: int = 0
    link: str = ""


@dataclass(frozen=True, slots=True)
class ConstraintsSpec:
    """Where instances may run."""

    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    label: str = ""
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ReadySpec:
    """How an instance shows that it works."""

    port: str = ""
    log: str = ""
    command: str = ""
    timeout_s: float = 120.0
    every_s: float = 1.0

    @property
    def checked(self) -> bool:
        """Whether anything is checked; otherwise an instance is ready once its process runs."""
        return bool(self.port or self.log or self.command)


@dataclass(frozen=True, slots=True)
class RestartSpec:
    """What follows the end of an instance that was not asked for."""

    policy: str = "on-failure"
    limit: int = 3


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A kind of process. `priority` is its YARN request priority."""

    name: str
    priority: int
    command: str
    memory_mb: int
    vcores: int = 1
    core: int = 0
    elastic: int = 0
    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[PortSpec, ...] = ()
    constraints: ConstraintsSpec = ConstraintsSpec()
    after: tuple[str, ...] = ()
    ready: ReadySpec = ReadySpec()
    restart: RestartSpec = RestartSpec()
    main: bool = False


@dataclass(frozen=True, slots=True)
class FilledApplication:
    """A whole application."""

    name: str
    app_class: str
    services: tuple[ServiceSpec, ...]


def read(data: Mapping[str, Any]) -> FilledApplication:
    """Return the application of application.json. Raises DescriptionError."""
    try:
        common = dict(data.get("environment", {}))
        services = tuple(_service(FIRST_PRIORITY + at, entry, common) for at, entry in enumerate(data["services"]))
        return FilledApplication(data["name"], data.get("class", "batch"), services)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SpecError(
            f"application.json is not a filled description ({type(error).__name__}: {error}); "
            "submit it with `quicksilver app submit`, which checks it."
        ) from error


def _service(priority: int, data: Mapping[str, Any], common: Mapping[str, str]) -> ServiceSpec:
    constraints = dict(data.get("constraints", {}))
    for name in ("nodes", "racks"):
        constraints[name] = tuple(constraints.get(name, ()))
    plain = {key: data[key] for key in ("core", "elastic", "image", "main") if key in data}
    return ServiceSpec(
        name=data["name"],
        priority=priority,
        command=data["command"],
        memory_mb=int(data["resources"]["memory_mb"]),
        vcores=int(data["resources"].get("vcores", 1)),
        environment={**common, **data.get("environment", {})},
        ports=tuple(PortSpec(**port) for port in data.get("ports", ())),
        constraints=ConstraintsSpec(**constraints),
        after=tuple(data.get("after", ())),
        ready=ReadySpec(**data.get("ready", {})),
        restart=RestartSpec(**data.get("restart", {})),
        **plain,
    )
