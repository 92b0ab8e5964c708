"""What the ResourceManager's REST says, and no longer says."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import uvloop
from fastapi import FastAPI, HTTPException

from rm_proxy import refresh
from rm_proxy.config import ProxySettings
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.refresh import Refresher
from shell.rest import bound_socket, serve
from tests.rm_proxy.yarn import Am, coordinator


def test_an_application_is_over_when_yarn_does_not_know_it_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI()
    away = False

    @app.get("/ws/v1/cluster/apps")
    def none_runs() -> dict[str, Any]:
        return {"apps": None}

    @app.get("/ws/v1/cluster/apps/{app_id}")
    def unknown(app_id: str) -> dict[str, Any]:
        raise HTTPException(503 if away else 404)

    am = Am(coordinator(nodes=1))

    async def story() -> list[bool]:
        nonlocal away
        sock = bound_socket("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        task = asyncio.create_task(serve(app, sock))
        refresher = Refresher(
            am.world, cast(Any, None), ProxyMetrics(), ProxySettings(), url, lambda: None, lambda: None
        )
        over = []
        for away, unknown_s in ((False, 60.0), (False, 60.0), (True, 0.0), (False, 0.0)):  # noqa: B007 read above
            monkeypatch.setattr(refresh, "UNKNOWN_S", unknown_s)
            await refresher.apps()
            over.append(am.attempt.finished)
        refresher.start()
        refresher.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return over

    assert uvloop.run(story()) == [False, False, False, True]
