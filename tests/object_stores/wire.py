"""A way to an object store on which a test sees each request, and may hold it, lose it or lose its answer."""

import http.client
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from deploy.local.embedded import HOST
from tests.waiting import DEADLINE

_COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request to the store."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def writes(self) -> str | None:
        """What it writes: a `proof`, `data`, a `commit`, something `else`, or nothing."""
        path = urlsplit(self.path).path
        if self.method not in ("PUT", "POST"):
            return None
        if "/_proof/" in path:
            return "proof"
        if path.endswith(".parquet"):
            return "data"
        return "commit" if _COMMIT.search(path) else "else"


Answer = tuple[int, list[tuple[str, str]], bytes]
# Is given a request and what sends it on; returns the answer, or None for none.
Course = Callable[[Sent, Callable[[], Answer]], Answer | None]


@dataclass
class Wire:
    """Set `course` to change what becomes of requests; `sent` has those that were seen."""

    endpoint: str
    course: Course = lambda request, forward: forward()
    sent: list[Sent] = field(default_factory=list)
    one_write: threading.Lock = field(default_factory=threading.Lock)

    def writes(self) -> list[str]:
        return [request.writes for request in self.sent if request.writes is not None]


@contextmanager
def wire_to(upstream: str) -> Iterator[Wire]:
    """An address that leads to a store."""
    server = ThreadingHTTPServer((HOST, 0), _Relay)
    server.daemon_threads = True
    wire = Wire(endpoint=f"http://{HOST}:{server.server_port}")
    server.wire, server.upstream = wire, urlsplit(upstream).netloc  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        request = Sent(method=self.command, path=self.path, headers=dict(self.headers.items()))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wire: Wire = self.server.wire
        wire.sent.append(request)

        def forward() -> Answer:
            there = http.client.HTTPConnection(self.server.upstream, timeout=DEADLINE)
            # moto looks and writes in two steps; a store decides on one write after the other.
            with wire.one_write if request.writes else nullcontext(), closing(there):
                there.request(self.command, self.path, body, request.headers)
                got = there.getresponse()
                return got.status, got.getheaders(), got.read()

        answer = wire.course(request, forward)
        if answer is None:
            self.close_connection = True
            return
        status, headers, data = answer
        self.send_response_only(status)
        length = {name.lower(): value for name, value in headers}.get("content-length")
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET  # noqa: N815  the names that the server looks for

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
