"""Reads ZApps, the descriptions of Zoe (versions 1 to 3 of its format), and makes descriptions of them.

Zoe's `essential_count` is our `core`, what `total_count` has beyond it is `elastic`, `startup_order` becomes `after`, a
`monitor` becomes a main service. What has no counterpart is named in a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from shlex import quote
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from quicksilver_apps.description.document import Document, parse_text, read_text
from quicksilver_apps.description.mistakes import DescriptionMistake, Steps
from quicksilver_apps.description.model import FORMAT_VERSION
from quicksilver_apps.description.reader import template_from_data
from quicksilver_apps.description.validation import validate
from quicksilver_apps.description.zapp_values import ServiceNames, export_lines, placeholders

NEWEST: Final = 3
"""The last version of Zoe's format that this module knows."""
DEFAULT_MEMORY_MB: Final = 1024
"""For services whose ZApp names no memory."""
_MB: Final = 1 << 20


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


class ZappPort(_Read):
    """A port: version 3 has `url_template` and the protocol tcp or udp, older ones `path` and that of a URL."""

    name: str
    port_number: int = Field(gt=0, lt=65536)
    protocol: str = "tcp"
    url_template: str = ""
    path: str = ""


class Range(_Read):
    """Limits of a resource."""

    min: float | None = Field(None, ge=0)
    max: float | None = Field(None, ge=0)


class ZappResources(_Read):
    """Resources of version 3: memory in bytes."""

    memory: Range = Range()
    cores: Range = Range()


class OldResources(_Read):
    """Resources of versions 1 and 2: memory in bytes."""

    memory: int | None = None
    """-1: as much as there is."""


class ZappService(_Read):
    """A service of a ZApp, of any version."""

    name: str = Field(min_length=1)
    image: str = ""
    docker_image: str = ""
    command: str | None = None
    monitor: bool = False
    total_count: int = Field(1, ge=1)
    essential_count: int | None = Field(None, ge=0)
    startup_order: float = 0
    environment: list[list[str]] = []
    ports: list[ZappPort] = []
    resources: ZappResources = ZappResources()
    required_resources: OldResources = OldResources()
    labels: list[str] = []
    work_dir: str = ""
    replicas: int = 1


class Zapp(_Read):
    """A ZApp."""

    name: str = Field(min_length=1)
    version: int
    will_end: bool = True
    services: list[ZappService] = Field(min_length=1)
    disable_autorestart: bool = False


@dataclass(frozen=True, slots=True)
class ImportedZapp:
    """A description that was made of a ZApp."""

    data: dict[str, Any]
    """The description; its parameters may need values."""
    warnings: tuple[str, ...]
    """What was not carried over, or has another meaning here, as `PLACE: WHAT`."""


def import_zapp(path: Path | str) -> ImportedZapp:
    """Return the description that a file with a ZApp becomes. Raises DescriptionError with all mistakes."""
    path = Path(path)
    return convert_text(read_text(path), str(path))


def convert_text(text: str, name: str) -> ImportedZapp:
    """Return the description that the text of a ZApp becomes; `name` is what errors name. Raises DescriptionError."""
    document = parse_text(text, name)
    zapp = _checked(document)
    converter = _Converter(zapp)
    data = converter.data()
    wrong = template_from_data(data, f"{name} as a description").check().error
    if wrong is not None:
        raise wrong
    return ImportedZapp(
        data, tuple("".join(c if c.isprintable() else " " for c in warning) for warning in converter.warnings)
    )


def _checked(document: Document) -> Zapp:
    data = document.data
    if isinstance(data, Mapping) and "zapps" in data:
        problem = "is a manifest of Zoe's shop, which lists ZApps"
        raise document.error([DescriptionMistake(("zapps",), problem, "name the file of a ZApp itself", on_key=True)])
    zapp, mistakes = validate(Zapp, data)
    mistakes = [*document.mistakes, *mistakes]
    if zapp is None or mistakes:
        raise document.error(mistakes)
    mistakes = [*_meaning(zapp)]
    if mistakes:
        raise document.error(mistakes)
    return zapp


