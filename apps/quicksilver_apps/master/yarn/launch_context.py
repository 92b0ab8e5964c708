"""What a NodeManager is given to start an instance: files, variables, tokens, and the launcher's command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from hadoop_rpc.protos import yarn_pb2 as y
from quicksilver_apps.master.launcher.launcher import ARENAS_VARIABLE, KEY_VARIABLE, SPEC_VARIABLE, encode
from quicksilver_apps.master.launcher.rendezvous import instance_key
from quicksilver_apps.master.machine.spec import FilledApplication, ServiceSpec, SpecError

ARCHIVE_NAME: Final = "quicksilver-app.zip"


@dataclass(frozen=True, slots=True)
class LaunchResources:
    """resources.json: what the submitter uploaded, and where the scheduler is."""

    archive: Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]
    schedulers: Sequence[tuple[str, int]]
    python: str
    racks: Mapping[str, str]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> LaunchResources:
        """Return what the file says. Raises DescriptionError."""
        try:
            addresses = [each.rpartition(":") for each in data["rm_scheduler"]]
            schedulers = [(host, int(port)) for host, _, port in addresses]
            if not schedulers:
                raise ValueError("rm_scheduler is empty")
            files = list(data.get("files", ()))
            return cls(data["archive"], files, schedulers, data.get("python", "python3"), data.get("racks", {}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpecError(f"resources.json cannot be used ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class Contexts:
    """Makes the launch contexts of one attempt."""

    application: FilledApplication
    application_id: str
    resources: LaunchResources
    key: str
    """The secret of the application."""
    master_url: str
    tokens: bytes
    """Delegation tokens in Hadoop's storage form, or b""."""
    user: str
    """HADOOP_USER_NAME of the containers; "": it is not set."""

    def make(
        self, container_id: str, host: str, service: ServiceSpec, index: int, kind: str
    ) -> y.ContainerLaunchContextProto:
        """Return the launch context of an instance."""
        context = y.ContainerLaunchContextProto()
        if self.tokens:
            context.tokens = self.tokens
        context.localResources.add(key=ARCHIVE_NAME, value=local_resource(self.resources.archive))
        for file in self.resources.files:
            if file.get("service", "") in ("", service.name):
                context.localResources.add(key=file["name"], value=local_resource(file))
        spec = self._spec(container_id, host, service, index, kind)
        variables = {SPEC_VARIABLE: encode(spec), KEY_VARIABLE: instance_key(self.key, container_id)}
        if self.user:
            variables["HADOOP_USER_NAME"] = self.user
        if service.image:
            variables["YARN_CONTAINER_RUNTIME_TYPE"] = "docker"
            variables["YARN_CONTAINER_RUNTIME_DOCKER_IMAGE"] = service.image
        for name, value in variables.items():
            context.environment.add(key=name, value=value)
        python = shlex.quote(self.resources.python)
        context.command.append(
            f"{ARENAS_VARIABLE}=$MALLOC_ARENA_MAX MALLOC_ARENA_MAX=1 "  # NodeManagers limit virtual memory, too
            f"exec {python} -I {ARCHIVE_NAME} launch <LOG_DIR> 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"
        )
        return context

    def _spec(self, container_id: str, host: str, service: ServiceSpec, index: int, kind: str) -> dict[str, Any]:
        return {
            "container_id": container_id,
            "service": service.name,
            "index": index,
            "command": service.command,
            "ports": [{"name": each.name, "number": each.number} for each in service.ports],
            "after": list(service.after),
            "ready": {"log": service.ready.log, "command": service.ready.command, "every_s": service.ready.every_s}
            if not service.ready.port
            else {"log": "", "command": "", "every_s": service.ready.every_s},
            "environment": dict(service.environment),
            "variables": {
                "QUICKSILVER_APPLICATION_ID": self.application_id,
                "QUICKSILVER_APPLICATION_NAME": self.application.name,
                "QUICKSILVER_SERVICE": service.name,
                "QUICKSILVER_INSTANCE": index,
                "QUICKSILVER_KIND": kind,
                "QUICKSILVER_HOST": host,
                "QUICKSILVER_MASTER": self.master_url,
            },
        }


def local_resource(file: Mapping[str, Any]) -> y.LocalResourceProto:
    """Return an entry of resources.json as YARN has it."""
    url = urlsplit(file["uri"])
    resource = y.URLProto(scheme=url.scheme, file=url.path)
    if url.hostname:
        resource.host = url.hostname
    if url.port:
        resource.port = url.port
    if url.username:
        resource.userInfo = url.username
    return y.LocalResourceProto(
        resource=resource,
        size=int(file["size"]),
        timestamp=int(file["timestamp_ms"]),
        type=y.ARCHIVE if file.get("kind") == "archive" else y.FILE,
        visibility=y.APPLICATION,
    )
