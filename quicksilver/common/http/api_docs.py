"""The page `/docs` of a daemon's REST: Swagger UI from files of this package, so it needs no internet.

Its addresses are relative: it works below the prefix of a web proxy too.
"""

from __future__ import annotations

import gzip
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from quicksilver.common.http.rest_errors import ApiError

HERE: Final = Path(__file__).parent
FILES: Final = {
    "swagger-ui-bundle.js": (HERE / "swagger_ui", "text/javascript; charset=utf-8"),
    "swagger-ui.css": (HERE / "swagger_ui", "text/css; charset=utf-8"),
    "favicon-32x32.png": (HERE / "swagger_ui", "image/png"),
    "api_docs.js": (HERE, "text/javascript; charset=utf-8"),
}
"""Folders and types."""
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""Swagger UI sets styles of single elements."""
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>REST of {title}</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="swagger-ui"></div>
<noscript>This page needs JavaScript. <a href="openapi.json">openapi.json</a> has the same as data.</noscript>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/api_docs.js"></script>
</body>
</html>
"""


def add_api_docs(app: FastAPI) -> None:
    """Add `/docs` to an application that was made with `docs_url=None`; /openapi.json describes tokens too."""
    page = _PAGE.format(title=escape(app.title))
    _describe_access(app)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff"})

    @app.get("/docs/{name}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        if name not in FILES:
            raise ApiError(404, "not-found", f"/docs has no file {name}")
        folder, media_type = FILES[name]
        headers = {"Cache-Control": "max-age=86400", "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response((folder / name).read_bytes(), media_type=media_type, headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(_packed(folder / name), media_type=media_type, headers=headers)


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)


def _describe_access(app: FastAPI) -> None:
    """Have /openapi.json say that calls may carry a token, and that paths begin where it lies itself."""
    openapi = app.openapi

    def described() -> dict[str, Any]:
        schema = openapi()
        parts = schema.setdefault("components", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}, {}]
        schema["servers"] = [{"url": "."}]
        return schema

    app.openapi = described  # type: ignore[method-assign]
