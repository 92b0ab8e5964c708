"""The built documentation at `/ui/docs/`: static files of a folder that a release has."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from quicksilver.common.http.rest_errors import ApiError
from quicksilver.common.web.pages import HEADERS, Pages

SITE: Final = Path(__file__).parents[2] / "site"
"""What `make docs` builds."""
_CSP: Final = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; worker-src 'self' blob:; base-uri 'self'; frame-ancestors 'self'"
)
"""The generator of the site writes inline scripts and styles; nothing in it comes from users."""


def docs_routes(pages: Pages, site: Path = SITE) -> APIRouter:
    """Return the routes; without a built site, a page says so."""
    router = APIRouter()

    @router.get("/docs")
    async def to_docs() -> Response:
        return RedirectResponse("docs/", 307)

    @router.get("/docs/{path:path}")
    def docs(path: str, request: Request) -> Response:
        if not (site / "index.html").is_file():
            if path:
                raise ApiError(404, "not-found", "the documentation is not built here")
            return pages.render(request, "docs.html", title="Docs", section="docs/")
        file = (site / path).resolve()
        if not file.is_relative_to(site.resolve()):
            raise ApiError(404, "not-found", f"the documentation has no page {path}")
        if file.is_dir() and path and not path.endswith("/"):
            return RedirectResponse(f"{file.name}/", 307)
        file = file / "index.html" if file.is_dir() else file
        if not file.is_file():
            raise ApiError(404, "not-found", f"the documentation has no page {path}")
        headers = HEADERS | {"Content-Security-Policy": _CSP, "Cache-Control": "no-cache"}
        return FileResponse(file, media_type=mimetypes.guess_type(file.name)[0], headers=headers)

    return router
