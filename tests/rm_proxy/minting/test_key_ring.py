"""Which keys are used for a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rm_proxy.minting import key_ring
from rm_proxy.minting.key_ring import FRESH_S, TRIAL_S, KeyRing
from rm_proxy.minting.tokens import MasterKey, NodeKeys

RM = 1_700_000_000_000
KEYS = NodeKeys(MasterKey(1, b"12345678"), MasterKey(2, b"abcdefgh"), RM)


def ring() -> KeyRing:
    made = KeyRing()
    made.serves(RM)
    return made


def test_keys_are_used_while_they_are_fresh_and_of_this_resourcemanager() -> None:
    keys = ring()
    assert keys.keys("n1:1", 0.0) is None
    assert keys.report("n1:1", KEYS, 0.0)
    assert keys.keys("n1:1", FRESH_S) == KEYS and keys.usable(0.0) == 1
    assert keys.keys("n1:1", FRESH_S + 1) is None
    keys.serves(RM + 1)
    assert keys.keys("n1:1", 0.0) is None
    keys.report("n1:1", replace(KEYS, rm_identifier=RM + 1), 1.0)
    assert keys.keys("n1:1", 1.0) is not None
    keys.forget("n1:1")
    assert keys.keys("n1:1", 1.0) is None


def test_nothing_is_granted_before_it_is_known_which_resourcemanager_serves() -> None:
    keys = KeyRing()
    keys.report("n1:1", KEYS, 0.0)
    assert keys.keys("n1:1", 0.0) is None
    keys.serves(RM)
    assert keys.keys("n1:1", 0.0) == KEYS


def test_a_relay_that_saw_no_registration_counts_by_the_key_of_others() -> None:
    keys = ring()
    keys.report("n1:1", replace(KEYS, rm_identifier=0), 0.0)
    assert keys.keys("n1:1", 0.0) is None
    keys.report("n2:1", KEYS, 0.0)
    assert keys.keys("n1:1", 0.0) == KEYS
    keys.serves(RM + 1)
    assert keys.keys("n1:1", 0.0) is None


def test_a_resourcemanager_that_refuses_is_tried_again_later() -> None:
    keys = ring()
    keys.report("n1:1", KEYS, 0.0)
    keys.refused("Unknown protocol", 5.0)
    assert keys.keys("n1:1", 6.0) is None and keys.why_off == "Unknown protocol"
    keys.report("n1:1", KEYS, TRIAL_S)
    assert keys.keys("n1:1", 5.0 + TRIAL_S) == KEYS and keys.why_off == ""


def test_nodes_are_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ring, "MAX_NODES", 1)
    keys = ring()
    assert keys.report("n1:1", KEYS, 0.0) and not keys.report("n2:1", KEYS, 0.0)
    assert keys.report("n1:1", KEYS, 1.0) and keys.usable(1.0) == 1
    keys.clear()
    assert keys.usable(1.0) == 0
