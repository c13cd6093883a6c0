"""The server itself: takes requests, answers or fails as it is told to, and can change its mind in the middle."""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote

from wandb_server.artifacts import Artifacts
from wandb_server.operations import OPERATIONS
from wandb_server.reading import READING
from wandb_server.runs import ServedRun
from wandb_server.sweeps import Sweeps
from wandb_server.views import Views

KEY = "0123456789abcdef" * 2 + "01234567"
Behaviour = Literal["healthy", "refuses", "fails", "hangs", "drops"]
"""Answers; 401 to everything; 500 to everything; takes requests and says nothing; closes connections."""
_STATUS = {"healthy": 200, "refuses": 401, "fails": 500}


class WandbServer:
    """Running from the start until `close`."""

    def __init__(self, behaviour: Behaviour = "healthy") -> None:
        self.behaviour: Behaviour = behaviour
        self.runs: dict[str, ServedRun] = {}
        self.sweeps = Sweeps()
        self.views = Views()
        self.artifacts = Artifacts()
        self.unknown: list[str] = []
        self.requested: list[str] = []
        self.bodies: list[bytes] = []
        self.closing = threading.Event()
        self._planned: list[tuple[Callable[[], bool], Behaviour]] = []
        self._lock = threading.Lock()
        self._http = _QuietServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a process that is logged in here."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY}

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def then(
        self, behaviour: Behaviour, *, when: Callable[[WandbServer], bool], back_after: float | None = None
    ) -> None:
        """Behave so from the request on before which `when` is true; healthy again some seconds later, or never."""

        def begins() -> bool:
            if not when(self):
                return False
            if back_after is not None:
                until = time.monotonic() + back_after
                self._planned.append((lambda: time.monotonic() > until, "healthy"))
            return True

        self._planned.append((begins, behaviour))

    def behaviour_now(self, path: str) -> Behaviour:
        with self._lock:
            self.requested.append(path)
            for plan in list(self._planned):
                begins, behaviour = plan
                if begins():
                    self._planned.remove(plan)
                    self.behaviour = behaviour
            return self.behaviour

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.bodies.append(body)
            if path.endswith("/file_stream"):
                self.runs[path.split("/")[-2]].take(json.loads(body))
                return 200, {}
            if path.startswith("/graphql"):
                return self._graphql(json.loads(body))
            if path.startswith("/upload/"):
                run, _, name = unquote(path.removeprefix("/upload/")).partition("/")
                self.runs[run].files[name] = body
                return 200, {}
            if path.startswith("/sdk/otel/"):  # the client's reports on itself
                return 200, {}
            self.unknown.append(path)
            return 404, {"error": f"the tests' server knows no {path}"}

    def _graphql(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = request.get("operationName") or _name_in(request["query"])
        operations = {**OPERATIONS, **READING}
        for more in (self.views, self.sweeps, self.artifacts):
            operations |= more.operations
        if name not in operations:
            self.unknown.append(f"{name}: {request.get('query')} {request.get('variables')}")
            return 400, {"errors": [{"message": f"the tests' server knows no operation {name}"}]}
        return 200, {"data": operations[name](self.runs, self.url, request.get("variables") or {})}


def _name_in(query: str) -> str:
    result = re.search(r"(?:query|mutation)\s+(\w+)", query)
    return result[1] if result else ""


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are what these tests are about."""


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: Any) -> None:
            del format, arguments

        def _serve(self) -> None:
            behaviour = server.behaviour_now(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if behaviour == "hangs":
                server.closing.wait()
            if behaviour in ("hangs", "drops"):
                self.close_connection = True
                return
            status, answer = _STATUS[behaviour], {"errors": [{"message": behaviour}]}
            if status == 200:
                status, answer = server.answer(self.path, body) if self._has_key() else (401, {"errors": ["no key"]})
            message = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(message)))
            self.end_headers()
            self.wfile.write(message)

        def _has_key(self) -> bool:
            """Addresses for uploads are signed: they need none."""
            expected = base64.b64encode(f"api:{KEY}".encode()).decode()
            return self.path.startswith("/upload/") or self.headers.get("authorization") == f"Basic {expected}"

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 (http.server's names)

    return Handler
