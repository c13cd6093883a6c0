"""Build HTTP responses, with the rules under which the browser may use them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Styles inline: Plotly sets them on its own elements. Scripts come from this server's files alone.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report holds its own scripts; without an origin of its own it can reach neither this server nor any other.
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}


@dataclass(frozen=True)
class HttpResponse:
    """Status, bytes and the headers of their own."""

    body: bytes
    kind: str
    status: int = 200
    policy: str = PAGE_POLICY
    tag: str | None = None
    """The tag of a file: a browser that has this one already is told so."""
    headers: dict[str, str] = field(default_factory=dict)


def as_json(value: Any) -> HttpResponse:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return HttpResponse(text.encode("utf-8", "surrogatepass"), "application/json")


def as_file(path: Path, *, policy: str = PAGE_POLICY) -> HttpResponse:
    """Return the file, under a tag that changes with it."""
    facts = path.stat()
    tag = hashlib.sha256(f"{facts.st_ino} {facts.st_mtime_ns} {facts.st_size}".encode()).hexdigest()[:20]
    return HttpResponse(path.read_bytes(), _KINDS[path.suffix], policy=policy, tag=f'"{tag}"')


def refusal(status: int, sentence: str) -> HttpResponse:
    return HttpResponse(f"{sentence}\n".encode(), "text/plain; charset=utf-8", status)
