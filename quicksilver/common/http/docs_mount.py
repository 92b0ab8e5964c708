"""The built documentation behind a path of a REST server."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import PlainTextResponse
from starlette.staticfiles import StaticFiles

from quicksilver.common.docs_site import site_folder

MISSING = "The documentation is not part of this installation; build it in a checkout with `make docs`.\n"


def mount_docs(app: FastAPI, path: str = "/ui/docs", folder: str | None = None) -> bool:
    """Serve the built documentation below `path`, and return whether there is one.

    folder: where the site is; None: `site_folder()`; "": none. Without a site every page below `path` is a 404 that
    names the remedy. Call it before other mounts that match `path`. Links of the site are relative, so it works behind
    any base path.
    """
    found = site_folder() if folder is None else folder
    app.mount(path, StaticFiles(directory=found, html=True) if found else PlainTextResponse(MISSING, 404), "docs")
    return bool(found)
