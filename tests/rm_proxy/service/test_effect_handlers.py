"""Effects carried out: messages for one node leave together, and no class of effect is without a handler."""

from __future__ import annotations

from typing import get_args
from unittest.mock import Mock

import pytest

from quicksilver.common.messages import Grants
from rm_proxy.attempt.effects import Confirmed, DropHeld, Effect, FellBack, Refused, Returned
from rm_proxy.coordinator.error_budget import FaultKind
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.service.effect_handlers import EffectHandlers


class Handlers(EffectHandlers):
    def __init__(self) -> None:
        self.metrics, self.bypass, self.announcer = ProxyMetrics(), Mock(), Mock()
        self.sent: list[tuple[str, Grants]] = []
        self.announcer.send = lambda node_id, message: self.sent.append((node_id, message))
        super().__init__(self.metrics, Mock(), Mock(), self.bypass, self.announcer, Mock())


def test_each_class_of_effect_has_a_handler() -> None:
    assert set(Handlers()._handlers) == set(get_args(Effect))


def test_messages_for_one_node_leave_together() -> None:
    handlers = Handlers()
    handlers.handle([DropHeld("n1:1", "a", "over"), DropHeld("n2:1", "b", "over"), DropHeld("n1:1", "c", "late")])
    assert [(node_id, message.drop, message.drop_reason) for node_id, message in handlers.sent] == [
        ("n1:1", ["a", "c"], "late"),
        ("n2:1", ["b"], "over"),
    ]
    handlers.handle([])
    assert len(handlers.sent) == 2, "they leave once"


def test_a_confirmed_container_is_counted_and_its_sidecar_hears_of_it() -> None:
    handlers = Handlers()
    handlers.handle([Confirmed("n1:1", "a", 0.003), DropHeld("n1:1", "b", "over"), Confirmed("n1:1", "c", -0.1)])
    assert handlers.sent == [("n1:1", Grants(known=["a", "c"], drop=["b"], drop_reason="over"))]
    value = handlers.metrics.registry.get_sample_value
    assert value("quicksilver_proxy_own_grants_total", {"result": "ahead"}) == 2
    assert value("quicksilver_proxy_own_grant_confirmed_seconds_bucket", {"le": "0.002"}) == 1


def test_messages_leave_though_a_later_effect_fails() -> None:
    handlers = Handlers()
    handlers.bypass.fault.side_effect = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        handlers.handle([DropHeld("n1:1", "a", "over"), Refused("application_1_0001", "no")])
    assert [node_id for node_id, _ in handlers.sent] == ["n1:1"]


def test_faults_and_counts() -> None:
    handlers = Handlers()
    handlers.handle(
        [
            Refused("application_1_0001", "no"),
            FellBack("application_1_0001", "n1:1 did not grant it", 2),
            FellBack("application_1_0001", "no node has room"),
            Returned("container_1", "nobody asked for it"),
        ]
    )
    handlers.bypass.fault.assert_called_once_with(FaultKind.REFUSED, "application_1_0001")
    value = handlers.metrics.registry.get_sample_value
    assert value("quicksilver_proxy_fallbacks_total", {"reason": "ungranted"}) == 2
    assert value("quicksilver_proxy_fallbacks_total", {"reason": "no_node"}) == 1
    assert value("quicksilver_proxy_releases_total", {"reason": "unwanted"}) == 1
