"""What the ResourceManager's REST says, and no longer says."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop
from fastapi import FastAPI, HTTPException

from rm_proxy import refresh
from rm_proxy.config import ProxySettings
from rm_proxy.metrics import ProxyMetrics
from rm_proxy.refresh import Refresher
from shell.rest import bound_socket, serve
from tests.rm_proxy.yarn import APP, Am, coordinator


def test_an_application_is_over_when_yarn_does_not_know_it_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI()
    away = runs = False
    now_s = 0.0
    monkeypatch.setattr(refresh, "monotonic", lambda: now_s)
    listed = {"id": APP, "user": "ann", "queue": "root.default", "applicationType": "MAPREDUCE"}

    @app.get("/ws/v1/cluster/apps")
    def running() -> dict[str, Any]:
        return {"apps": {"app": [listed]} if runs else None}

    @app.get("/ws/v1/cluster/apps/{app_id}")
    def unknown(app_id: str) -> dict[str, Any]:
        raise HTTPException(503 if away else 404)

    am = Am(coordinator(nodes=1))

    async def story() -> list[bool]:
        nonlocal away, runs, now_s
        sock = bound_socket("127.0.0.1", 0)
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        task = asyncio.create_task(serve(app, sock))
        refresher = Refresher(am.world, Mock(), ProxyMetrics(), ProxySettings(), url, lambda: None, lambda: None)
        over = []
        for now_s, runs, away in (  # noqa: B007 read above
            (0.0, False, False),
            (100.0, True, False),  # it was recovered
            (1000.0, False, False),
            (1170.0, False, False),
            (1180.0, False, True),  # no answer tells nothing
            (1181.0, False, False),
        ):
            await refresher.apps()
            over.append(am.attempt.finished)
        refresher.start()
        refresher.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return over

    assert uvloop.run(story()) == [False, False, False, False, False, True]
