"""Status of the sidecar: reports for the proxy, limitations of this node, health."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from quicksilver.common.messages import ContainerEvent, Report
from quicksilver.common.process.version import version
from sidecar.config import Place
from sidecar.connections.gate_runner import GateRunner
from sidecar.node.report_view import fill_report
from sidecar.resizer.probe import Chosen
from sidecar.service.api import SidecarHealth
from sidecar.service.guarded_policies import GuardedPolicies
from sidecar.service.nm.nm_rest import NodeManagerRest
from sidecar.service.node_journal import Identity, NodeJournal
from sidecar.service.processes.process_watch import ProcessWatcher
from sidecar.shadow.node_shadow import NodeShadow

_ENCRYPTED_S: Final = 600.0
"""How long the warning about encrypted connections is shown."""
_ENCRYPTED: Final = (
    "signed or encrypted connections of application masters pass unread, so that none of their containers is queued: "
    "let this port speak hadoop.rpc.protection=authentication (docs/security.md)"
)
NO_JOURNAL: Final = "a restart forgets its held starts: there is no place for a journal (sidecar.state_dir)"


class Limitations:
    """Limitations of this sidecar on its node."""

    def __init__(
        self,
        gates: GateRunner,
        policies: GuardedPolicies,
        choice: Chosen,
        watcher: ProcessWatcher,
        journal: NodeJournal | None,
        nm_rest: NodeManagerRest,
    ) -> None:
        self._gates, self._policies, self._choice = gates, policies, choice
        self._watcher, self._journal, self._nm_rest = watcher, journal, nm_rest

    def texts(self) -> list[str]:
        """Return the limitations, with their reasons."""
        blind = self._watcher.blind
        texts = [f"ends are noticed each second only: {blind}"] if blind else []
        texts += self._choice.limits
        if self._policies.current.node.shrinking() is not None and self._choice.resizer is None:
            texts.append("nothing can be shrunk here: containers beyond the node's vcores wait")
        if time.time() - self._gates.commands.encrypted_s < _ENCRYPTED_S:
            texts.append(_ENCRYPTED)
        if self._journal is not None and self._journal.why:
            texts.append(f"a restart forgets its held starts: {self._journal.why}")
        no_journal = NO_JOURNAL if self._journal is None else ""
        rest = (self._gates.node.state.nm_down, self._nm_rest.why, no_journal)
        return texts + [text for text in dict.fromkeys(rest) if text]


class Status:
    """Builds reports and health of one node."""

    def __init__(
        self,
        gates: GateRunner,
        place: Place,
        identity: Identity,
        limitations: Limitations,
        settings: Callable[[], str],
        shadow: NodeShadow,
    ) -> None:
        """Prepare. settings: returns the version of the settings in use."""
        self._node, self._place, self._identity = gates.node, place, identity
        self._limitations, self._settings, self._shadow = limitations, settings, shadow
        self._reports, self._version = 0, version()

    def report(self, events: Sequence[ContainerEvent] = ()) -> Report:
        """Return the node's state for the proxy, with these events."""
        self._reports += 1
        now_s = time.time()
        self._shadow.order(self._node.state.queue, now_s)
        report = Report(
            node_id=self._identity.node_id,
            boot=self._identity.boot,
            seq=self._reports,
            sidecar_url=self._place.rest_url,
            memory_mb=self._place.capacity.memory_mb,
            vcores=self._place.capacity.vcores,
            events=list(events),
            limits=self._limitations.texts(),
            version=self._version,
            settings_version=self._settings(),
            compared=self._shadow.counts(),
        )
        return fill_report(report, self._node, now_s)

    def health(self, nm_answers: bool | None, proxy_answers: bool | None) -> SidecarHealth:
        """Return the health. nm_answers: whether the NodeManager's REST answers; None: not asked yet."""
        nodemanager = False if self._node.state.nm_down else nm_answers
        fine = nodemanager is not False and proxy_answers is not False
        return SidecarHealth(
            status="ok" if fine else "degraded",
            version=version(),
            node_id=self._identity.node_id,
            nodemanager=nodemanager,
            proxy=proxy_answers,
            settings_version=self._settings(),
            limits=self._limitations.texts(),
        )

    def not_ready(self, nm_answers: bool | None, proxy_answers: bool | None) -> list[str]:
        """Return why this node takes no queueable containers; arguments as those of `health`."""
        reasons = []
        if self._node.state.nm_down:
            reasons.append(str(self._node.state.nm_down))
        elif not nm_answers:
            how = "was not asked yet" if nm_answers is None else "does not answer"
            reasons.append(f"the NodeManager's REST {how}")
        if not proxy_answers:
            reasons.append(f"no proxy took {'a report yet' if proxy_answers is None else 'the last report'}")
        return reasons
