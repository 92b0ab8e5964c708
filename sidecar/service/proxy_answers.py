"""Converts what the active proxy says into events for the node machine."""

from __future__ import annotations

import time

from quicksilver.common.messages import Ack, Grants
from sidecar.connections.event_queue import EventQueue
from sidecar.node.events import Drain, Dropped, Granted, NowKnown, Targeted
from sidecar.node.node import SidecarNode


def handle_ack(ack: Ack, node: SidecarNode, queue: EventQueue) -> bool:
    """Pass the proxy's orders to the node machine; return whether the node should report again at once."""
    now_s = time.time()
    drain_changed = ack.drain is not None and ack.drain != node.state.drains.get("yarn", "")
    if drain_changed and ack.drain is not None:
        queue.put(Drain(bool(ack.drain), ack.drain, now_s, "yarn"))
    if ack.known:
        queue.put(NowKnown(tuple(ack.known), now_s))
    if ack.drop:
        queue.put(Dropped(tuple(ack.drop), ack.drop_reason, now_s))
    if ack.targets is not None or ack.shed or ack.promoted:
        queue.put(Targeted(ack.targets, tuple(ack.shed), tuple(ack.promoted), now_s))
    return drain_changed


def handle_grants(message: Grants, queue: EventQueue) -> None:
    """Store announcements of queueable containers and which the ResourceManager knows; drop unwanted starts."""
    now_s = time.time()
    if message.grants:
        queue.put(Granted(tuple(message.grants), now_s))
    if message.known:  # possibly just announced
        queue.put(NowKnown(tuple(message.known), now_s))
    if message.drop:  # possibly just announced
        queue.put(Dropped(tuple(message.drop), message.drop_reason, now_s))
