"""Warnings about a `policies:` section that is valid, and does probably not what its author wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from policies.config.binding import entries
from policies.config.presets import laid_over
from policies.config.validation import Path
from policies.errors import Mistake, close_names

TYPES: Final = (
    "MAPREDUCE",
    "SPARK",
    "TEZ",
    "YARN",
    "APACHE FLINK",
    "FLINK",
    "YARN-SERVICE",
    "ORG-APACHE-SLIDER",
    "SAMZA",
    "TENSORFLOW",
    "SUBMARINE",
    "SKEIN",
    "DASK",
)
"""Application types that frameworks give to the ResourceManager, in upper case."""
_RUNS_AS: Final = {
    "MR": "MAPREDUCE",
    "MR2": "MAPREDUCE",
    "HIVE": "TEZ or MAPREDUCE",
    "PIG": "TEZ or MAPREDUCE",
    "LLAP": "YARN-SERVICE",
}
_KILLS: Final = ("kill_newest", "kill_least_work", "kill_lowest_priority")
_LONG_LIVED: Final = {"SPARK": "Spark", "FLINK": "Flink", "APACHE FLINK": "Flink"}
"""Types whose containers hold the data of a whole job."""
_DEFAULTS: Final = {"preempt": "kill_newest", "place": "topk_wait"}
_WAITS_AT_NODES: Final = ("topk_wait", "least_queue", "completion_time")
"""Placements under which a container waits at one node, behind others."""


def unintended(raw: Mapping[str, Any], path: Path) -> list[Mistake]:
    """Return warnings about a section that stands at `path`; its mistakes, if it has some, are not among them."""
    base = laid_over(raw)
    warnings = [*_types(raw, path), *_killed(base, raw, path), *_reused(base, raw, path)]
    alternatives = raw.get("alternatives")
    for name, own in alternatives.items() if isinstance(alternatives, Mapping) else ():
        if isinstance(own, Mapping):
            at = (*path, "alternatives", str(name))
            warnings += _types(own, at)
            whole = laid_over(own) if "preset" in own else {**base, **own}
            if not own.keys().isdisjoint({"preset", "queues", "routes", "preempt"}):
                warnings += _killed(whole, own, at)
            warnings += _reused(whole, own, at)
    return warnings


def _globs(value: object) -> list[str]:
    """Return the globs of a `match`; nothing for what is no text."""
    return [glob for glob in (value if isinstance(value, list) else [value]) if isinstance(glob, str)]


def _match(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    match = entry.get("match")
    return match if isinstance(match, Mapping) else {}


def _types(raw: Mapping[str, Any], path: Path) -> Iterator[Mistake]:
    """Yield a warning for each application type in a `match` that no known framework has."""
    estimate = raw.get("estimate")
    hints = entries(estimate, "rules") if isinstance(estimate, Mapping) else []
    places: list[tuple[Path, Mapping[str, Any]]] = [((*path, "routes", n), rule) for n, rule in entries(raw, "routes")]
    places += [((*path, "estimate", "rules", n), hint) for n, hint in hints]
    for at, entry in places:
        types = _match(entry).get("type")
        for number, glob in enumerate(_globs(types)):
            name = glob.upper()
            if not any(fnmatchcase(known, name) for known in TYPES):
                where = (*at, "match", "type", number) if isinstance(types, list) else (*at, "match", "type")
                yield Mistake(where, f"no framework known here has the application type '{glob}'; {_hint(name)}")


def _hint(name: str) -> str:
    meant = _RUNS_AS.get(name) or " or ".join(close_names(name, TYPES))
    own = "leave it if an application of yours has it"
    return f"did you mean {meant}? Else {own}" if meant else f"known: {', '.join(TYPES)}; {own}"


def _policy(raw: Mapping[str, Any], slot: str) -> object:
    choice = raw.get(slot, _DEFAULTS[slot])
    return choice.get("policy") if isinstance(choice, Mapping) else choice


def _reused(whole: Mapping[str, Any], own: Mapping[str, Any], path: Path) -> Iterator[Mistake]:
    """Yield a warning for each rule that makes containers of Tez queueable where they wait at nodes."""
    policy = _policy(whole, "place")
    if policy not in _WAITS_AT_NODES:
        return
    for number, rule in entries(own, "routes"):
        globs = _globs(_match(rule).get("type"))
        if rule.get("policy") != "only_g" and any(fnmatchcase("TEZ", glob.upper()) for glob in globs):
            yield Mistake(
                (*path, "routes", number),
                f"containers of Tez may be queueable, and place: {policy} lets them wait at nodes: a task is bound to "
                "the one that waits, while those that run, which would take it, stand idle and end; take place: late, "
                "as the presets default and mixed do",
            )


def _killed(raw: Mapping[str, Any], own: Mapping[str, Any], path: Path) -> Iterator[Mistake]:
    """Yield a warning if containers of long-lived frameworks may be queueable where queueable containers are killed."""
    policy = _policy(raw, "preempt")
    if policy not in _KILLS or not raw.get("queues"):
        return
    routed = {name: number for kind, name in _LONG_LIVED.items() if (number := _queueable(raw, kind)) is not None}
    if not routed:
        return
    names, number = " and ".join(routed), min(routed.values())
    where = (*path, "routes", number) if "routes" in own else (*path, "preset")
    yield Mistake(
        where,
        f"{names} containers may be queueable, and preempt: {policy} kills these with the data that they hold, such as "
        "shuffle files; begin routes with {match: {type: [SPARK, FLINK, APACHE FLINK]}, policy: only_g}, or take "
        "preempt: las, which leaves them alone",
    )


def _queueable(raw: Mapping[str, Any], kind: str) -> int | None:
    """Return the number of the first route that may make containers of an application type queueable; None if none."""
    for number, rule in entries(raw, "routes"):
        match = _match(rule)
        globs = _globs(match.get("type"))
        if globs and not any(fnmatchcase(kind, glob.upper()) for glob in globs):
            continue
        if rule.get("policy") != "only_g":
            return number
        if not match.keys() - {"type"}:
            return None  # all of them are guaranteed
    return None
