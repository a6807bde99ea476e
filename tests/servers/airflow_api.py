"""Requests to the server of an Airflow that tests start."""

import json
import urllib.request
from typing import Any
from urllib.error import HTTPError

from tests.waiting import DEADLINE

_ATTEMPTS = 5


def ask(address: str, method: str, path: str, body: Any = None, token: str | None = None) -> bytes:
    """What the server answers.

    On SQLite two requests can wait for each other in it. After 5 s it gives one of them up with nothing done:
    that one is made again.

    Args:
        address: Of the server, without a slash at its end.
        method: Of HTTP.
        path: Begins with a slash.
        body: Sent as JSON; None: nothing is.
        token: Of a user who has logged in; None: the request has none.

    Raises:
        HTTPError: if the answer is an error.
    """
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data=data, headers=headers, method=method)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                found: bytes = answer.read()
            return found
        except HTTPError as error:
            if error.code != 500 or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
