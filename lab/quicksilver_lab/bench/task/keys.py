"""The master keys of the stand-in's nodes, reported to the proxy as tracker relays report those of real ones."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Final

import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver.common.http.async_client import AsyncRestClient
from quicksilver_lab.bench.task.yarn import NODE_KEYS, ClusterLog, node_id
from rm_proxy.minting.tokens import MasterKey
from sidecar.tracker.key_sender import AGAIN_S, EVERY_S, message_of
from sidecar.tracker.relay import NodeKeysSeen, NodeMasterKey

_NODES: Final = re.compile(r"^quicksilver_proxy_own_grant_nodes (\S+)$", re.MULTILINE)
_PATIENCE_S: Final = 60.0
_ALL_S: Final = 180.0
"""How long the keys of all nodes may take on a busy machine."""
_POLL_S: Final = 0.2


async def report_keys(nodes: int, rest_url: str, log: ClusterLog) -> None:
    """Report the keys of all nodes now and then, until cancelled; at first one node after the other, then spread."""
    client = AsyncRestClient(timeout_s=_PATIENCE_S)
    between_s = 0.0
    try:
        while True:
            for number in range(nodes):
                await _report(client, rest_url, node_id(number), log)
                await asyncio.sleep(between_s)
            between_s = EVERY_S / nodes
    finally:
        await client.close()


async def _report(client: AsyncRestClient, rest_url: str, node: str, log: ClusterLog) -> None:
    """Report those of a node, as often as it takes until the proxy knows that node."""
    keys = NODE_KEYS
    message = message_of(NodeKeysSeen(node, _seen(keys.container), _seen(keys.nm), keys.rm_identifier))
    while True:
        try:
            await client.post(f"{rest_url}/v1/nodes/{node}/keys", message)
        except QuicksilverError as error:
            if not error.retriable:
                log.faults.append(f"keys of {node}: {error}")
                return
            await asyncio.sleep(AGAIN_S)
        else:
            return


def _seen(key: MasterKey) -> NodeMasterKey:
    return NodeMasterKey(key.key_id, key.secret)


def await_keys(nodes: int, rest_url: str, workers: int) -> int:
    """Return when each worker may grant on all nodes, or after some minutes; on how many the last one may.

    Raises requests.RequestException.
    """
    end_s, count = time.monotonic() + _ALL_S, 0
    for worker in range(workers):
        while (count := _nodes_with_keys(f"{rest_url}/metrics?worker={worker}")) < nodes and time.monotonic() < end_s:
            time.sleep(_POLL_S)
    return count


def _nodes_with_keys(url: str) -> int:
    answer = requests.get(url, timeout=_PATIENCE_S)
    answer.raise_for_status()
    return sum(int(float(value)) for value in _NODES.findall(answer.text))
