"""The address to which an analyst sends SQL queries on releases, see docs/query.md."""

import json
from collections.abc import Sequence
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request, Response, status
from pydantic import ValidationError

from airflow_privacy_release.plugin.queries import (
    BusyError,
    OneAtATimeError,
    SentQuery,
    UnknownLakeError,
)
from airflow_privacy_release.plugin.responses import data
from privacy_engine.errors import PrivacyEngineError
from privacy_release.query.answer import Answer, QueryError, Source

router = APIRouter()

LONGEST_BODY = 1_000_000
_KINDS = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
}
_LONGEST_HEADER = 4_000


@router.post("/query")
async def ask(request: Request, user: GetUserDep) -> Response:
    """Answer a query on the releases that the user may see."""
    # A form of another site cannot send this type; the browser would send a preflight request first.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refusal(status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, "Send the question as application/json.")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_BODY:
            return _refusal(
                status.HTTP_413_CONTENT_TOO_LARGE, f"A query may have at most {LONGEST_BODY:,} bytes."
            )
    try:
        question = SentQuery.model_validate_json(body)
    except ValidationError as error:
        return _refusal(status.HTTP_422_UNPROCESSABLE_CONTENT, _wrong(error))
    try:
        given = await request.app.state.queries.ask(request, user, question)
    except PrivacyEngineError as error:
        return _refused(error)
    return _answer(given)


def _answer(given: Answer) -> Response:
    if given.form == "json":
        return data(given.as_json(), _KINDS["json"])
    return data(given.data, _KINDS[given.form], headers={"X-Privacy-Release-Sources": _header(given.sources)})


def _header(sources: Sequence[Source]) -> str:
    """Return the sources as table/release/version; if they are too long, only their number."""
    text = ", ".join(f"{quote(s.table)}/{quote(s.release, safe='')}/{s.version}" for s in sources)
    return text if len(text) <= _LONGEST_HEADER else f"{len(sources)} releases"


def _refused(error: PrivacyEngineError) -> Response:
    if isinstance(error, OneAtATimeError):
        return _refusal(status.HTTP_429_TOO_MANY_REQUESTS, str(error))
    if isinstance(error, UnknownLakeError):
        return _refusal(status.HTTP_404_NOT_FOUND, str(error))
    if isinstance(error, QueryError):
        return _refusal(status.HTTP_400_BAD_REQUEST, str(error))
    code = status.HTTP_503_SERVICE_UNAVAILABLE
    return _refusal(code, str(error), {"Retry-After": "5"} if isinstance(error, BusyError) else {})


def _refusal(code: int, words: str, headers: dict[str, str] | None = None) -> Response:
    if code == status.HTTP_429_TOO_MANY_REQUESTS:
        headers = {"Retry-After": "5"}
    return data(json.dumps({"detail": words}).encode(), _KINDS["json"], code, headers)


def _wrong(error: ValidationError) -> str:
    """Describe the errors in a question without quoting it."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    text = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'the body'}: {p['msg']}" for p in problems[:5])
    return f"The query is malformed: {text}"
