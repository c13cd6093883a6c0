"""Claims in PostgreSQL: Debian's server, started for the tests on 127.0.0.1 and stopped after them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import UsageError
from headtohead.execution.claims import postgres_claims
from headtohead.execution.claims.choice import choose_claims, claims_of
from headtohead.execution.claims.folder_claims import FolderClaims
from headtohead.execution.claims.postgres_claims import PostgresClaims, check_address
from headtohead.files.leases import Leases
from headtohead.studies.planning.study_plan import StudyPlan
from simulated_cluster.clock import Clock
from simulated_cluster.cluster import Process
from simulated_cluster.study import MakeClaims
from waiting import PATIENCE, until

pytestmark = pytest.mark.process
FORK = multiprocessing.get_context("fork")


class SimulatedDatabase:
    """The one connection of all simulated workers, whose statements see the time of their cluster. Each is a
    transaction: between two statements of one operation no other worker comes."""

    def __init__(self, connection: Any, clock: Clock) -> None:
        self._connection, self._clock = connection, clock

    def execute(self, statement: str, values: dict[str, object] | None = None) -> Any:
        statement = statement.replace("clock_timestamp()", "to_timestamp(%(now)s)")
        return self._connection.execute(statement, None if values is None else {**values, "now": self._clock.now})


class MeasuredDatabase:
    """Connections to a server, with the number of names that were sent and of rows that came back."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.sent = self.received = 0

    @contextmanager
    def connected(self) -> Iterator[Any]:
        with postgres_claims.connected(self._address) as self._connection:
            yield self

    def execute(self, statement: str, values: dict[str, object] | None = None) -> Any:
        self.sent += sum(len(value) for value in (values or {}).values() if isinstance(value, list))
        result = self._connection.execute(statement, values)
        self.received += max(0, result.rowcount)
        return result


@contextmanager
def simulated_claims(address: str) -> Iterator[MakeClaims]:
    """Yield what makes claims on a real server, at the time of a simulated cluster."""
    import psycopg

    def make(process: Process, plan: StudyPlan) -> PostgresClaims:
        database = SimulatedDatabase(connection, process.cluster.clock)

        @contextmanager
        def connected() -> Iterator[Any]:
            process.files.pass_by()
            yield database

        return PostgresClaims(address, str(plan.folder), connect=connected)

    with psycopg.connect(address, autocommit=True) as connection:
        yield make


def test_a_claim_is_one_workers_until_it_is_given_back_done_or_silent(
    tmp_path: Path, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (PostgresClaims(postgres, str(tmp_path)) for _ in range(2))
    for claims in (first, second):
        claims.offer(["a", "b"])
    claimed = first.take_next(["a", "b"], is_idle=False)
    assert claimed is not None and claimed.run == "a" and claimed.claim.is_held()
    other = second.take_next(["a", "b"], is_idle=True)
    assert other is not None and other.run == "b"
    assert second.take("a") is None and second.take_next(["a", "b"], is_idle=True) is None
    other.claim.release(is_done=True)
    assert first.look() == {"b"} and second.take_next(["a", "b"], is_idle=True) is None
    monkeypatch.setattr(postgres_claims, "STALE_SECONDS", 0.05)
    monkeypatch.setattr(postgres_claims, "_TAKE_OVER_SECONDS", 0.05)
    monkeypatch.setattr(postgres_claims, "BEAT_SECONDS", 0.0)
    taken = until(lambda: second.take_next(["a", "b"], is_idle=False))
    assert taken is not None and taken.run == "a" and not claimed.claim.is_held()
    monkeypatch.setattr(postgres_claims, "STALE_SECONDS", PATIENCE)
    monkeypatch.setattr(postgres_claims, "_TAKE_OVER_SECONDS", PATIENCE)
    claimed.claim.release()
    assert second.take("a") is None, "who has lost a claim gives nothing back"


def test_a_worker_sends_and_receives_no_more_the_more_runs_another_has_offered(tmp_path: Path, postgres: str) -> None:
    sizes = []
    for number in (2000, 4000):
        runs, plan = [f"run{index:04}" for index in range(number)], f"{tmp_path}-{number}"
        PostgresClaims(postgres, plan).offer(runs)
        measured = MeasuredDatabase(postgres)
        claims = PostgresClaims(postgres, plan, connect=measured.connected)
        claims.offer(runs)
        assert claims.look() == set()
        for name in runs[:3]:
            claimed = claims.take_next(runs, is_idle=False)
            assert claimed is not None and claimed.run == name
            claimed.claim.release()
            again = claims.take(name)
            assert again is not None
            again.release(is_done=True)
            runs.remove(name)
        sizes.append((measured.sent, measured.received))
    assert sizes[0] == sizes[1]


def test_a_worker_of_another_share_is_not_given_our_runs(tmp_path: Path, postgres: str) -> None:
    first, second = (PostgresClaims(postgres, str(tmp_path)) for _ in range(2))
    first.offer(["a", "b"])
    second.offer(["c"])
    assert (mine := first.take_next(["a", "b"], is_idle=False)) is not None and mine.run == "a"
    assert (theirs := second.take_next(["c"], is_idle=False)) is not None and theirs.run == "c"
    assert second.take_next([], is_idle=False) is None and first.take("b") is not None


def test_a_plan_keeps_the_claims_it_began_with(tmp_path: Path, postgres: str) -> None:
    assert isinstance(claims_of(tmp_path), FolderClaims)
    choose_claims(tmp_path / "study", postgres)
    assert isinstance(claims_of(tmp_path / "study"), PostgresClaims)
    assert Leases(tmp_path / "begun" / "leases").take("a0") is not None
    with pytest.raises(UsageError, match=r"launcher.claims=.* is refused: claims .* are leases in its folder"):
        choose_claims(tmp_path / "begun", postgres)
    with pytest.raises(UsageError, match="holds a password"):
        check_address(f"{postgres} password=secret")


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_claims, "_PATIENCE_SECONDS", 0.0)
    with pytest.raises(UsageError, match=r"the claims in host=127\.0\.0\.1 port=1 .* cannot be reached"):
        check_address("host=127.0.0.1 port=1 dbname=none")
