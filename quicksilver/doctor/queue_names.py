"""The YARN queues that the settings name, and those that capacity-scheduler.xml has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policies.config.policy_set import Policies
from policies.config.schema import PoliciesSection, PolicySet, full_queue, queue_test
from quicksilver.doctor.model import Site

_PREFIX: Final = "yarn.scheduler.capacity."
_SCHEDULER: Final = "yarn.resourcemanager.scheduler.class"
_MADE: Final = (".auto-create-child-queue.enabled", ".auto-queue-creation-v2.enabled")


def named_queues(policies: Policies) -> list[tuple[str, str]]:
    """Return each glob for YARN queues with the setting where it stands first, such as `policies.modes[0].queue`."""
    sections = {"policies": policies.section}
    sections |= {f"policies.alternatives.{name}": other.section for name, other in policies.alternatives.items()}
    found: dict[str, str] = {}
    for at, section in sections.items():
        for glob, place in _globs(section, at):
            found.setdefault(glob, place)
    return [(place, glob) for glob, place in found.items()]


def _globs(section: PolicySet, at: str) -> Iterator[tuple[str, str]]:
    yield from ((glob, f"{at}.queues") for glob in section.queues)
    entries: list[tuple[str, Sequence[str]]] = [(f"modes[{n}]", rule.queue) for n, rule in enumerate(section.modes)]
    if isinstance(section, PoliciesSection):
        entries += [(f"rollout[{n}]", rollout.queue) for n, rollout in enumerate(section.rollout)]
        entries += [(f"windows[{n}]", window.queue) for n, window in enumerate(section.windows)]
    entries += [(f"routes[{n}].match", rule.match.queue) for n, rule in enumerate(section.routes)]
    entries += [(f"estimate.rules[{n}].match", hint.match.queue) for n, hint in enumerate(section.estimate.rules)]
    yield from ((glob, f"{at}.{where}.queue") for where, globs in entries for glob in globs)


class FileQueues:
    """The queues of the Capacity Scheduler according to the files of all ResourceManagers."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self.names: set[str] = set()
        """Full paths; empty where another scheduler is chosen, or no file has queues."""
        self._parents_of_new: set[str] = set()
        for site in sites:
            if "CapacityScheduler" in site.text(_SCHEDULER, "CapacityScheduler"):
                self._read(site)

    def _read(self, site: Site) -> None:
        waiting = ["root"]
        while waiting:
            path = waiting.pop()
            children = [name.strip() for name in site.text(f"{_PREFIX}{path}.queues").split(",") if name.strip()]
            below = {f"{path}.{child}" for child in children} - self.names
            self.names |= below
            waiting += below
            if any(site.flag(f"{_PREFIX}{path}{setting}") for setting in _MADE):
                self._parents_of_new.add(path)

    def may_have(self, glob: str) -> bool:
        """Return whether a queue of the glob is in the files, or may be made by itself below one of them."""
        if any(queue_test((glob,))(name) for name in self.names):
            return True
        path = full_queue(glob)
        return any(path.startswith(f"{parent}.") for parent in self._parents_of_new)
