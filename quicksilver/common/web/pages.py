"""What all pages of a server have in common: templates, relative addresses, headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape

from quicksilver.common.http.browser_login import BrowserLogin, Visitor
from quicksilver.common.process.version import version
from quicksilver.common.web.assets import Assets

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
class PageSection:
    """An entry of the navigation."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class WebSite:
    """The pages of one server."""

    package: str
    """The package whose folders `templates` and `static` they are in."""
    sections: tuple[tuple[str, str], ...]
    """Paths behind `/ui/`, and names: the navigation."""
    health: str
    """Path of the server's health as JSON, from its `/`."""
    login_words: str
    """Which tokens log in, as the end of a sentence."""
    login_example: str
    """Arguments of `quicksilver certs token` that make one."""


class Pages:
    """Renders the templates; `login` knows who looks at a page."""

    def __init__(self, site: WebSite, login: BrowserLogin) -> None:
        self.assets, self.login, self._site = Assets.of_package(site.package), login, site
        self._jinja = Environment(
            loader=ChoiceLoader([PackageLoader(site.package), PackageLoader("quicksilver.common.web")]),
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
            sections=[PageSection(path, name) for path, name in self._site.sections],
            root=root,
            ui=f"{root}ui/",
            static=f"{root}ui/static/{self.assets.version}/",
            version=version(),
            role=visitor.role,
            user=visitor.user,
            health=self._site.health,
            login_words=self._site.login_words,
            login_example=self._site.login_example,
            csrf=visitor.csrf,
            **context,
        )
        return HTMLResponse(text, status_code=status, headers=HEADERS)


def to_root(request: Request) -> str:
    """Return the relative address of the server's `/` from the page that is asked for."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return "../" * (path.partition(b"?")[0].count(b"/") - 1)
