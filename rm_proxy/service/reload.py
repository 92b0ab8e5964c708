"""Settings of the running proxy: reads them anew, records each change, and has sidecars do the same."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from policies.config.policy_set import Policies
from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.security import OPEN, Security
from quicksilver.common.http.tokens import Role
from quicksilver.common.messages import NodeReload, ReloadAnswer, ReloadRequest
from quicksilver.common.settings.reload import Audit, How, Reloader
from rm_proxy.config import ProxySettings
from rm_proxy.coordinator.coordinator import Coordinator
from rm_proxy.domain.records import ChangeRecord
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.store.writer import Writer

_NODE_TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 8 << 20
_CALLS: Final = 16
"""Sidecars that are asked at once."""


class ProxyReloader:
    """Applies settings to the coordinator, and asks sidecars to read theirs."""

    def __init__(
        self,
        coordinator: Coordinator,
        writer: Writer,
        metrics: ProxyMetrics,
        settings: ProxySettings,
        source: str,
        security: Security = OPEN,
    ) -> None:
        self._coordinator, self._writer, self._metrics = coordinator, writer, metrics
        self._boot, self._numbers = secrets.token_hex(6), count()
        self.unfit: Callable[[Policies], list[str]] = lambda policies: []
        """Returns why policies cannot be in force here; those before stay then."""
        path = Path(source) if source else None
        self._settings = Reloader(path, ("proxy", settings), coordinator.policies, self._use, self._audit, security)
        self._credentials = security.credentials(Role.PROXY)

    @property
    def source(self) -> str:
        """The file that is in use; "" for none."""
        return str(self._settings.source or "")

    def begin(self, now_s: float) -> None:
        """Record the settings with which the proxy starts."""
        self._settings.begin(now_s)

    def tick(self, now_s: float) -> None:
        """Open and close windows."""
        self._settings.tick(now_s)

    async def reload(self, author: str, how: How, request: ReloadRequest | None = None) -> ReloadAnswer:
        """Read the settings anew, at the sidecars too when `request` says so.

        Raises ReloadRefusedError; then no sidecar is asked.
        """
        request = request or ReloadRequest()
        answer = await self._settings.reload(author, how, request.file, request.expect)
        if request.nodes:
            answer.nodes = await self._nodes(author, how, request)
        return answer

    async def check(self, file: str) -> ReloadAnswer:
        """Return what a reload would change. Raises ReloadRefusedError."""
        return await self._settings.check(file)

    def _use(self, policies: Policies, now_s: float) -> tuple[Policies, list[str]]:
        faults = self.unfit(policies)
        if faults:
            return self._coordinator.policies, faults
        self._coordinator.use(policies, now_s)
        self._metrics.settings.info({"version": policies.version})
        return policies, []

    def _audit(self, audit: Audit) -> None:
        self._metrics.reloads.labels(audit.how, "refused" if audit.error else "ok").inc()
        rows = [("version", audit.before, audit.after), *((c.path, c.before, c.after) for c in audit.changes)]
        for path, before, after in rows if not audit.error else [("", "", "")]:
            self._record(audit, path, before, after, audit.error)

    def _record(self, audit: Audit, path: str, before: str, after: str, error: str) -> None:
        ok = not error
        number = f"{self._boot}-{next(self._numbers):06}"
        self._writer.change(ChangeRecord(number, audit.at_s, audit.author, audit.how, ok, path, before, after, error))

    # Sidecars

    async def _nodes(self, author: str, how: How, request: ReloadRequest) -> list[NodeReload]:
        """Ask every node's sidecar; one that does not answer is in the answer and hinders no other."""
        reports = {node.id: node.report for node in self._coordinator.nodes.values()}
        urls = {node_id: report.sidecar_url for node_id, report in sorted(reports.items()) if report is not None}
        body = ReloadRequest(who=author.partition("@")[0], command=request.command, file=request.file)
        client = AsyncRestClient(
            timeout_s=_NODE_TIMEOUT_S, credentials=self._credentials, max_answer=MAX_ANSWER, threads=_CALLS
        )
        calls = asyncio.Semaphore(_CALLS)
        try:
            coroutines = (_ask_node(client, calls, node_id, url, body) for node_id, url in urls.items())
            answers = list(await asyncio.gather(*coroutines))
        finally:
            await client.close()
        silent = [node_id for node_id in sorted(reports) if node_id not in urls]
        answers += [NodeReload(node_id=n, ok=False, error="its sidecar has not reported yet") for n in silent]
        return self._recorded(answers, author, how, time.time())

    def _recorded(self, answers: list[NodeReload], author: str, how: How, now_s: float) -> list[NodeReload]:
        for answer in answers:
            audit = Audit(now_s, author, how, "", answer.version)
            self._record(audit, f"nodes.{answer.node_id}", "", answer.version, answer.error)
        return answers


async def _ask_node(
    client: AsyncRestClient, calls: asyncio.Semaphore, node_id: str, url: str, body: ReloadRequest
) -> NodeReload:
    try:
        async with calls:
            answer = ReloadAnswer.model_validate(await client.post(f"{url.rstrip('/')}/v1/policies/reload", body))
    except (QuicksilverError, ValueError) as error:
        return NodeReload(node_id=node_id, ok=False, error=str(error))
    return NodeReload(node_id=node_id, ok=True, version=answer.version, changes=answer.changes, kept=answer.kept)
