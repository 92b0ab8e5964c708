"""What all pages of the dashboard have in common: templates, relative addresses, headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from quicksilver.common.http.browser_login import BrowserLogin, Visitor
from quicksilver.common.process.version import version
from rm_proxy.ui.assets import Assets

SECTIONS: Final = (
    ("", "Cluster"),
    ("nodes", "Nodes"),
    ("applications", "Applications"),
    ("queues", "Queues"),
    ("policies", "Policies"),
    ("health", "Health"),
    ("docs/", "Docs"),
)
"""Paths behind `/ui/`, and names: the navigation."""
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation."""

    path: str
    name: str


class Pages:
    """Renders the templates; `login` knows who looks at a page."""

    def __init__(self, assets: Assets, login: BrowserLogin) -> None:
        self.assets, self.login = assets, login
        self._jinja = Environment(
            loader=PackageLoader("rm_proxy.ui"),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def render(
        self, request: Request, template: str, *, title: str, section: str, status: int = 200, **context: Any
    ) -> HTMLResponse:
        """Return a page; section: path of its entry in the navigation, or one that is not there for none."""
        root = to_root(request)
        visitor: Visitor = self.login.visitor(request)
        text = self._jinja.get_template(template).render(
            title=title,
            section=section,
            sections=[Section(path, name) for path, name in SECTIONS],
            root=root,
            ui=f"{root}ui/",
            static=f"{root}ui/static/{self.assets.version}/",
            version=version(),
            role=visitor.role,
            csrf=visitor.csrf,
            **context,
        )
        return HTMLResponse(text, status_code=status, headers=HEADERS)


def to_root(request: Request) -> str:
    """Return the relative address of the proxy's `/` from the page that is asked for."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return "../" * (path.partition(b"?")[0].count(b"/") - 1)
