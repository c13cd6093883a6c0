"""A PostgreSQL for the tests of claims, where Debian's package is installed: apt-get install postgresql."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _programs() -> Path | None:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Return the address of an empty database on 127.0.0.1."""
    if _programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip("psycopg", reason="pip install 'headtohead[postgres]'")
    with started_server() as address:
        yield address


@contextmanager
def started_server() -> Iterator[str]:
    """Start Debian's PostgreSQL with an empty database on 127.0.0.1, yield its address, and stop it."""
    if (programs := _programs()) is None:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="headtohead-postgres-"))
    user: dict[str, Any] = {}
    if os.getuid() == 0:  # it refuses to run as root
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "data"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "check": True, "cwd": folder, **user}
    subprocess.run([programs / "initdb", "-D", data, "-U", "h2h", "-A", "trust", "--no-sync", "-E", "UTF8"], **quiet)
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    subprocess.run([programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"], **quiet)
    try:
        yield f"host=127.0.0.1 port={port} dbname=postgres user=h2h"
    finally:
        subprocess.run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["leases", "postgres"])
def claims_address(request: pytest.FixtureRequest) -> str | None:
    """Return where the claims of a study are, for tests that hold for all of them; None: leases in its folder."""
    return None if request.param == "leases" else str(request.getfixturevalue("postgres"))
