"""An end that a guaranteed start waits for counts when the NodeManager knows of it, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from policies.config.policy_set import Policies
from tests.sidecar.fakes import FakeAm, cid, start_request
from tests.sidecar.service.test_server import World, until, world

GRACE = {"preempt": {"policy": "kill_newest", "settings": {"grace_s": 30.0}}}


async def ended_before_the_nodemanager_knows(w: World, process: asyncio.subprocess.Process) -> tuple[FakeAm, FakeAm]:
    """Fill the node with two queueable containers, let a guaranteed start wait, and end the first one's process."""
    w.sidecar.policies.current = Policies.load(GRACE)
    await w.grant(2, expected_s=5.0)
    await w.grant(3, expected_s=500.0)
    w.pid_file(2, process.pid)
    am, other = await FakeAm.connect(w.port), await FakeAm.connect(w.port)
    for serial in (2, 3):
        await am.start(start_request(cid(serial), opportunistic=True))
    await until(lambda: w.nm.running == {cid(2), cid(3)})
    await until(lambda: cid(2) in w.sidecar.dispatcher.watcher.seen())
    asking = asyncio.create_task(other.start(start_request(cid(4), opportunistic=False)))
    await until(lambda: w.sidecar.node.guaranteed.waiting)
    process.kill()
    await process.wait()
    await until(lambda: ("getContainerStatuses", (cid(2),)) in w.nm.calls)
    await asyncio.sleep(0.1)
    assert cid(4) not in w.nm.running, "the NodeManager would kill the other one for it"
    w.nm.end(cid(2))
    await asking
    return am, other


async def test_a_guaranteed_start_goes_up_when_the_nodemanager_knows_of_the_room(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    async with world(tmp_path) as w:
        ams = await ended_before_the_nodemanager_knows(w, process)
        assert w.nm.running == {cid(3), cid(4)}
        await until(lambda: w.proxy.kinds(cid(2)) == ["held", "started", "ended"])
        assert w.proxy.kinds(cid(3)) == ["held", "started"]
        for am in ams:
            await am.close()
