"""How a page is answered: a template, and headers under which nothing foreign runs, loads or frames it."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined

from airflow_privacy_release.plugin.auth import name_of
from airflow_privacy_release.plugin.views.words import breakable, day, moment, number
from privacy_engine.vocabulary import counted

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; frame-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
)
# A report is a whole page of its own: it may use its inline style, and is kept away from everything else,
# the reader's session included.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
)
_THEMES = {"dark": b"all", "light": b"not all"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_REPORTS, _PAGES = "privacy_release.reports", "airflow_privacy_release.plugin"
# Name -> the package that has the file, its path there, its kind.
STATIC = {
    "report.css": (
        _REPORTS,
        "templates/style.css",
        "text/css",
    ),  # reports look as pages do
    "pages.css": (_PAGES, "static/pages.css", "text/css"),
    "pages.js": (_PAGES, "static/pages.js", "text/javascript"),
    "theme.js": (_PAGES, "static/theme.js", "text/javascript"),
    "releases.svg": (_PAGES, "static/releases.svg", "image/svg+xml"),
    "releases-dark.svg": (_PAGES, "static/releases-dark.svg", "image/svg+xml"),
    "budget.svg": (_PAGES, "static/budget.svg", "image/svg+xml"),
    "budget-dark.svg": (_PAGES, "static/budget-dark.svg", "image/svg+xml"),
}


def page(
    request: Request, template: str, context: Mapping[str, Any], status: int = 200, user: Any = None
) -> HTMLResponse:
    """A page of `plugin/templates`; all that is filled in is escaped, and none may be missing.

    Args:
        request: whose address the links of the page go out from.
        template: file name.
        context: what is filled in.
        status: of the answer.
        user: whose name is shown; None before the login.
    """
    html = (
        _environment()
        .get_template(template)
        .render(
            context,
            root=str(request.scope.get("root_path", "")),
            user=name_of(user) if user is not None else "",
        )
    )
    return HTMLResponse(html, status, headers=_HEADERS | {"Content-Security-Policy": CONTENT_POLICY})


def report(html: bytes, theme: str = "") -> Response:
    """A report for a frame: its own bytes, but for the query by which it follows a light or dark system.

    Args:
        html: the report.
        theme: `light` or `dark` where the reader has chosen one; a frame cannot be told in another way.
    """
    if theme in _THEMES:
        html = html.replace(b"(prefers-color-scheme: dark)", _THEMES[theme])
    headers = _HEADERS | {"Content-Security-Policy": REPORT_POLICY}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)


def data(content: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """What a program asked for, of a media type."""
    policy = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    return Response(content, status, headers=_HEADERS | policy | dict(headers or {}), media_type=kind)


def static(name: str, known: str | None) -> Response | None:
    """A file of the pages' look; None if there is none of that name.

    Args:
        name: of `STATIC`.
        known: the hash of what the browser has already.
    """
    if name not in STATIC:
        return None
    package, path, kind = STATIC[name]
    data = files(package).joinpath(path).read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = _HEADERS | {
        "Content-Security-Policy": "default-src 'none'",
        "Cache-Control": "private, no-cache",  # asked for again each time, so that an update is seen at once
        "ETag": tag,
    }
    if known == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=kind, headers=headers)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader(
            [
                PackageLoader("airflow_privacy_release.plugin", "templates"),
                PrefixLoader({"reports": PackageLoader("privacy_release.reports", "templates")}),
            ]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "moment": moment,
        "day": day,
        "number": number,
        "breakable": breakable,
        "counted": counted,
    }
    return environment