def _meaning(zapp: Zapp) -> Iterator[DescriptionMistake]:
    if not 1 <= zapp.version <= NEWEST:
        yield DescriptionMistake(
            ("version",), f"{zapp.version} is no version of ZApps that is known", "write 1, 2 or 3"
        )
    for number, service in enumerate(zapp.services):
        place: Steps = ("services", number)
        if not (service.image or service.docker_image):
            yield DescriptionMistake(
                (*place, "image"), "is missing", "add `image`, or `docker_image` in versions 1 and 2"
            )
        if (service.essential_count or 0) > service.total_count:
            problem = f"{service.essential_count} is more than total_count, {service.total_count}"
            yield DescriptionMistake((*place, "essential_count"), problem, "lower it")
        for at, pair in enumerate(service.environment):
            if len(pair) != 2:
                yield DescriptionMistake((*place, "environment", at), "is no [name, value]", "write two texts")


@dataclass
class _Converter:
    zapp: Zapp
    warnings: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the description."""
        zapp = self.zapp
        names = ServiceNames([service.name for service in zapp.services])
        after = self._after(names)
        services = [self._service(number, names, after[number]) for number in range(len(zapp.services))]
        self._not_carried("", zapp)
        name = names.clean(zapp.name)
        if not zapp.will_end:
            self.warnings.append(
                "will_end: false became `class: interactive`; write batch for a job that ends by itself"
            )
        return {
            "version": FORMAT_VERSION,
            "name": name,
            **({"title": zapp.name[:200]} if name != zapp.name else {}),
            "class": "batch" if zapp.will_end else "interactive",
            **({"parameters": self.parameters} if self.parameters else {}),
            "services": services,
        }

    def _not_carried(self, place: str, part: BaseModel) -> None:
        for key, value in (part.model_extra or {}).items():
            if value not in (None, [], {}, "", False):
                self.warnings.append(f"{place}{key}: is not carried over")

    def _service(self, number: int, names: ServiceNames, after: Sequence[str]) -> dict[str, Any]:
        service, place = self.zapp.services[number], f"services[{number}]."
        essential = service.total_count if service.essential_count is None else service.essential_count
        environment, exports = self._environment(service, names, after, place)
        restart = "never" if service.monitor or self.zapp.disable_autorestart else "on-failure"
        ports = self._ports(service, place)
        entry = {
            "name": names.of(number),
            "core": essential,
            "elastic": service.total_count - essential,
            "command": exports + self._command(number, names),
            "image": service.image or service.docker_image,
            "resources": self._resources(service, place),
            "environment": environment,
            "ports": ports,
            "constraints": self._constraints(service, place),
            "after": list(after),
            "restart": {"policy": restart} if restart != "on-failure" else {},
            "main": service.monitor,
        }
        if service.replicas != 1:
            self.warnings.append(f"{place}replicas: {service.replicas} is not carried over; total_count counts")
        self._not_carried(place, service)
        return {key: value for key, value in entry.items() if value or key == "core"}

    def _command(self, number: int, names: ServiceNames) -> str:
        service = self.zapp.services[number]
        folder = f"cd {quote(service.work_dir)} && " if service.work_dir else ""
        if service.command:
            self.warnings.append(
                f"services[{number}].command: Zoe runs it by the entry point of the image, which YARN does not use; "
                "write a whole shell command"
            )
            return folder + self._text(service.command)
        parameter = names.clean(f"command-{names.of(number)}")
        about = f"Shell command of service {names.of(number)}: the ZApp runs the one that its image has."
        self.parameters[parameter] = {"description": about}
        self.warnings.append(
            f"services[{number}].command: the ZApp has none and runs its image's; give parameter {parameter}"
        )
        return f"{folder}${{parameters.{parameter}}}"

    def _text(self, text: str) -> str:
        """Return a text with parameters in place of Zoe's placeholders."""
        text, parameters = placeholders(text)
        for name, description in parameters.items():
            self.parameters[name] = {"description": description}
        return text

    def _environment(
        self, service: ZappService, names: ServiceNames, after: Sequence[str], place: str
    ) -> tuple[dict[str, str], str]:
        """Return the variables, and shell text that sets those which name hosts, known only at the start."""
        plain: dict[str, str] = {}
        hosts: dict[str, str] = {}
        for name, value in service.environment:
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
                self.warnings.append(f"{place}environment: {name!r} is no name of a variable; it is not carried over")
            elif "{dns_name#" in value:
                hosts[name] = self._text(value)
            else:
                plain[name] = self._text(value)
        lines, wrong = export_lines(hosts, names, after)
        self.warnings += [f"{place}environment: {problem}" for problem in wrong]
        return plain, lines

    def _resources(self, service: ZappService, place: str) -> dict[str, int]:
        memory, cores = service.resources.memory, service.resources.cores
        limit = memory.max if memory.max is not None else memory.min
        bytes_ = limit if limit is not None else service.required_resources.memory
        if not bytes_ or bytes_ < 0:
            self.warnings.append(f"{place}resources.memory: there is none; {DEFAULT_MEMORY_MB} MB are assumed")
        if memory.min is not None and memory.max is not None and memory.min < memory.max:
            self.warnings.append(f"{place}resources.memory.min: is not carried over; YARN reserves the maximum")
        if cores.max is not None and cores.max > (cores.min or 0):
            self.warnings.append(f"{place}resources.cores.max: is not carried over; YARN has one number of vcores")
        for key, part in (("memory", memory), ("cores", cores), ("", service.resources)):
            self._not_carried(f"{place}resources.{key}{'.' if key else ''}", part)
        self._not_carried(f"{place}required_resources.", service.required_resources)
        memory_mb = max(1, ceil(bytes_ / _MB)) if bytes_ and bytes_ > 0 else DEFAULT_MEMORY_MB
        return {"memory_mb": memory_mb, "vcores": max(1, ceil(cores.min or 0))}

    def _ports(self, service: ZappService, place: str) -> list[dict[str, Any]]:
        ports: list[dict[str, Any]] = []
        names = ServiceNames([port.name for port in service.ports])
        for number, port in enumerate(service.ports):
            where = f"{place}ports[{number}]."
            if port.protocol.lower() == "udp":
                self.warnings.append(f"{where}protocol: udp is not carried over; ports are TCP")
            if service.total_count > 1:
                self.warnings.append(f"{where}port_number: two instances on one node would want the same port")
            link = self._link(port, where)
            ports.append({"name": names.of(number), "number": port.port_number, **({"link": link} if link else {})})
            self._not_carried(where, port)
        return ports

    def _link(self, port: ZappPort, place: str) -> str:
        """Return the link of a port: of `http://{ip_port}/path`, or of the older protocol and path."""
        if not port.url_template:
            return port.protocol + ("" if port.path in ("", "/") else port.path) if "http" in port.protocol else ""
        match = re.fullmatch(r"(https?)://\{ip_port\}(\{proxy_path\})?(/[!-z|~]*)?", port.url_template)
        if match is None:
            self.warnings.append(f"{place}url_template: {port.url_template!r} is not carried over; it is no http link")
            return ""
        if match[2]:
            self.warnings.append(f"{place}url_template: {{proxy_path}} is not carried over; there is no such proxy")
        return match[1] + ("" if match[3] in (None, "/") else match[3])

    def _constraints(self, service: ZappService, place: str) -> dict[str, str]:
        if len(service.labels) > 1:
            self.warnings.append(f"{place}labels: are not carried over; YARN nodes have one label")
        return {"label": service.labels[0]} if len(service.labels) == 1 else {}

    def _after(self, names: ServiceNames) -> list[list[str]]:
        """Return the services that each one starts after: those of a lower order, and those whose host it names."""
        services = self.zapp.services
        counts = [1 if each.essential_count is None else each.essential_count for each in services]
        waits = [
            {
                peer
                for peer, candidate in enumerate(services)
                if candidate.startup_order < service.startup_order and counts[peer]
            }
            for service in services
        ]
        for number, service in enumerate(services):
            for _, value in service.environment:
                for name in re.findall(r"\{dns_name#([^}]*)\}", value):
                    peer = names.counted(name)[0]
                    if peer is None or peer == number or not counts[peer]:
                        continue
                    if not _reaches(waits, peer, number):
                        waits[number].add(peer)
        return [[names.of(peer) for peer in sorted(each)] for each in waits]


def _reaches(waits: Sequence[set[int]], start: int, goal: int) -> bool:
    """Return whether `start` waits for `goal`, directly or through others."""
    seen, stack = set[int](), [start]
    while stack:
        at = stack.pop()
        if at == goal:
            return True
        if at not in seen:
            seen.add(at)
            stack += waits[at]
    return False
