"""The pages as a web application: every address is behind Airflow's login, and no API docs are served."""

from airflow.api_fastapi.core_api.security import requires_authenticated
from fastapi import Depends, FastAPI, HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_privacy_release.plugin.queries import Desk
from airflow_privacy_release.plugin.responses import page, static
from airflow_privacy_release.plugin.routes import approval as approval_page
from airflow_privacy_release.plugin.routes import budget as budget_pages
from airflow_privacy_release.plugin.routes import grant as grant_page
from airflow_privacy_release.plugin.routes import query as query_address
from airflow_privacy_release.plugin.routes import releases as release_pages
from airflow_privacy_release.plugin.routes import reports as report_pages
from airflow_privacy_release.plugin.routes import retract as retract_pages
from privacy_engine.errors import PrivacyEngineError

_TITLES = {
    status.HTTP_401_UNAUTHORIZED: "Sign in first",
    status.HTTP_403_FORBIDDEN: "No access",
    status.HTTP_404_NOT_FOUND: "Not found",
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app() -> FastAPI:
    """Create the application; Airflow mounts it below `/privacy`."""
    app = FastAPI(
        title="Privacy Release",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(requires_authenticated())],
    )
    app.state.queries = Desk()
    decisions = (retract_pages, approval_page, grant_page)
    for pages in (release_pages, report_pages, budget_pages, query_address, *decisions):
        app.include_router(pages.router)
    app.get("/static/{name}")(_static)
    # The last route matches every other address, so that the login is required before any response.
    app.api_route("/{path:path}", methods=_METHODS)(_nothing_here)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _misread)
    app.add_exception_handler(PrivacyEngineError, _failed)
    return app


def _static(name: str, request: Request) -> Response:
    found = static(name, request.headers.get("if-none-match"))
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such page.")
    return found


def _nothing_here(path: str) -> None:
    raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such page.")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    words = {
        status.HTTP_401_UNAUTHORIZED: "Your session has expired or has not begun. Sign in to Airflow again."
    }
    return _message(request, error.status_code, words.get(error.status_code, str(error.detail)))


def _misread(request: Request, error: Exception) -> Response:
    return _message(
        request,
        status.HTTP_422_UNPROCESSABLE_CONTENT,
        "The address of this page is incomplete or malformed.",
    )


def _failed(request: Request, error: Exception) -> Response:
    """The lake or the ledger cannot be reached, or refuses. These errors contain no record and no secret."""
    return _message(request, status.HTTP_503_SERVICE_UNAVAILABLE, str(error))


def _message(request: Request, code: int, words: str) -> Response:
    title = _TITLES.get(code, "Something went wrong")
    return page(request, "message.html.j2", {"title": title, "words": words}, code)
