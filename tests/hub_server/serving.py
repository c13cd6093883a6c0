"""The server: starts on a free port of 127.0.0.1, and stops with its context."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from waiting import PATIENCE

LARGE = (".parquet", ".gz", ".arrow", ".zip", ".png")
"""Kept in large-file storage, whose ETag is the SHA-256."""


class HubServer(ThreadingHTTPServer):
    """A stand-in for the hub; what tests plant in it is in its sets."""

    daemon_threads = True

    def __init__(self, folders: Mapping[str, Path], commits: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folders = dict(folders)
        self.commits = {name: commits.get(name, commit_of(folder)) for name, folder in folders.items()}
        self.requested: list[str] = []
        """Every request: GET /api/datasets/..."""
        self.gated: set[str] = set()
        self.cut_short: set[str] = set()
        """Paths whose last bytes do not arrive, though the headers promise them."""
        self.changed: set[str] = set()
        """Paths whose content is another than is listed, of the same size."""
        self.held: set[str] = set()
        """Paths of which only half arrives until `released` is set; `half_sent` tells that it has."""
        self.half_sent, self.released = threading.Event(), threading.Event()
        self.token: str | None = None
        """The token that opens gated sets."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def requests_of(self, method: str, part: str = "") -> list[str]:
        return [options for options in self.requested if options.startswith(f"{method} ") and part in options]


@contextmanager
def hub_of(
    folders: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, cache: Path, commits: Mapping[str, str] | None = None
) -> Iterator[HubServer]:
    """Repositories by name, served at the address that HF_ENDPOINT then names; fetched files go below `cache`."""
    server = HubServer(folders, commits or {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    point_at(server.address, monkeypatch, cache)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def point_at(address: str, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """The environment of somebody who uses this hub, has fetched nothing yet, and is not logged in."""
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(cache / "headtohead"))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")


def commit_of(folder: Path) -> str:
    """Changes with any file."""
    hashed = hashlib.sha1()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        hashed.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return hashed.hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read `requested`."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requested.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "datasets"] and parts[4:5] == ["tree"]:
            self._tree("/".join(parts[2:4]), parts[5], "/".join(parts[6:]))
        elif parts[:2] == ["api", "datasets"]:
            self._info("/".join(parts[2:4]), "/".join(parts[5:]) if parts[4:5] == ["revision"] else None)
        elif parts[0] == "datasets" and parts[3:4] == ["resolve"]:
            self._file("/".join(parts[1:3]), parts[4], "/".join(parts[5:]), with_body=with_body)
        else:
            self._refuse(404, "EntryNotFound")

    def _info(self, name: str, revision: str | None) -> None:
        folder = self._folder(name, revision)
        if folder is None:
            return
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        message = {
            "_id": "0",
            "id": name,
            "sha": self.server.commits[name],
            "private": False,
            "gated": "auto" if name in self.server.gated else False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [_sibling(folder, file) for file in files],
            "cardData": card_of(folder),
        }
        self._send(200, json.dumps(message).encode(), {"Content-Type": "application/json"})

    def _tree(self, name: str, revision: str, below: str) -> None:
        """List a folder, for clients that open files as those of a disk."""
        folder = self._folder(name, revision)
        if folder is None:
            return
        if not (folder / below).is_dir():
            self._refuse(404, "EntryNotFound")
            return
        message = [_entry(folder, path) for path in sorted((folder / below).iterdir())]
        self._send(200, json.dumps(message).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, revision: str, path: str, *, with_body: bool) -> None:
        folder = self._folder(name, revision)
        if folder is None:
            return
        if name in self.server.gated and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            # The page of a gated set is public, its files are not.
            self._refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
            return
        file = folder / path
        if not file.is_file():
            self._refuse(404, "EntryNotFound")
            return
        content = file.read_bytes()
        headers = {"X-Repo-Commit": self.server.commits[name], "ETag": f'"{_etag(file)}"'}
        if file.name.endswith(LARGE):
            headers |= {"X-Linked-ETag": f'"{_etag(file)}"', "X-Linked-Size": str(len(content))}
        if with_body and path in self.server.cut_short:
            content = content[:-7]
        if with_body and path in self.server.changed:
            content = bytes([content[0] ^ 1]) + content[1:]
        if (options := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))) is not None:
            first, last = int(options[1]), min(int(options[2]), len(content) - 1)
            headers |= {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
            self._send(206, content[first : last + 1], headers)
            return
        self._send(200, content, headers)

    def _folder(self, name: str, revision: str | None) -> Path | None:
        if name not in self.server.folders:
            self._refuse(401, "RepoNotFound")
            return None
        if revision not in (None, "main", self.server.commits[name]):
            self._refuse(404, "RevisionNotFound")
            return None
        return self.server.folders[name]

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"", {"X-Error-Code": code, "X-Error-Message": code})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self._write(content)

    def _write(self, content: bytes) -> None:
        if not any(self.path.endswith(path) for path in self.server.held):
            self.wfile.write(content)
            return
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.server.half_sent.set()
        self.server.released.wait(PATIENCE)
        with contextlib.suppress(ConnectionError):  # the client may be gone
            self.wfile.write(content[len(content) // 2 :])


def _entry(folder: Path, path: Path) -> dict[str, Any]:
    message: dict[str, Any] = {"path": path.relative_to(folder).as_posix(), "oid": "0", "size": 0, "type": "directory"}
    if path.is_file():
        message |= {"type": "file", "size": path.stat().st_size}
        if path.name.endswith(LARGE):
            message["lfs"] = {"oid": _etag(path), "size": path.stat().st_size, "pointerSize": 130}
    return message


def _sibling(folder: Path, file: Path) -> dict[str, Any]:
    message: dict[str, Any] = {
        "rfilename": file.relative_to(folder).as_posix(),
        "size": file.stat().st_size,
        "blobId": "0",
    }
    if file.name.endswith(LARGE):
        message["lfs"] = {"sha256": _etag(file), "size": file.stat().st_size, "pointerSize": 130}
    return message


def _etag(file: Path) -> str:
    kind = hashlib.sha256 if file.name.endswith(LARGE) else hashlib.sha1
    return kind(file.read_bytes()).hexdigest()


def card_of(folder: Path) -> dict[str, Any] | None:
    """The first lines of the card, between two lines of ---."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    message: dict[str, Any] = yaml.safe_load(card.read_text(encoding="utf-8").split("---")[1])
    return message
