"""The YARN queues that the settings name, and those that capacity-scheduler.xml has."""

from __future__ import annotations

import xml.sax
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl

from policies.config.policy_set import Policies
from policies.config.schema import PoliciesSection, PolicySet, full_queue, queue_test
from quicksilver.common.errors import SettingsError
from quicksilver.common.hadoop.xml import plain
from quicksilver.doctor.model import DoctorSite

_PREFIX: Final = "yarn.scheduler.capacity."
STORE: Final = "yarn.scheduler.configuration.store.class"
_FAIR_FILE: Final = "yarn.scheduler.fair.allocation.file"
_FAIR_ANY: Final = "yarn.scheduler.fair.allow-undeclared-pools"
_MADE: Final = (".auto-create-child-queue.enabled", ".auto-queue-creation-v2.enabled")


def named_queues(policies: Policies) -> list[tuple[str, str]]:
    """Return each glob for YARN queues with the setting where it stands first, such as `policies.modes[0].queue`."""
    sections = {"policies": policies.section}
    sections |= {
        f"policies.alternatives.{name}": alternative.section for name, alternative in policies.alternatives.items()
    }
    places: dict[str, str] = {}
    for at, section in sections.items():
        for glob, place in _globs(section, at):
            places.setdefault(glob, place)
    return [(place, glob) for glob, place in places.items()]


def _globs(section: PolicySet, at: str) -> Iterator[tuple[str, str]]:
    yield from ((glob, f"{at}.queues") for glob in section.queues)
    entries: list[tuple[str, Sequence[str]]] = [(f"modes[{n}]", rule.queue) for n, rule in enumerate(section.modes)]
    if isinstance(section, PoliciesSection):
        entries += [(f"rollout[{n}]", rollout.queue) for n, rollout in enumerate(section.rollout)]
        entries += [(f"windows[{n}]", window.queue) for n, window in enumerate(section.windows)]
    entries += [(f"routes[{n}].match", rule.match.queue) for n, rule in enumerate(section.routes)]
    entries += [(f"estimate.rules[{n}].match", hint.match.queue) for n, hint in enumerate(section.estimate.rules)]
    yield from ((glob, f"{at}.{where}.queue") for where, globs in entries for glob in globs)


def kept_elsewhere(site: DoctorSite) -> bool:
    """Return whether the Capacity Scheduler's configuration lies in a store, changed by REST, and not in its file."""
    return site.scheduler == "capacity" and site.conf.untrimmed(STORE) != "file"


class FileQueues:
    """The queues of the Capacity or Fair Scheduler according to the files of all ResourceManagers."""

    def __init__(self, sites: Sequence[DoctorSite]) -> None:
        self.names: set[str] = set()
        """Full paths; empty where another scheduler is chosen, no file has queues, or a store has them."""
        self.file = "capacity-scheduler.xml"
        """The file that has them."""
        self._parents_of_new: set[str] = set()
        self._makes_any = False
        """Whether the Fair Scheduler makes queues that its file does not have."""
        for site in sites:
            if site.scheduler == "capacity" and not kept_elsewhere(site):
                self._read(site)
            elif site.scheduler == "fair" and site.from_files:
                self._read_fair(site)

    def _read(self, site: DoctorSite) -> None:
        waiting = ["root"]
        while waiting:
            path = waiting.pop()
            children = [name.strip() for name in site.text(f"{_PREFIX}{path}.queues").split(",") if name.strip()]
            below = {f"{path}.{child}" for child in children} - self.names
            self.names |= below
            waiting += below
            if any(site.flag(f"{_PREFIX}{path}{setting}") for setting in _MADE):
                self._parents_of_new.add(path)

    def _read_fair(self, site: DoctorSite) -> None:
        """Read the allocation file, which lies beside yarn-site.xml unless a property names another place."""
        path = site.conf.directory / site.text(_FAIR_FILE, "fair-scheduler.xml")
        if path.is_file():
            self.file = path.name
            self.names |= fair_queues(path)
            self._makes_any = self._makes_any or site.flag(_FAIR_ANY, True)

    def may_have(self, glob: str) -> bool:
        """Return whether a queue of the glob is in the files, or may be made by itself below one of them.

        Where the Fair Scheduler makes any queue, a name that nearly is one of the file is taken for a mistake.
        """
        if any(queue_test((glob,))(name) for name in self.names):
            return True
        path = full_queue(glob)
        if self._makes_any:
            return not get_close_matches(path, self.names, n=1, cutoff=0.8)
        return any(path.startswith(f"{parent}.") for parent in self._parents_of_new)


def fair_queues(path: Path) -> set[str]:
    """Return the full paths of the queues in an allocation file of the Fair Scheduler.

    Raises SettingsError with file and line when it is not XML or cannot be read.
    """
    handler = _FairQueues()
    try:
        xml.sax.parseString(plain(path.read_bytes(), path), handler)
    except xml.sax.SAXParseException as error:
        place = f"{path}:{error.getLineNumber()}"
        raise SettingsError(f"not well-formed XML: {error.getMessage()}", place=place, remedy="mend the file") from None
    except OSError as error:
        message, remedy = f"cannot be read: {error.strerror}", "check its permissions"
        raise SettingsError(message, place=str(path), remedy=remedy) from None
    return handler.names


class _FairQueues(ContentHandler):
    """Collects `<queue name="...">`, nested ones by their paths; `<pool>` is the older word."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._above: list[str] = []

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        if name not in ("queue", "pool"):
            return
        own = str(attrs.get("name", "")).strip()
        path = own if not self._above and (own == "root" or own.startswith("root.")) else f"{self._parent()}.{own}"
        self._above.append(path)
        self.names.add(path)

    def endElement(self, name: str) -> None:
        if name in ("queue", "pool"):
            self._above.pop()

    def _parent(self) -> str:
        return self._above[-1] if self._above else "root"
