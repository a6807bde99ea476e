"""Build the responses of the pages: templates, and headers that block foreign scripts, files and frames."""

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
from privacy_release.reports.text import limit_in_words, measured_in_words

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; frame-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
)
# A report is a complete page: it may use its inline style, and is isolated from everything else, including
# the reader's session.
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
# File name -> the package with the file, its path there, its media type.
STATIC = {
    "report.css": (
        _REPORTS,
        "templates/style.css",
        "text/css",
    ),  # reports look like the pages
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
    """Render a page of `plugin/templates`. All values are escaped, and none may be missing.

    Args:
        request: Request, whose address the links of the page are relative to.
        template: File name of the template.
        context: Values for the template.
        status: HTTP status of the response.
        user: User whose name is shown; None before the login.
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
    """Serve a report for a frame: its own bytes, except for the media query that follows the system's theme.

    Args:
        html: Report as HTML.
        theme: `light` or `dark` if the reader has chosen one; a sandboxed frame cannot find out otherwise.
    """
    if theme in _THEMES:
        html = html.replace(b"(prefers-color-scheme: dark)", _THEMES[theme])
    headers = _HEADERS | {"Content-Security-Policy": REPORT_POLICY}
    return Response(html, media_type="text/html; charset=utf-8", headers=headers)


def data(content: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Serve data for a program, with the given media type."""
    policy = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
    return Response(content, status, headers=_HEADERS | policy | dict(headers or {}), media_type=kind)


def static(name: str, known: str | None) -> Response | None:
    """Serve a static file of the pages; None if there is none of that name.

    Args:
        name: Key of `STATIC`.
        known: Hash of the version that the browser has.
    """
    if name not in STATIC:
        return None
    package, path, kind = STATIC[name]
    data = files(package).joinpath(path).read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = _HEADERS | {
        "Content-Security-Policy": "default-src 'none'",
        "Cache-Control": "private, no-cache",  # revalidated each time, so that an update is seen at once
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
        "limit": limit_in_words,
        "measured": measured_in_words,
        "breakable": breakable,
        "counted": counted,
    }
    return environment
