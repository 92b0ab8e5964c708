"""An app server as a process of its own, before a cluster that remembers in a file what was submitted.

Run it as `python -m apps.tests.server.file_cluster FOLDER PORT`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path

from apps.tests.server.fake_cluster import FakeCluster
from apps.tests.server.small_server import settings
from quicksilver_apps.server.backend import StartOrder, YarnReport, YarnState
from quicksilver_apps.server.server import AppServer, run


class FileCluster(FakeCluster):
    """Each submission is a line: the id of YARN, and of the request."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file.open("a", buffering=1)
        self._known = dict(line.split() for line in file.read_text().splitlines())
        self._ids = itertools.count(len(self._known) * 1000 + 1 + os.getpid() % 1000)

    def _take(self, order: StartOrder) -> None:
        if order.yarn_id not in self._known:
            self._known[order.yarn_id] = order.request_id
            self._file.write(f"{order.yarn_id} {order.request_id}\n")

    async def new_id(self) -> str:
        return f"application_{os.getpid()}_{next(self._ids):06d}"

    async def reports(self, yarn_ids: object) -> dict[str, YarnReport]:
        assert isinstance(yarn_ids, list)
        known = [one for one in yarn_ids if one in self._known]
        return {one: YarnReport(one, YarnState.ACCEPTED, self._known[one]) for one in known}


def main() -> None:
    folder, port = Path(sys.argv[1]), sys.argv[2]
    (folder / "submitted").touch()
    cluster = FileCluster(folder / "submitted")
    cluster.delay_s = 0.01
    asyncio.run(run(AppServer(settings(folder, rest_listen=f"127.0.0.1:{port}"), cluster)))


if __name__ == "__main__":
    main()
