"""An application of quicksilver on a local cluster: submitted, watched and changed by the client's own parts."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import requests

from quicksilver.common.errors import QuicksilverError
from quicksilver_apps.client.login import Login
from quicksilver_apps.client.master_api import MasterApi
from quicksilver_apps.client.master_places import MasterPlaces
from quicksilver_apps.client.records import ClientRecords
from quicksilver_apps.client.rm import id_of
from quicksilver_apps.client.session import Session
from quicksilver_apps.client.site import ClusterSite
from quicksilver_apps.client.submission import Described, Submitter
from quicksilver_apps.description.model import Application
from quicksilver_lab.cluster.cluster import Cluster

T = TypeVar("T")
WAIT_S = 90.0


class RunningApp:
    """One submitted application. `folder`: for its staged files and its record."""

    def __init__(self, cluster: Cluster, folder: Path, description: dict[str, Any]) -> None:
        self.cluster = cluster
        site = ClusterSite.load(cluster.conf_dir)
        session = Session(site, Login.of(site), f"file://{folder}/staging")
        app = Application.model_validate({"version": 1, **description})
        submitter = Submitter(session, records=ClientRecords(folder / "records"))
        self.record = asyncio.run(submitter.submit(Described(app, folder, "test")))
        self.id = self.record.application_id

    def report(self) -> dict[str, Any]:
        """Return what the ResourceManager's REST says of it."""
        answer = requests.get(f"{self.cluster.rm_rest}/ws/v1/cluster/apps/{self.id}", timeout=20)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()["app"]
        return found

    def attempts(self) -> int:
        """Return how many attempts there were."""
        answer = requests.get(f"{self.cluster.rm_rest}/ws/v1/cluster/apps/{self.id}/appattempts", timeout=20)
        return len(answer.json()["appAttempts"]["appAttempt"])

    def scale(self, service: str, count: int) -> dict[str, Any]:
        """Have its master keep `count` elastic instances of a service; return the service."""
        return asyncio.run(self._ask(lambda api: api.scale(service, count)))

    def stop(self, status: str, reason: str) -> None:
        """Have its master end it."""
        asyncio.run(self._ask(lambda api: api.stop(status, reason)))

    def state(self) -> dict[str, Any]:
        """Return the application as its master has it; {} while no master answers."""
        try:
            return asyncio.run(self._ask(lambda api: api.application()))
        except (QuicksilverError, requests.RequestException, ValueError):
            return {}

    async def _ask(self, do: Callable[[MasterApi], Awaitable[T]]) -> T:
        site = ClusterSite.load(self.cluster.conf_dir)
        async with Session(site, Login.of(site)).rm() as rm:
            url = await MasterPlaces().url_of(rm, await rm.report(id_of(self.id)))
        async with MasterApi(url, self.id, self.record.key) as api:
            return await do(api)

    def service(self, name: str) -> dict[str, Any]:
        """Return a service as the master has it; {} while no master answers."""
        return next((each for each in self.state().get("services", []) if each["name"] == name), {})

    def instances(self, name: str, *states: str) -> list[dict[str, Any]]:
        """Return the instances of a service that are in one of the states."""
        return [each for each in self.service(name).get("instances", []) if each["state"] in states]

    def wait(self, what: str, holds: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
        """Wait until `holds` returns something true, and return that."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            found = holds()
            if found:
                return found
            report = self.report()
            if report["finalStatus"] != "UNDEFINED" and report["state"] in ("FINISHED", "FAILED", "KILLED"):
                if found := holds():
                    return found
                raise AssertionError(f"{what}: the application ended: {report['finalStatus']} {report['diagnostics']}")
            time.sleep(0.25)
        raise AssertionError(f"{what}: not within {timeout_s} s; {self.state()}")

    def wait_ended(self, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """Wait for its end; return the ResourceManager's report."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            report = self.report()
            if report["state"] in ("FINISHED", "FAILED", "KILLED"):
                return report
            time.sleep(0.25)
        raise AssertionError(f"not ended within {timeout_s} s: {self.report()}")

    def wait_ready(self, name: str, count: int) -> list[dict[str, Any]]:
        """Wait until `count` instances of a service are ready; return them."""
        found: list[dict[str, Any]] = self.wait(
            f"{count} of {name} ready", lambda: len(some := self.instances(name, "ready")) == count and some
        )
        return found

    def processes(self, container_id: str) -> list[psutil.Process]:
        """Return the processes of a container: those in whose environment it is named, the oldest first."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("CONTAINER_ID") == container_id:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return sorted(found, key=lambda each: (each.create_time(), each.pid))

    def kill_master(self) -> None:
        """End the master's processes with SIGKILL."""
        container = self.report()["amContainerLogs"].split("/containerlogs/")[1].split("/")[0]
        mine = self.processes(container)
        assert mine, f"no process of {container}"
        for process in mine:
            os.kill(process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it, whatever it does."""
        requests.put(f"{self.cluster.rm_rest}/ws/v1/cluster/apps/{self.id}/state", json={"state": "KILLED"}, timeout=20)
        self.wait_ended()
