"""A running sidecar takes settings over: order and least attained service live, the rest named and kept."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
import requests

from policies.config.policy_set import Policies
from policies.model import ContainerView, Kind, Resources
from policies.preempt.las import Las as LasSettings
from quicksilver.common.messages import ReloadRequest
from sidecar.cpu_sharing.events import Shrink
from sidecar.node.events import Launch, Retuned
from sidecar.node.sharing import Sharing
from sidecar.service.reload import takeable
from tests.sidecar.node.test_sharing import run as come
from tests.sidecar.node.test_sharing import shared
from tests.sidecar.service.test_server import PATIENCE_S, World, until, world


def of(preempt: str, **settings: object) -> Policies:
    return Policies.load({"preempt": {"policy": preempt, "settings": settings}})


@pytest.mark.parametrize(
    ("old", "new", "hands", "kept"),
    [
        ("kill_newest", "none", False, ""),
        ("las", "freeze", True, ""),
        ("las", "kill_newest", False, ""),
        ("las", "kill_newest", True, "policies.preempt stays las: kill_newest needs a restart (it restores"),
        ("none", "las", False, "policies.preempt stays none: las needs a restart (it chooses its resizer"),
    ],
)
def test_what_a_running_sidecar_can_take_over(old: str, new: str, hands: bool, kept: str) -> None:
    sharing = shared().state.sharing if hands else Sharing()
    now, named = takeable(of(new), of(old), sharing)
    assert now.policy_name("preempt") == (old if kept else new)
    assert len(named) == bool(kept) and all(one.startswith(kept) for one in named)


def test_settings_of_least_attained_service_change_live() -> None:
    node = shared(cores=1, extra=0)
    come(node, "a", 0)
    assert not [c for c in come(node, "b", 1) if isinstance(c, Launch)] and len(node.state.queue) == 1
    started = node.handle(Retuned(LasSettings(quantum_s=5, extra=1), 2))
    assert [c.container_id for c in started if isinstance(c, Launch)] == ["b"]
    assert node.state.sharing.las is not None and node.state.sharing.las.rules.quantum_s == 5
    assert node.state.rules.extra_vcores == 1
    assert not [c for c in started if isinstance(c, Shrink)], "nobody gives way before the newcomer is in hand"


async def post(w: World, **body: object) -> requests.Response:
    return await asyncio.to_thread(requests.post, f"{w.rest}/v1/policies/reload", json=body, timeout=PATIENCE_S)


async def test_by_rest_and_by_signal(tmp_path: Path) -> None:
    path = tmp_path / "quicksilver.yaml"

    async with world(tmp_path) as w:
        w.sidecar._reloader.source = path
        before = (await w.get("/healthz")).json()["settings_version"]
        path.write_text("policies: {order: {policy: fifo}}\nsidecar: {reserve_mb: 7}\n")
        answer = (await post(w, who="ann")).json()
        assert answer["before"] == before and answer["version"].startswith("2-")
        assert "policies.order.policy" in [change["path"] for change in answer["changes"]]
        assert "sidecar.reserve_mb changed in the file: needs a restart, the old value stays" in answer["kept"]
        assert w.sidecar.policies.current.policy_name("order") == "fifo"
        path.write_text("policies: {order: {policy: fofi}}\n")
        refused = await post(w)
        assert refused.status_code == 422 and refused.json()["error"]["code"] == "settings-refused"
        assert f"{path}:1:28" in refused.json()["error"]["message"]
        assert (await w.get("/healthz")).json()["settings_version"] == answer["version"]
        path.write_text("policies: {order: {policy: job_submission}}\n")
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: w.sidecar.policies.current.policy_name("order") == "job_submission")
        assert w.proxy.reports[-1].settings_version
        text = (await w.get("/metrics")).text
        assert 'quicksilver_sidecar_reloads_total{how="sighup",result="ok"} 1.0' in text
        assert 'quicksilver_sidecar_reloads_total{how="rest",result="refused"} 1.0' in text


async def test_a_misspelt_request_is_refused(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        answer = await post(w, fiel="x")
        assert answer.status_code == 422 and answer.json()["error"]["code"] == "invalid"
    assert ReloadRequest().nodes is False


async def test_counts_of_alternatives_in_shadow_are_reported(tmp_path: Path) -> None:
    named = {"alternatives": {"other": {"preempt": {"policy": "none"}}}, "shadow": ["other"]}

    async with world(tmp_path) as w:
        w.sidecar.policies.current = Policies.load({"preempt": {"policy": "kill_newest"}, **named})
        running = ContainerView("c1", "application_1_0001", Kind.QUEUEABLE, Resources(1024, 1))
        assert w.sidecar.policies.victims(Resources(512, 0), [running], 1.0) == ["c1"]
        w.sidecar.dispatcher.reporter.changed()
        await until(lambda: bool(w.proxy.reports[-1].compared))
        (count,) = w.proxy.reports[-1].compared
        assert (count.alternative, count.slot, count.decisions, count.differ) == ("other", "preempt", 1, 1)
        assert (count.chosen, count.other) == ("kills c1", "kills none")
