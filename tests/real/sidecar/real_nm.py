"""A NodeManager that is none but starts real processes, as DefaultContainerExecutor does; for storms of containers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path

from hadoop_rpc.protos import yarn_pb2 as y
from sidecar.gate.start_messages import container_id
from sidecar.resizer.processes import scan
from tests.sidecar.fakes import APP, FakeNm

_KILL_AFTER_S = 0.25


class ProcessNm(FakeNm):
    """Runs the command of each start as a session of its own, with a pid file; a leader that ends takes all along."""

    def __init__(self, local_dir: Path) -> None:
        super().__init__()
        self.leaders: dict[str, int] = {}
        """Of containers that live."""
        self.ever: dict[int, str] = {}
        self._private = local_dir / "nmPrivate" / APP
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._pidfds: dict[str, int] = {}

    def end(self, container: str) -> None:
        """Stop a container: SIGTERM to its process group, SIGKILL after a while."""
        if container not in self.leaders:
            super().end(container)
            return
        self.signal(container, signal.SIGTERM)
        asyncio.get_running_loop().call_later(_KILL_AFTER_S, self.signal, container, signal.SIGKILL)

    def signal(self, container: str, number: int) -> None:
        """Send a signal to a container's process group, if it is there still."""
        if container in self.leaders:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.leaders[container], number)

    def close(self) -> None:
        """End all that lives."""
        for container in list(self.leaders):
            self.signal(container, signal.SIGKILL)
            self._processes[container].wait(10)
            self._gone(container)

    def _start(self, request: y.StartContainersRequestProto) -> y.StartContainersResponseProto:
        answer = super()._start(request)
        for one in request.start_container_request:
            token = y.ContainerTokenIdentifierProto.FromString(one.container_token.identifier)
            self._run(container_id(token.containerId), one.container_launch_context.command[0])
        return answer

    def _run(self, container: str, command: str) -> None:
        process = subprocess.Popen(["bash", "-c", command], start_new_session=True, stderr=subprocess.DEVNULL)
        self._processes[container], self.leaders[container] = process, process.pid
        self.ever[process.pid] = container
        folder = self._private / container
        folder.mkdir(parents=True)
        (folder / "new").write_text(f"{process.pid}\n")
        (folder / "new").rename(folder / f"{container}.pid")
        self._pidfds[container] = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._pidfds[container], self._gone, container)

    def _gone(self, container: str) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfds[container])
        os.close(self._pidfds.pop(container))
        self.signal(container, signal.SIGKILL)  # what its leader left behind
        self._processes.pop(container).wait()
        del self.leaders[container]
        folder = self._private / container
        (folder / f"{container}.pid").unlink()
        folder.rmdir()
        super().end(container)

    def left(self) -> dict[int, str]:
        """Return living processes of all containers that there were."""
        return {p.pid: self.ever[p.session] for p in scan().values() if p.session in self.ever and not p.over}
