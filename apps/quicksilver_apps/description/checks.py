"""Checks of a description beyond its form: names, references between parts, counts, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from policies.errors import close_to
from quicksilver_apps.description.mistakes import MAX_HINTS, MAX_MISTAKES, DescriptionMistake, Steps
from quicksilver_apps.description.model import File, Service

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SCHEMES: Final = ("hdfs:", "file:")
"""Of URIs that `client.files` finds."""
_LINK: Final = re.compile(r"https?(/[!-~]*)?")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+@=,~-]{0,199}")
_ARCHIVES: Final = (".zip", ".tar.gz", ".tgz", ".tar", ".jar")
"""Ends of names by which YARN unpacks an archive."""
RESERVED: Final = "QUICKSILVER_"
"""How the names of variables begin that the application master sets."""


def file_name(file: File) -> str:
    """Return the name of a file in the working directory."""
    return file.name or file.source.rstrip("/").rpartition("/")[2]


def is_local(file: File) -> bool:
    """Return whether a file is read from this machine, rather than from a file system of Hadoop."""
    return _URI.match(file.source) is None


def whole_mistakes(data: Mapping[str, Any], services: Mapping[int, Service]) -> Iterator[DescriptionMistake]:
    """Yield the mistakes between services; `services` has those by their place whose form is right."""
    entries = data["services"] if isinstance(data.get("services"), list) else []
    names = {
        number: entry["name"]
        for number, entry in enumerate(entries)
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    }
    yield from _doubled((("services", number, "name"), name) for number, name in names.items())
    known = list(names.values())
    at: tuple[Steps, ...] = tuple(("services", number, "name") for number in names)
    if len(names) == len(entries):
        yield from islice(_unknown_services(services, known, at), MAX_MISTAKES)
    yield from islice(_empty_waits(services), MAX_MISTAKES)
    if len(set(known)) == len(known):
        yield from islice(_circles(services), 1)  # one `after` may close several
    if entries and len(services) == len(entries) and not any(service.core for service in services.values()):
        yield DescriptionMistake(
            ("services",), "no service has a core instance", "give one of them `core: 1`", on_key=True
        )


def _unknown_services(
    services: Mapping[int, Service], known: Sequence[str], depends_on: tuple[Steps, ...]
) -> Iterator[DescriptionMistake]:
    numbers, names = count(), frozenset(known)
    for number, service in services.items():
        for place, dependency in enumerate(service.after):
            if dependency not in names:
                hint = f"; {close_to(dependency, known)}" if next(numbers) < MAX_HINTS else ""
                where = ("services", number, "after", place)
                yield DescriptionMistake(
                    where, f"there is no service '{dependency}'", f"name a service{hint}", depends_on=depends_on
                )


def _empty_waits(services: Mapping[int, Service]) -> Iterator[DescriptionMistake]:
    without = {service.name for service in services.values() if not service.core}
    for number, service in services.items():
        for place, dependency in enumerate(service.after):
            if dependency in without and dependency != service.name:
                where = ("services", number, "after", place)
                remedy = "give it `core: 1`, or remove it here"
                yield DescriptionMistake(where, f"'{dependency}' has no core instance that could be ready", remedy)


def _circles(services: Mapping[int, Service]) -> Iterator[DescriptionMistake]:
    """Yield services that wait for each other, at the last `after` of the circle."""
    after = {service.name: service.after for service in services.values()}
    numbers = {service.name: number for number, service in services.items()}
    done: set[str] = set()

    def visit(name: str, above: list[str]) -> Iterator[DescriptionMistake]:
        for place, dependency in enumerate(after[name]):
            if dependency in above:
                circle = [*above[above.index(dependency) :], dependency]
                where = ("services", numbers[name], "after", place)
                yield DescriptionMistake(
                    where, f"is a circle of starts: {' after '.join(circle)}", "remove one of them"
                )
            elif dependency in after and dependency not in done:
                yield from visit(dependency, [*above, dependency])
        done.add(name)

    for name in after:
        if name not in done:
            yield from visit(name, [name])


def service_mistakes(service: Service, place: Steps) -> Iterator[DescriptionMistake]:
    """Yield the mistakes within one service."""
    if service.core + service.elastic == 0:
        counts = ((*place, "core"), (*place, "elastic"))
        remedy = "give it `core` or `elastic` of at least 1"
        yield DescriptionMistake(place, "has no instances", remedy, depends_on=counts)
    if service.main and service.restart.policy == "always":
        problem = "is `always` for a main service, whose end is that of the application"
        remedy = "write `on-failure` or `never`"
        yield DescriptionMistake((*place, "restart", "policy"), problem, remedy, depends_on=((*place, "main"),))
    yield from environment_mistakes(service.environment, place)
    yield from _port_mistakes(service, place)
    yield from _ready_mistakes(service, place)
    for number, rack in enumerate(service.constraints.racks):
        if not rack.startswith("/"):
            where = (*place, "constraints", "racks", number)
            yield DescriptionMistake(where, f"'{rack}' is no rack of YARN, which begins with /", f"write /{rack}")
    yield from _doubled(((*place, "after", number), name) for number, name in enumerate(service.after))


def environment_mistakes(environment: Mapping[str, str], place: Steps) -> Iterator[DescriptionMistake]:
    """Yield the variables that the application master sets itself."""
    for name in environment:
        if name.startswith(RESERVED):
            problem = f"is set by the application master, as all of {RESERVED}*"
            yield DescriptionMistake((*place, "environment", name), problem, "choose another name", on_key=True)


def _port_mistakes(service: Service, place: Steps) -> Iterator[DescriptionMistake]:
    ports = list(enumerate(service.ports))
    yield from _doubled(((*place, "ports", number, "name"), port.name) for number, port in ports)
    fixed = [((*place, "ports", number, "number"), port.number) for number, port in ports if port.number]
    yield from _doubled(fixed)
    for number, port in ports:
        if port.link and _LINK.fullmatch(port.link) is None:
            remedy = "write http or https, and a path if there is one, such as http/lab"
            yield DescriptionMistake((*place, "ports", number, "link"), f"'{port.link}' is no link", remedy)


def _ready_mistakes(service: Service, place: Steps) -> Iterator[DescriptionMistake]:
    ready, known = service.ready, [port.name for port in service.ports]
    if ready.port and ready.port not in known:
        problem = f"'{ready.port}' is no port of service '{service.name}'"
        remedy = f"name one of its ports; {close_to(ready.port, known)}"
        at = tuple((*place, "ports", number, "name") for number in range(len(known)))
        yield DescriptionMistake((*place, "ready", "port"), problem, remedy, depends_on=at)
    try:
        re.compile(ready.log)
    except (re.error, OverflowError, RecursionError) as error:
        remedy = "mend it; characters such as ( [ * . need a \\ before them to stand for themselves"
        yield DescriptionMistake((*place, "ready", "log"), f"is no regular expression: {error}", remedy)


def file_mistakes(files: Sequence[tuple[Steps, File]], folder: Path | None) -> Iterator[DescriptionMistake]:
    """Yield the mistakes of files that come into one working directory; `folder` is where local ones are sought.

    None: local files are not looked for.
    """
    right = []
    for place, file in files:
        name = file_name(file)
        if not file.source.strip():
            yield DescriptionMistake((*place, "source"), "is empty", "name a file")
            continue
        if (scheme := _URI.match(file.source)) and scheme[0].lower() not in _SCHEMES:
            problem = f"'{file.source[:200]}' is neither in HDFS nor a file that all nodes see"
            yield DescriptionMistake(
                (*place, "source"), problem, "copy it to HDFS and name it as hdfs://.., or name a local file"
            )
            continue
        if _FILE_NAME.fullmatch(name) is None or name in (".", ".."):
            at = (*place, "name") if file.name else (*place, "source")
            remedy = "give it a `name` of letters, digits and _.+@=,~- without folders"
            yield DescriptionMistake(at, f"'{name}' cannot be the name of a file in the working directory", remedy)
            continue
        if file.kind == "archive" and not file.source.lower().endswith(_ARCHIVES):
            remedy = f"use one that ends in {', '.join(_ARCHIVES)}, or `kind: file`"
            yield DescriptionMistake((*place, "source"), f"'{file.source}' is no archive that YARN unpacks", remedy)
        right.append(((*place, "name") if file.name else place, name))
        if folder is not None and is_local(file):
            yield from _missing(folder, file, place)
    yield from _doubled(right)


def _missing(folder: Path, file: File, place: Steps) -> Iterator[DescriptionMistake]:
    path = folder / file.source
    try:
        is_dir, is_file = path.is_dir(), path.is_file()
    except OSError as error:
        yield DescriptionMistake(
            (*place, "source"), f"{path} cannot be read: {error.strerror}", "correct the path, or its rights"
        )
        return
    if is_dir:
        remedy = "name a file; pack a folder into a .zip or .tar.gz with `kind: archive`"
        yield DescriptionMistake((*place, "source"), f"{path} is a folder", remedy)
    elif not is_file:
        remedy = "correct the path, which begins at the folder of the description"
        yield DescriptionMistake((*place, "source"), f"there is no file {path}", remedy)


def _doubled(items: Iterable[tuple[Steps, object]]) -> Iterator[DescriptionMistake]:
    """Yield a mistake for each value that an earlier place has, the first ones."""
    return islice(_all_doubled(items), MAX_MISTAKES)


def _all_doubled(items: Iterable[tuple[Steps, object]]) -> Iterator[DescriptionMistake]:
    first: dict[object, Steps] = {}
    for place, value in items:
        if value in first:
            earlier = DescriptionMistake(first[value], "", "").place
            problem = f"'{value}' is there twice, first as {earlier}"
            yield DescriptionMistake(place, problem, "rename or remove one", depends_on=(first[value],))
        else:
            first[value] = place
