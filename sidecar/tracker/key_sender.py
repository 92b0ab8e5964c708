"""Sends the master keys that a node's relay sees to the proxies, which grant containers with them.

A proxy that was started anew has none: they are sent again every `EVERY_S`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.hadoop.conf import HadoopConf
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver.common.http.security import Security, SecuritySettings
from quicksilver.common.messages import MasterKeyMessage, NodeKeysMessage
from quicksilver.common.process.logs import get_logger
from sidecar.tracker.config import TrackerSettings
from sidecar.tracker.relay import NodeKeysSeen, NodeMasterKey

log = get_logger(__name__)
EVERY_S: Final = 30.0
AGAIN_S: Final = 3.0
"""Time until a proxy that did not answer, or does not know the node yet, is tried again."""
MAX_NODES: Final = 100
"""NodeManagers behind one relay; there is one."""


class KeySender:
    """Sends the keys of this relay's NodeManagers to each proxy; `run` ends when it is cancelled.

    urls: where proxies take REST, without a slash at the end.
    """

    def __init__(self, urls: Sequence[str], client: AsyncRestClient) -> None:
        self._urls, self._client = urls, client
        self._seen: dict[str, NodeKeysSeen] = {}
        self._news = asyncio.Event()
        self._failing: dict[str, str] = {}

    def report(self, seen: NodeKeysSeen) -> None:
        """Note a NodeManager's keys; another connection may have seen at which ResourceManager it registered."""
        before = self._seen.pop(seen.node_id, None)
        if not seen.rm_identifier and before is not None and before.container == seen.container:
            seen = replace(seen, rm_identifier=before.rm_identifier)
        self._seen[seen.node_id] = seen
        while len(self._seen) > MAX_NODES:
            del self._seen[next(iter(self._seen))]
        self._news.set()

    async def run(self) -> None:
        """Send what is new at once, and all of it now and then."""
        waits_s: float | None = None
        try:
            while True:
                with suppress(TimeoutError):  # then all of it is due again
                    async with asyncio.timeout(waits_s):
                        await self._news.wait()
                self._news.clear()
                settled = await asyncio.gather(*(self._send_all(url) for url in self._urls))
                waits_s = EVERY_S if all(settled) else AGAIN_S
        finally:
            await self._client.close()

    async def _send_all(self, url: str) -> bool:
        """Send all keys to a proxy; return False where it is worth trying again soon."""
        try:
            for seen in list(self._seen.values()):
                await self._client.post(f"{url}/v1/nodes/{quote(seen.node_id, safe=':')}/keys", message_of(seen))
        except QuicksilverError as error:
            if self._failing.get(url) != str(error):
                log.warning("a proxy does not take this node's keys: it grants nothing here itself", why=str(error))
            self._failing[url] = str(error)
            return not error.retriable
        if self._failing.pop(url, None) is not None:
            log.info("the proxy takes this node's keys again", proxy=url)
        return True


def make_key_sender(settings: TrackerSettings, conf: HadoopConf, security: SecuritySettings) -> KeySender:
    """Return a sender; it is to be used in one running event loop. Raises SettingsError for missing credentials."""
    credentials = Security(security).key_credentials()
    return KeySender(settings.key_urls(conf, security.scheme), AsyncRestClient(credentials=credentials))


def message_of(seen: NodeKeysSeen) -> NodeKeysMessage:
    """Return the message of a node's keys."""
    return NodeKeysMessage(container=_key(seen.container), nm=_key(seen.nm), rm_identifier=seen.rm_identifier)


def _key(key: NodeMasterKey) -> MasterKeyMessage:
    return MasterKeyMessage.model_validate({"key_id": key.key_id, "secret": base64.b64encode(key.secret).decode()})
