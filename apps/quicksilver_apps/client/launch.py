"""What is submitted: the master's container, with the files, environment, tokens and rights that YARN gives it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from hadoop_rpc.protos import yarn_pb2
from hadoop_rpc.protos.yarn_client_pb2 import ApplicationSubmissionContextProto
from quicksilver_apps.client.errors import ClientError
from quicksilver_apps.client.hdfs.staging import StagedFile
from quicksilver_apps.description.model import Application
from quicksilver_apps.master.archive import NAME as ARCHIVE

APPLICATION_TYPE: Final = "QUICKSILVER"
_TAGS, _TAG_LENGTH = 10, 100
"""Of one application; YARN takes no more (`ApplicationSubmissionContextPBImpl.checkTags`)."""


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file of the instances, staged."""

    service: str
    """"": of all services."""
    name: str
    kind: str
    """file or archive."""
    staged: StagedFile


@dataclass(frozen=True, slots=True)
class ApplicationLaunch:
    """All of one submission, except for its id."""

    application: Application
    archive: StagedFile
    description: StagedFile
    resources: StagedFile
    key: str
    user: str | None = None
    """Whom the master says to be, on an insecure cluster."""
    python: str = "python3"
    """The interpreter on the nodes."""
    tokens: bytes = b""
    """In Hadoop's token storage format."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """More environment of the master."""
    tags: tuple[str, ...] = ()
    """YARN tags beside those of the description."""
    view_acl: str = ""
    """Who may see it, as Hadoop writes it: `user1,user2 group1`; "": its user alone."""
    modify_acl: str = ""
    """Who may change it."""

    def context(self, app_id: yarn_pb2.ApplicationIdProto) -> ApplicationSubmissionContextProto:
        """Return the message that submits it."""
        app = self.application
        context = ApplicationSubmissionContextProto(
            application_id=app_id,
            application_name=app.name,
            priority=yarn_pb2.PriorityProto(priority=app.priority),
            am_container_spec=self._container(),
            maxAppAttempts=app.attempts,
            resource=yarn_pb2.ResourceProto(memory=app.master.memory_mb, virtual_cores=app.master.vcores),
            applicationType=APPLICATION_TYPE,
            keep_containers_across_application_attempts=True,
            applicationTags=tags_of(app, self.tags),
        )
        if app.queue:
            context.queue = app.queue
        return context

    def _container(self) -> yarn_pb2.ContainerLaunchContextProto:
        spec = yarn_pb2.ContainerLaunchContextProto()
        private, own = yarn_pb2.PRIVATE, yarn_pb2.APPLICATION
        for name, file, shown in (
            (ARCHIVE, self.archive, private),
            ("application.json", self.description, own),
            ("resources.json", self.resources, own),
        ):
            spec.localResources.add(key=name).value.CopyFrom(_local_resource(file, shown))
        named = {"HADOOP_USER_NAME": self.user} if self.user else {}
        for name, value in {**self.environment, **named, "QUICKSILVER_APP_KEY": self.key}.items():
            spec.environment.add(key=name, value=value)
        spec.command.append(f"env -u PYTHONPATH {self.python} {ARCHIVE} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr")
        if self.tokens:
            spec.tokens = self.tokens
        if self.view_acl:
            spec.application_ACLs.add(accessType=yarn_pb2.APPACCESS_VIEW_APP, acl=self.view_acl)
        if self.modify_acl:
            spec.application_ACLs.add(accessType=yarn_pb2.APPACCESS_MODIFY_APP, acl=self.modify_acl)
        return spec


def tags_of(application: Application, more: tuple[str, ...] = ()) -> list[str]:
    """Return the YARN tags: those of the model, `NAME=VALUE` for each label, and more. Raises ClientError."""
    tags = [*application.tags(), *more, *(f"{name}={value}" for name, value in application.labels.items())]
    for tag in tags:
        if len(tag) > _TAG_LENGTH or not tag.isascii():
            problem = f"{tag!r} is no tag of YARN: that has {_TAG_LENGTH} characters of ASCII at most"
            raise ClientError(problem, place="labels", remedy="shorten it")
    if len(tags) > _TAGS:
        problem = f"{len(tags)} tags, of which {len(application.labels)} are labels; YARN takes {_TAGS}"
        raise ClientError(problem, place="labels", remedy="leave some out")
    return tags


def resources_json(archive: StagedFile, files: Iterable[NeededFile], schedulers: Iterable[str], python: str) -> bytes:
    """Return resources.json, from which the master knows what to localise for instances and which scheduler to ask."""
    listed = [{"service": each.service, "name": each.name, "kind": each.kind, **_where(each.staged)} for each in files]
    body = {"archive": _where(archive), "files": listed, "rm_scheduler": list(schedulers), "python": python}
    return json.dumps(body, indent=1).encode()


def _where(file: StagedFile) -> dict[str, Any]:
    return {"uri": file.uri, "size": file.size, "timestamp_ms": file.timestamp_ms}


def _local_resource(
    file: StagedFile, visibility: yarn_pb2.LocalResourceVisibilityProto.ValueType
) -> yarn_pb2.LocalResourceProto:
    return yarn_pb2.LocalResourceProto(
        resource=url_of(file.uri),
        size=file.size,
        timestamp=file.timestamp_ms,
        type=yarn_pb2.FILE,
        visibility=visibility,
    )


def url_of(uri: str) -> yarn_pb2.URLProto:
    """Return a URI as YARN's messages have it."""
    parts = urlsplit(uri)
    url = yarn_pb2.URLProto(scheme=parts.scheme, file=parts.path)
    if parts.hostname:
        url.host = parts.hostname
    if parts.port is not None:
        url.port = parts.port
    return url
