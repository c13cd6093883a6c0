"""The web server of the dashboard: for this machine's own browser, which reads, and writes stars and notes."""

from __future__ import annotations

import gzip
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headtohead.comparison.dashboard.routes import DashboardRoutes, HttpResponse, refusal

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
"""The names by which a browser of this machine calls it, at whatever port a tunnel has here. Any other name in a
request is that of an unknown page which lets its own name lead here (DNS rebinding)."""
_WORTH_PACKING, _LEVEL = 2000, 1
"""Bytes of an answer from which on it is packed for a tunnel's sake, and how hard."""
_MOST_SENT = 20_000
"""Bytes of a mark."""


class Dashboard(ThreadingHTTPServer):
    """Serves one folder of runs at `address`; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, root: Path, port: int = 0) -> None:
        self.routes = DashboardRoutes(root.resolve())
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def server_close(self) -> None:
        super().server_close()
        self.routes.runs.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed in the middle of an answer is not an error."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "headtohead", ""
    timeout = 60
    wbufsize = -1
    """Head and body leave together: apart, the second waits 40 ms for the reader's word that the first has come."""

    def do_GET(self) -> None:
        self._send(self._answer())

    def do_HEAD(self) -> None:
        self._send(self._answer(), body=False)

    def do_POST(self) -> None:
        """Take a mark from the page itself: another site's page has another origin, or cannot send JSON."""
        size = self.headers.get("Content-Length", "")
        body = (
            self.rfile.read(int(size))
            if size.isdecimal() and len(size) <= len(str(_MOST_SENT)) and int(size) <= _MOST_SENT
            else None
        )
        self.close_connection = self.close_connection or body is None
        if (refused := self._refused()) is not None:
            return self._send(refused)
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        if self.headers.get_content_type() != "application/json" or origin != f"http://{host}":
            return self._send(refusal(403, "only the dashboard's own page may send marks"))
        return self._send(
            refusal(413, f"a mark has at most {_MOST_SENT} bytes")
            if body is None
            else self.server.routes.take(self.path, body)
        )

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads a line for every number that a page asks for."""

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        super().end_headers()

    def _answer(self) -> HttpResponse:
        return self._refused() or self.server.routes.answer(self.path)

    def _refused(self) -> HttpResponse | None:
        """Return the refusal of a request that calls this server by a name that is not this machine's."""
        name, _, port = self.headers.get("Host", "").partition(":")
        if name not in _NAMES or not (port == "" or port.isdecimal()):
            return refusal(403, f"this page is only for this machine: open it as {self.server.address}")
        return None

    def _send(self, answer: HttpResponse, *, body: bool = True) -> None:
        known = answer.tag is not None and self.headers.get("If-None-Match") == answer.tag
        sent = b"" if known else answer.body
        packs = len(sent) >= _WORTH_PACKING and "gzip" in self.headers.get("Accept-Encoding", "")
        sent = gzip.compress(sent, _LEVEL) if packs else sent
        self.send_response(304 if known else answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(sent)))
        self.send_header("Vary", "Accept-Encoding")
        if packs:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("Cache-Control", "no-store" if answer.tag is None else "no-cache")
        if answer.tag is not None:
            self.send_header("ETag", answer.tag)
        self.end_headers()
        if body:
            self.wfile.write(sent)
