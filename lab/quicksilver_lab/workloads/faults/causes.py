"""Which failed attempts of MapReduce, and jobs of distributed shell, would have failed on stock YARN as well."""

from __future__ import annotations

import re
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from quicksilver_lab.workloads.faults import plan

_LOST_IN_LAUNCH: Final = re.compile(r"exit(?:ed with a non-zero exit)? code:? 154\b|exitCode: 154\b", re.IGNORECASE)
"""ExitCode.LOST: a NodeManager that recovers finds a container without a process and without an exit code."""
_LOST_IN_QUEUE: Final = re.compile(r"Unable to get local resources when Container \S+ is at NEW")
"""Diagnostics of a container that a NodeManager recovers between start request and launch; exit code -1."""
_UNREGISTERED: Final = re.compile(r"rejected as it is allocated by a previous RM")
"""A NodeManager's answer to a start that comes before it has registered, or with a token of before it did so again."""
_HELD: Final = "Not started by quicksilver: "
"""Begin of the proxy's own completions; a distributed shell gets ABORTED, and requests another container."""
_STARTS: Final = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+) ERROR .*Failed to start Container (container_\w+)\n"
    r"(?:\S*Exception: *\n)?(.*)",
    re.MULTILINE,
)
"""What distributed shell's master logs of a start that failed: when, of which container, and the first words why."""
_FAILED_START: Final = re.compile(r"\[[^]]+\] container_\w+: ")
"""How a line of `failed_starts` begins."""
_STAMP: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.,]\d+\]")
_FAILED: Final = re.compile(r"\bfailed = (\d+)")
_BROKEN: Final = re.compile(
    r"EOFException|SocketException|Connection reset|Connection refused|ClosedChannel|Broken pipe"
)
"""The error of Hadoop's client for a connection that breaks; in mid-handshake it does not retry."""
_LAUNCH: Final = "Container launch failed"
_RECOVERY_S: Final = 45.0
"""From the SIGKILL of a NodeManager until it has reported its recovered containers to the ResourceManager."""
_BREAK_S: Final = 5.0
"""From the begin of a cut until the master has written it to its own log; longer than the cut itself."""


@dataclass(frozen=True, slots=True)
class FailureCause:
    """An attempt that MapReduce counted as failed; times are Unix times."""

    attempt: str
    container: str
    node: str
    """Name, or "" when its node is not known."""
    began_s: float
    ended_s: float
    text: str
    as_stock: str = ""
    """Why plain YARN would have counted it as well; "" when that is not known."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON knows it."""
        return asdict(self)


def as_on_stock(failure: FailureCause, faults: Iterable[Mapping[str, Any]], queued: Container[str] = ()) -> str:
    """Return which fault explains a failure on plain YARN; "" when none does.

    faults: as `Injected.as_dict` gives them. queued: containers that a NodeManager was to launch when it was killed.
    Three kinds are known: a NodeManager killed before or during a launch, whose own recovery loses it, or launches what
    was queued without its local resources; a start that came before the NodeManager had registered with the
    ResourceManager, when one of the two was killed; and a start whose connection a fault of the network broke, when no
    sidecar of that node was killed in the same seconds.
    """
    at = list(faults)
    lost = _LOST_IN_LAUNCH.search(failure.text) or _LOST_IN_QUEUE.search(failure.text)
    if lost or failure.container in queued:
        return _named(at, failure, {plan.KILL_NM}, {failure.node}, _RECOVERY_S)
    if _LAUNCH in failure.text and _UNREGISTERED.search(failure.text):
        return _named(at, failure, {plan.KILL_NM, plan.KILL_RM}, {failure.node, ""}, _RECOVERY_S)
    if _LAUNCH in failure.text and _BROKEN.search(failure.text):
        if _named(at, failure, {plan.KILL_SIDECAR, plan.KILL_BOTH}, {failure.node}, _BREAK_S):
            return ""
        links = {f"AM-{failure.node}", f"{failure.node}-NM"}
        return _named(at, failure, {plan.CUT}, links, _BREAK_S) or _named(
            at, failure, {plan.KILL_NM}, {failure.node}, _BREAK_S
        )
    return ""


def shell_as_on_stock(text: str, faults: Iterable[Mapping[str, Any]]) -> str:
    """Return why a distributed shell would have failed on plain YARN as well; "" when that is not known.

    text: all that its client said, and `failed_starts` of its master's log. It never repeats a container that
    ended badly. Both are dated in local time.
    """
    failed = _FAILED.search(text)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(_HELD)]
    dates = [line for line in lines if _LOST_IN_LAUNCH.search(line)][::2]  # each is said twice
    dates += [line for line in lines if _LOST_IN_QUEUE.search(line) or _UNREGISTERED.search(line)]
    broken = {line for line in lines if _FAILED_START.match(line) and _BROKEN.search(line)}
    dates += sorted(broken)
    if failed is None or len(dates) < int(failed[1]):
        return ""
    at = list(faults)
    for line in dates:
        stamp = _STAMP.search(line)
        at_s = time.mktime(time.strptime(stamp[1], "%Y-%m-%d %H:%M:%S")) if stamp else 0.0
        if line in broken:
            known = _happened(at, {plan.KILL_NM, plan.CUT}, at_s, _BREAK_S)
            known = known and not _happened(at, {plan.KILL_SIDECAR, plan.KILL_BOTH}, at_s, _BREAK_S)
        else:
            known = _happened(at, {plan.KILL_NM, plan.KILL_RM}, at_s, _RECOVERY_S)
        if not known:
            return ""
    return f"{len(dates)} containers were lost in their launch while daemons of YARN that were killed came back"


def _happened(faults: Iterable[Mapping[str, Any]], kinds: set[str], at_s: float, within_s: float) -> bool:
    """Return whether a fault of these kinds came at most so long before; at_s is in whole seconds."""
    return any(fault["kind"] in kinds and -1.0 <= at_s - fault["at_s"] <= within_s for fault in faults)


def failed_starts(log: str) -> str:
    """Return what a distributed shell's master logged of starts that failed, a line each: [when] container: why."""
    return "".join(f"[{when}] {container}: {why}\n" for when, container, why in _STARTS.findall(log))


def explained(failure: FailureCause, faults: Iterable[Mapping[str, Any]], queued: Container[str]) -> FailureCause:
    """Return the failure with the result of `as_on_stock`."""
    return replace(failure, as_stock=as_on_stock(failure, faults, queued))


def _named(
    faults: Iterable[Mapping[str, Any]], failure: FailureCause, kinds: set[str], targets: set[str], within_s: float
) -> str:
    """Return the last fault of these kinds that came at most so long before the end of the attempt."""
    text = ""
    for fault in faults:
        if fault["kind"] in kinds and fault["target"] in targets and 0 <= failure.ended_s - fault["at_s"] <= within_s:
            text = f"{fault['kind']} {fault['target']}, {failure.ended_s - fault['at_s']:.1f} s before"
    return text
