"""A NodeManager comes back as another process: with another shuffle port, and another port of its own."""

from __future__ import annotations

from pathlib import Path

from tests.sidecar.fakes import FakeAm, cid, start_request
from tests.sidecar.service.test_server import until, world


async def test_nothing_of_the_earlier_process_is_told_after_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.grant(2, 3)
        state = w.sidecar.node.state
        await until(lambda: w.sidecar.identity.node_id == "node1:8041")
        am = await FakeAm.connect(w.port)
        answer = await am.start(start_request(cid(2), opportunistic=True))
        assert answer.services_meta_data[0].value == (13562).to_bytes(4, "big")
        await w.nm.stop()
        await until(lambda: bool(state.nm_down))
        w.nm.shuffle_port, w.nm.node_id = 18562, "node1:40321"
        await w.nm.start()
        await until(lambda: not state.nm_down)
        again = await FakeAm.connect(w.port)
        answer = await again.start(start_request(cid(3), opportunistic=True))
        assert answer.services_meta_data[0].value == (18562).to_bytes(4, "big")
        await until(lambda: w.sidecar.identity.node_id == "node1:40321")
        await am.close()
        await again.close()
