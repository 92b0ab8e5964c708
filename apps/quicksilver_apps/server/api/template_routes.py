"""Routes of templates and quotas."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Response

from quicksilver.common.http.rest_errors import ApiError
from quicksilver_apps.description.reader import Template, parse_template
from quicksilver_apps.server.api.application_routes import ApplicationParts
from quicksilver_apps.server.callers import Caller
from quicksilver_apps.server.models import (
    MAX_INTEGER,
    ApplicationPage,
    QuotaInfo,
    TemplateBody,
    TemplateBrief,
    TemplateInfo,
)
from quicksilver_apps.server.records import QuotaSize, StoredTemplate
from quicksilver_apps.server.store import applications, templates
from quicksilver_apps.server.submissions import parameters_of

NAMES_OF_A_TEMPLATE: Final = 10
"""Names that are remembered for each template that may be stored."""
Name = Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


def template_routes(parts: ApplicationParts) -> APIRouter:
    """Return the routes of templates: everybody reads them, their owner and admins change them."""
    router = APIRouter(tags=["templates"])
    caller_of = Depends(parts.caller)
    database, settings = parts.journal.database, parts.settings

    @router.get("/templates", summary="All templates, by name")
    async def listing() -> ApplicationPage[TemplateBrief]:
        """The newest version of each."""
        newest = await database.read(templates.newest)
        return ApplicationPage(items=[TemplateBrief.of(template) for template in newest], offset=0, more=False)

    @router.get("/templates/{name}", summary="One template with its parameters")
    async def one(name: Name, version: Annotated[int | None, Query(ge=1, le=MAX_INTEGER)] = None) -> TemplateInfo:
        """Its newest version, or the one that is named."""
        return await template_info(parts, name, version)

    @router.put("/templates/{name}", summary="Store a template, or a new version of it")
    async def put(name: Name, body: TemplateBody, caller: Caller = caller_of) -> TemplateInfo:
        """Its text is checked first; values that a submission gives later are not missed."""
        if len(body.text.encode()) > settings.max_description_kb * 1024:
            raise ApiError(413, "too-large", f"the template has more than {settings.max_description_kb} KB")
        owner = await _owner(parts, name, caller)
        template = await asyncio.to_thread(parse_template, body.text, name)
        checked = await asyncio.to_thread(template.check)
        if checked.error is not None:
            raise checked.error
        stored = StoredTemplate(name, 0, body.text, _title(template), owner, parts.journal.clock_s(), False)
        await database.write(lambda connection: templates.put(connection, stored, settings.template_versions))
        return await template_info(parts, name, None)

    @router.delete("/templates/{name}", status_code=204, summary="Delete a template")
    async def delete(name: Name, caller: Caller = caller_of) -> Response:
        """Its earlier versions stay readable by their numbers."""
        owner = await _owner(parts, name, caller)
        before = await database.read(lambda connection: templates.get(connection, name))
        if before is None:
            raise ApiError(404, "unknown-template", f"there is no template {name}")
        gone = StoredTemplate(name, 0, "", "", owner, parts.journal.clock_s(), True)
        await database.write(lambda connection: templates.put(connection, gone, settings.template_versions))
        return Response(status_code=204)

    @router.get("/quotas", summary="Quotas, and what is used of them")
    async def quotas(caller: Caller = caller_of) -> ApplicationPage[QuotaInfo]:
        """The caller's own, and for admins and readers those of all users with applications."""
        return ApplicationPage(items=await quota_infos(parts, caller), offset=0, more=False)

    return router


async def template_info(parts: ApplicationParts, name: str, version: int | None) -> TemplateInfo:
    """Return a version of a template. Raises ApiError 404."""
    read = parts.journal.database.read
    stored = await read(lambda connection: templates.get(connection, name, version))
    if stored is None:
        which = f" of version {version}" if version else ""
        raise ApiError(404, "unknown-template", f"there is no template {name}{which}; /v1/templates has all")
    others = await read(lambda connection: templates.versions(connection, name))
    template = await asyncio.to_thread(parse_template, stored.text, name)
    return TemplateInfo(
        **TemplateBrief.of(stored).model_dump(),
        text=stored.text,
        parameters=parameters_of(template),
        versions=[TemplateBrief.of(each) for each in others],
    )


async def quota_infos(parts: ApplicationParts, caller: Caller) -> list[QuotaInfo]:
    """Return the quotas that a caller sees, by user."""
    read = parts.journal.database.read
    used, waiting = await read(applications.used), await read(applications.waiting_of)
    users = {caller.user} if caller.sees else {*used, *waiting, caller.user}
    infos = []
    for user in sorted(users - {""}):
        count, size = used.get(user, (0, QuotaSize()))
        role = caller.quota_role if user == caller.user else "user"
        quota = parts.settings.quotas.of(user, role)
        infos.append(
            QuotaInfo(
                user=user,
                quota=quota,
                applications=count,
                memory_mb=size.memory_mb,
                vcores=size.vcores,
                elastic=size.elastic,
                waiting=waiting.get(user, 0),
            )
        )
    return infos


async def _owner(parts: ApplicationParts, name: str, caller: Caller) -> str:
    """Return who owns a template after a change by `caller`. Raises ApiError when that is another's.

    A deleted one stays its owner's: who submits by its name would else run what another user put there.
    """
    versions = await parts.journal.database.read(lambda connection: templates.versions(connection, name))
    if not versions:
        count = len(await parts.journal.database.read(templates.newest))
        if count >= parts.settings.max_templates:
            raise ApiError(409, "too-many-templates", f"there are {count} templates already; delete some")
        names = await parts.journal.database.read(templates.count_of_names)
        if names >= parts.settings.max_templates * NAMES_OF_A_TEMPLATE:
            raise ApiError(409, "too-many-templates", f"{names} names are taken already, most by deleted templates")
        return caller.user
    owner = versions[0].owner
    if not caller.is_admin and owner != caller.user:
        verb = "was" if versions[0].deleted else "is"
        raise ApiError(403, "forbidden", f"the template {name} {verb} {owner}'s; store it under another name")
    return owner


def _title(template: Template) -> str:
    data = template.document.data
    title = data.get("title") if isinstance(data, dict) else None
    return title[:200] if isinstance(title, str) else ""
