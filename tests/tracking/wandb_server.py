"""A stand-in for W&B's server on 127.0.0.1: as much of it as one run needs, and the ways in which it can fail."""

from __future__ import annotations

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ServedRun:
    """What the server holds of one run."""

    upserts: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None

    @property
    def first(self) -> dict[str, Any]:
        return self.upserts[0]

    def steps(self, metric: str) -> list[int]:
        return [row["trainer/global_step"] for row in self.history if metric in row]


class WandbServer:
    """Answers what it knows, and notes what it does not. `behaviour`: healthy, refuses, hangs or fails."""

    def __init__(self, behaviour: str = "healthy") -> None:
        self.behaviour = behaviour
        self.runs: dict[str, ServedRun] = {}
        self.files: dict[str, bytes] = {}
        self.unknown: list[str] = []
        self.asked: list[str] = []
        self.closing = threading.Event()
        self._http = _QuietServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        if path.endswith("/file_stream"):
            self._stream(path.split("/")[-2], json.loads(body))
            return {}
        if path.startswith("/graphql"):
            return {"data": self._graphql(json.loads(body))}
        if path.startswith("/upload/"):
            self.files[path.removeprefix("/upload/")] = body
            return {}
        if not path.startswith("/sdk/otel/"):
            self.unknown.append(path)
        return {}

    def _graphql(self, request: dict[str, Any]) -> dict[str, Any]:
        operation, variables = request.get("operationName"), request.get("variables") or {}
        project = {"id": "p", "name": "headtohead", "entity": {"id": "e", "name": "me"}}
        if operation == "UpsertBucket":
            run = self.runs.setdefault(variables["name"], ServedRun())
            run.upserts.append(variables)
            bucket = {
                "id": "r",
                "name": variables["name"],
                "displayName": variables.get("displayName"),
                "description": "",
                "config": "{}",
                "sweepName": None,
                "project": project,
                "historyLineCount": len(run.history),
            }
            return {"upsertBucket": {"bucket": bucket, "inserted": len(run.upserts) == 1}}
        if operation == "RunResumeStatus":
            return {"model": {**project, "bucket": self._resume_status(variables["name"])}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        self.unknown.append(str(operation))
        return {}

    def _resume_status(self, name: str) -> dict[str, Any] | None:
        run = self.runs.get(name)
        if run is None:
            return None
        return {
            "name": name,
            "displayName": name,
            "summaryMetrics": json.dumps(run.summary),
            "historyLineCount": len(run.history),
            "eventsLineCount": 0,
            "logLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in run.history[-1:]]),
            "eventsTail": "[]",
            "config": "{}",
            "tags": [],
            "wandbConfig": '{"t": 1}',
        }

    def _stream(self, name: str, request: dict[str, Any]) -> None:
        run = self.runs[name]
        files = request.get("files") or {}
        if history := files.get("wandb-history.jsonl"):
            run.history[history["offset"] :] = [json.loads(line) for line in history["content"]]
        if summary := files.get("wandb-summary.json"):
            run.summary = json.loads(summary["content"][-1])
        if request.get("complete"):
            run.exit_code = request.get("exitcode")


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
            server.asked.append(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if server.behaviour == "hangs":
                server.closing.wait()
                self.close_connection = True
                return
            status = {"healthy": 200, "refuses": 401, "fails": 500}[server.behaviour]
            answer = json.dumps(server.answer(self.path, body) if status == 200 else {"errors": ["no"]}).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 (http.server's names)

    return Handler
