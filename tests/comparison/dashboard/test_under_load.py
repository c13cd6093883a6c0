"""Slow readers and many requests: the dashboard goes on answering, and holds nothing once they have gone."""

from __future__ import annotations

import http.client
import socket
import threading
import time
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import pytest

from served_runs import requested, served, written_run
from waiting import PATIENCE, until

PATHS = ("/", "/api/runs", "/api/studies", "/nowhere", "/api/run?run=../../etc/passwd")


def many(port: int, number: int, statuses: list[int]) -> None:
    """Ask so many times over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    for index in range(number):
        connection.request("GET", PATHS[index % len(PATHS)])
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()


@pytest.mark.slow
def test_five_hundred_clients_that_never_finish_a_request_keep_no_other_waiting(tmp_path: Path) -> None:
    run = written_run(tmp_path)
    before = threading.active_count()
    with served(tmp_path) as dashboard, ExitStack() as open_ones:
        for number in range(500):
            client = open_ones.enter_context(
                socket.create_connection(("127.0.0.1", dashboard.server_port), timeout=PATIENCE)
            )
            client.sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"a" * (number % 7))
        started = time.monotonic()
        answer, body = requested(dashboard, "/api/runs")
        assert answer.status == 200 and run.path.name.encode() in body
        assert time.monotonic() - started < 60
        open_ones.close()
        until(lambda: threading.active_count() <= before + 5, otherwise="who has gone is let go")
    run.release()


@pytest.mark.parametrize(
    "number", [pytest.param(2_000, marks=pytest.mark.slow), pytest.param(20_000, marks=pytest.mark.whole)]
)
def test_many_requests_are_all_answered_and_leave_no_memory_behind(number: int, tmp_path: Path) -> None:
    runs = [written_run(tmp_path, name=f"run {index}") for index in range(3)]
    with served(tmp_path) as dashboard:
        statuses: list[int] = []
        many(dashboard.server_port, 200, statuses)
        tracemalloc.start()
        try:
            clients = [
                threading.Thread(target=many, args=(dashboard.server_port, number // 8, statuses)) for _ in range(8)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            saved, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(statuses) == 200 + 8 * (number // 8) and set(statuses) <= {200, 404}
    assert saved < 4 * 2**20, f"{saved / 2**20:.1f} MiB are held after {number} requests"
    for run in runs:
        run.release()
