"""Static files of pages, held in memory and served below a path with a hash of all of them."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from fastapi import APIRouter, Request, Response

from quicksilver.common import http
from quicksilver.common.http.rest_errors import ApiError

FOLDER: Final = Path(__file__).parent / "static"
"""What all servers have."""
UPLOT: Final = Path(http.__file__).parent / "uplot"
"""The library of charts, which pages of results have, too."""
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    "": "text/plain; charset=utf-8",
}
FOREVER: Final = "public, max-age=31536000, immutable"


class Assets:
    """All files of FOLDER and `folders`, and the library of charts below `vendor/uplot`: 150 kB, read when wanted."""

    def __init__(self, *folders: Path) -> None:
        self._folders = (FOLDER, *folders)
        self._packed: dict[str, bytes] = {}

    @classmethod
    def of_package(cls, package: str) -> Self:
        """Return those of a package with a folder `static`. Raises ModuleNotFoundError."""
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"there is no package {package}")
        return cls(Path(spec.submodule_search_locations[0]) / "static")

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Contents by path, with slashes."""
        read: dict[str, bytes] = {}
        for folder in self._folders:
            read |= _read(folder, "")
        return read | _read(UPLOT, "vendor/uplot/")

    @cached_property
    def version(self) -> str:
        """Hash of all names and contents."""
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()[:12]

    def packed(self, name: str) -> bytes:
        """Return a file compressed with gzip. Raises KeyError."""
        if name not in self._packed:
            self._packed[name] = gzip.compress(self.files[name], mtime=0)
        return self._packed[name]

    def routes(self) -> APIRouter:
        """Return the route `/static/{version}/{name}`; another version gets the present file, not to be kept."""
        router = APIRouter()

        @router.get("/static/{version}/{name:path}", include_in_schema=False)
        async def static(version: str, name: str, request: Request) -> Response:
            if name not in self.files:
                raise ApiError(404, "not-found", f"the pages have no file {name}")
            headers = {"Cache-Control": FOREVER if version == self.version else "no-cache", "Vary": "Accept-Encoding"}
            media_type = TYPES[Path(name).suffix]
            if "gzip" not in request.headers.get("accept-encoding", ""):
                return Response(self.files[name], media_type=media_type, headers=headers)
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed(name), media_type=media_type, headers=headers)

        return router


def _read(folder: Path, prefix: str) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in TYPES)
    return {prefix + path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
