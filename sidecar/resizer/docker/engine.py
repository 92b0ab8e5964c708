"""The Docker Engine's API for resizing; every fault is a ResizeRefusedError.

The SDK costs memory, so it is imported with the first call. Requests are sent by its `post`, because its own
`update_container` does not know NanoCpus.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sidecar.resizer.base import ResizeRefusedError

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")
DEFAULT_URL: Final = "unix:///var/run/docker.sock"
_RUNS: Final = ("running", "paused")
_UNIX: Final = "unix://"
_TIMEOUT_S: Final = 10.0
_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class DockerLimits:
    """CPU limits in HostConfig; 0 means that a limit was never set."""

    nano_cpus: int
    cpu_quota: int
    cpu_period: int
    cpu_shares: int


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """A Docker container as `docker inspect` shows it."""

    docker_id: str
    pid: int
    status: str
    limits: DockerLimits

    @property
    def runs(self) -> bool:
        """Whether its processes exist."""
        return self.status in _RUNS

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.status == "paused"

    @property
    def begins(self) -> bool:
        """Whether it has not run yet."""
        return self.status in ("created", "restarting")


class Engine:
    """One daemon; threads may share it. The next call opens a lost connection again."""

    def __init__(self, url: str = DEFAULT_URL, timeout_s: float = _TIMEOUT_S) -> None:
        self.url, self.timeout_s = url, timeout_s

    def find(self, name: str, container_id: str) -> DockerContainer | None:
        """Return the Docker container of this name or id, None when there is none. Raises ResizeRefusedError."""

        def inspect() -> DockerContainer | None:
            from docker.errors import NotFound

            try:
                return _docker_container(self._client.inspect_container(name))
            except NotFound:
                return None

        return self._answer("inspect", container_id, inspect)

    def update(self, docker_id: str, limits: Mapping[str, int], container_id: str) -> None:
        """Write limits, named as in the Engine API (NanoCpus, CpuQuota, CpuShares). Raises ResizeRefusedError."""
        setting = ", ".join(f"{name}={value}" for name, value in limits.items())
        self._change(f"docker update {setting}", docker_id, "update", container_id, limits)

    def pause(self, docker_id: str, container_id: str) -> None:
        """Freeze all processes. Raises ResizeRefusedError, for a container that is paused already too."""
        self._change("docker pause", docker_id, "pause", container_id)

    def unpause(self, docker_id: str, container_id: str) -> None:
        """Let them go on. Raises ResizeRefusedError, for a container that is not paused too."""
        self._change("docker unpause", docker_id, "unpause", container_id)

    def close(self) -> None:
        """Close the connections."""
        client = self.__dict__.pop("_client", None)
        if client is not None:
            client.close()

    @cached_property
    def _client(self) -> APIClient:
        from docker import APIClient

        return APIClient(self.url, version="auto", timeout=int(self.timeout_s), max_pool_size=_CONNECTIONS)

    def _change(
        self, setting: str, docker_id: str, verb: str, container_id: str, body: Mapping[str, int] | None = None
    ) -> None:
        def post() -> None:
            from docker.errors import APIError
            from requests import HTTPError

            client = self._client
            address = f"{client.base_url}/v{client.api_version}/containers/{docker_id}/{verb}"
            response = client.post(address, json=body, timeout=self.timeout_s)
            try:
                response.raise_for_status()
            except HTTPError as error:
                raise APIError(str(error), response, _message(response)) from error

        try:
            self._answer(setting, container_id, post)
        except ResizeRefusedError as error:
            if not error.gone and not error.retriable:
                docker = self.find(docker_id, container_id)  # a container that ends is refused in many words
                if docker is None or not docker.runs:
                    raise ResizeRefusedError(container_id, setting, error.why, gone=True) from error
            raise

    def _answer(self, setting: str, container_id: str, call: Callable[[], T]) -> T:
        try:
            self._knock()
        except OSError as error:
            raise self._silent(setting, container_id, error.strerror or str(error)) from error
        from docker.errors import APIError, DockerException, NotFound
        from requests import RequestException

        try:
            return call()
        except NotFound as error:
            raise ResizeRefusedError(container_id, setting, str(error.explanation or error), gone=True) from error
        except APIError as error:
            raise ResizeRefusedError(container_id, setting, str(error.explanation or error)) from error
        except (RequestException, DockerException) as error:
            raise self._silent(setting, container_id, str(error)) from error

    def _knock(self) -> None:
        """Raise OSError when nothing listens: the SDK would be loaded in vain, and would leave a socket open."""
        if self.url.startswith(_UNIX):
            with socket.socket(socket.AF_UNIX) as knocking:
                knocking.settimeout(self.timeout_s)
                knocking.connect(self.url.removeprefix(_UNIX))

    def _silent(self, setting: str, container_id: str, why: str) -> ResizeRefusedError:
        return ResizeRefusedError(
            container_id,
            setting,
            f"the Docker daemon at {self.url} does not answer ({why})",
            remedy="see that dockerd runs and that the sidecar's user may open its socket",
            retriable=True,
        )


def _docker_container(answer: Mapping[str, Any]) -> DockerContainer:
    state, host = answer["State"], answer["HostConfig"]
    limits = DockerLimits(
        nano_cpus=int(host.get("NanoCpus") or 0),
        cpu_quota=int(host.get("CpuQuota") or 0),
        cpu_period=int(host.get("CpuPeriod") or 0),
        cpu_shares=int(host.get("CpuShares") or 0),
    )
    return DockerContainer(str(answer["Id"]), int(state.get("Pid") or 0), str(state["Status"]), limits)


def _message(response: Any) -> str:
    """Return the daemon's error message: JSON, unless a proxy in between answered."""
    try:
        return str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        return str(response.text)[:300]
