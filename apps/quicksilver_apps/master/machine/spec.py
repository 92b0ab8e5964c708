"""The description of an application as the master reads it: application.json, without pydantic.

Names, defaults and units are those of `quicksilver_apps.description.model`, which checked the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

FIRST_PRIORITY: Final = 10
"""YARN request priority of the first service; each later one has the next number."""


class DescriptionError(Exception):
    """application.json or resources.json is not what the submitter writes."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of each instance; `number` 0: a free one of its node."""

    name: str
    number: int = 0
    link: str = ""


@dataclass(frozen=True, slots=True)
class Constraints:
    """Where instances may run."""

    nodes: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    label: str = ""
    strict: bool = True


@dataclass(frozen=True, slots=True)
class Ready:
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
class Restart:
    """What follows the end of an instance that was not asked for."""

    policy: str = "on-failure"
    limit: int = 3


@dataclass(frozen=True, slots=True)
class Service:
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
    ports: tuple[Port, ...] = ()
    constraints: Constraints = Constraints()
    after: tuple[str, ...] = ()
    ready: Ready = Ready()
    restart: Restart = Restart()
    main: bool = False


@dataclass(frozen=True, slots=True)
class Application:
    """A whole application."""

    name: str
    app_class: str
    services: tuple[Service, ...]


def read(data: Mapping[str, Any]) -> Application:
    """Return the application of application.json. Raises DescriptionError."""
    try:
        common = dict(data.get("environment", {}))
        services = tuple(_service(FIRST_PRIORITY + at, entry, common) for at, entry in enumerate(data["services"]))
        return Application(data["name"], data.get("class", "batch"), services)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DescriptionError(
            f"application.json is not a filled description ({type(error).__name__}: {error}); "
            "submit it with `quicksilver app submit`, which checks it."
        ) from error


def _service(priority: int, data: Mapping[str, Any], common: Mapping[str, str]) -> Service:
    constraints = dict(data.get("constraints", {}))
    for name in ("nodes", "racks"):
        constraints[name] = tuple(constraints.get(name, ()))
    plain = {key: data[key] for key in ("core", "elastic", "image", "main") if key in data}
    return Service(
        name=data["name"],
        priority=priority,
        command=data["command"],
        memory_mb=int(data["resources"]["memory_mb"]),
        vcores=int(data["resources"].get("vcores", 1)),
        environment={**common, **data.get("environment", {})},
        ports=tuple(Port(**port) for port in data.get("ports", ())),
        constraints=Constraints(**constraints),
        after=tuple(data.get("after", ())),
        ready=Ready(**data.get("ready", {})),
        restart=Restart(**data.get("restart", {})),
        **plain,
    )
