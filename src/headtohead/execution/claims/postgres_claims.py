"""Claims in a PostgreSQL that a group already has: rows of one table, taken by SELECT ... FOR UPDATE SKIP LOCKED.

The database holds claims and nothing else; records and checkpoints stay in folders. Only its clock counts, and each
operation is a connection of its own, so that a thousand workers do not hold a thousand connections.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from headtohead.config.errors import ConfigurationError
from headtohead.errors import UsageError
from headtohead.execution.claims.run_claims import ClaimedRun, RunClaims
from headtohead.files import leases
from headtohead.files.leases import STALE_SECONDS
from headtohead.files.process_liveness import Owner
from headtohead.files.safe_read import parse_json

if TYPE_CHECKING:
    from psycopg import Connection

    Database: TypeAlias = Connection[tuple[object, ...]]

BEAT_SECONDS = 9.0
_SUSPECT_SECONDS = 2.5 * BEAT_SECONDS
"""A holder of this machine that was silent this long is looked up among its processes."""
_TAKE_OVER_SECONDS = 2 * STALE_SECONDS
"""A holder of another machine that was silent this long has lost its claim. It stops at half of STALE_SECONDS; what it
was writing by then may hang on a slow disk, and learns of its successor by the run's own lease, which is seen late."""
_PATIENCE_SECONDS = 30.0
_SUSPECTS = 8
_SCHEMA = """
CREATE TABLE IF NOT EXISTS headtohead_claim (
    plan text NOT NULL, run text NOT NULL, position bigint NOT NULL, holder text, token bigint NOT NULL DEFAULT 0,
    beat timestamptz, is_done boolean NOT NULL DEFAULT false, PRIMARY KEY (plan, run)
);
CREATE INDEX IF NOT EXISTS headtohead_claim_next ON headtohead_claim (plan, position) WHERE NOT is_done;
CREATE INDEX IF NOT EXISTS headtohead_claim_done ON headtohead_claim (plan) WHERE is_done;
"""
_IS_THERE = "SELECT to_regclass('headtohead_claim_done')"
"""A question for the part that is created last: creating it again takes its owner, and waits for everybody's claims."""
_OFFER = """
INSERT INTO headtohead_claim (plan, run, position)
SELECT %(plan)s, run, place + (SELECT coalesce(max(position), 0) FROM headtohead_claim WHERE plan = %(plan)s)
FROM unnest(%(runs)s::text[]) WITH ORDINALITY AS offered (run, place) ON CONFLICT DO NOTHING
"""
_MARK_OFFER = """
INSERT INTO headtohead_claim (plan, run, position, is_done) VALUES (%(plan)s, %(mark)s, 0, true) ON CONFLICT DO NOTHING
"""
"""The row of an offer: whoever offers the same runs again, as each of a thousand workers does, need not send them."""
_FREE = "(holder IS NULL OR beat < clock_timestamp() - %(stale)s * interval '1 second')"
_NEXT = f"""
UPDATE headtohead_claim SET holder = %(holder)s, token = token + 1, beat = clock_timestamp()
WHERE plan = %(plan)s AND run = (
    SELECT run FROM headtohead_claim
    WHERE plan = %(plan)s AND NOT is_done AND {_FREE} AND run <> ALL(%(excluded)s)
    ORDER BY position LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING run, token
"""
_TAKE = f"""
UPDATE headtohead_claim SET holder = %(holder)s, token = token + 1, beat = clock_timestamp()
WHERE plan = %(plan)s AND run = %(run)s AND {_FREE} RETURNING token
"""
_DONE = "SELECT run FROM headtohead_claim WHERE plan = %(plan)s AND is_done"
_DONE_OF = f"{_DONE} AND run = ANY(%(open)s)"
_MOST_NAMED = 1000
"""The most runs that are named in a question; beyond, the answer names those of the whole plan."""
_SILENT = """
SELECT run, token, holder FROM headtohead_claim WHERE plan = %(plan)s AND NOT is_done AND holder IS NOT NULL
AND beat < clock_timestamp() - %(suspect)s * interval '1 second' ORDER BY beat LIMIT %(most)s
"""
_OURS = "plan = %(plan)s AND run = %(run)s AND token = %(token)s AND holder IS NOT NULL"
Connect = Callable[[], AbstractContextManager["Database"]]


class PostgresClaims(RunClaims):
    """Claims to the runs of the plan of this name; `connect` gives other connections than those to the address."""

    def __init__(self, address: str, plan: str, *, connect: Connect | None = None) -> None:
        self.plan = plan
        self._connect = connect or (lambda: connected(address))
        self._open: dict[str, None] = {}
        """The runs that were offered and are not known to be done."""
        self._of_others: set[str] = set()
        """Runs that others have offered, of another share of the plan."""
        with self._connect() as connection:
            if connection.execute(_IS_THERE).fetchone() == (None,):
                connection.execute("SELECT pg_advisory_xact_lock(hashtext('headtohead_claim'))")  # two may create it
                connection.execute(_SCHEMA)

    def offer(self, runs: Collection[str]) -> None:
        self._of_others.difference_update(runs)
        if new := [run for run in runs if run not in self._open]:
            self._open.update(dict.fromkeys(new))
            mark = f"offer {hashlib.sha256(json.dumps(new).encode()).hexdigest()}"
            with self._connect() as connection:
                if connection.execute(_MARK_OFFER, {"plan": self.plan, "mark": mark}).rowcount:
                    connection.execute(_OFFER, {"plan": self.plan, "runs": new})

    def take_next(self, runs: Collection[str], *, is_idle: bool) -> ClaimedRun | None:
        if not runs:
            return None
        with self._connect() as connection:
            if is_idle:
                self._free_the_dead(connection)
            excluded = [*self._of_others, *self._open_besides(runs)]
            while True:
                row = connection.execute(_NEXT, self._values(excluded=excluded)).fetchone()
                if row is None:
                    return None
                claim = PostgresClaim(self, str(row[0]), row[1])
                if claim.run in runs:
                    leases.keep(claim)
                    return ClaimedRun(claim.run, claim)
                self._of_others.add(claim.run)
                excluded.append(claim.run)
                connection.execute(f"UPDATE headtohead_claim SET holder = NULL WHERE {_OURS}", claim.values())

    def _open_besides(self, runs: Collection[str]) -> list[str]:
        """Return the runs that were offered, and are neither among these nor done."""
        return [] if len(runs) == len(self._open) else [run for run in self._open if run not in runs]

    def take(self, run: str) -> PostgresClaim | None:
        with self._connect() as connection:
            row = connection.execute(_TAKE, self._values(run=run)).fetchone()
            if row is None and connection.execute(_OFFER, {"plan": self.plan, "runs": [run]}).rowcount:
                row = connection.execute(_TAKE, self._values(run=run)).fetchone()
        if row is None:
            return None
        claim = PostgresClaim(self, run, row[0])
        leases.keep(claim)
        return claim

    def look(self) -> set[str]:
        question, values = _DONE, dict[str, object](plan=self.plan)
        if len(self._open) <= _MOST_NAMED:
            question, values["open"] = _DONE_OF, list(self._open)
        with self._connect() as connection:
            rows = connection.execute(question, values).fetchall()
        done = {str(run) for (run,) in rows} & self._open.keys()
        self.close(done)
        return done

    def close(self, done: Iterable[str]) -> None:
        """Ask for these runs no more."""
        for run in done:
            self._open.pop(run, None)

    def forget(self, run: str) -> None:
        self._open[run] = None
        self.execute(
            "UPDATE headtohead_claim SET is_done = false WHERE plan = %(plan)s AND run = %(run)s", {"run": run}
        )

    def execute(self, statement: str, values: dict[str, object]) -> int:
        """Execute one statement on the plan's rows, and return how many it changed or found."""
        with self._connect() as connection:
            return int(connection.execute(statement, {"plan": self.plan, **values}).rowcount)

    def _values(self, **values: object) -> dict[str, object]:
        holder = json.dumps(asdict(leases.system.this_process()))
        return {"plan": self.plan, "holder": holder, "stale": _TAKE_OVER_SECONDS, **values}

    def _free_the_dead(self, connection: Database) -> None:
        """Give back what processes of this machine held that are known to be gone."""
        suspects = connection.execute(
            _SILENT, {"plan": self.plan, "suspect": _SUSPECT_SECONDS, "most": _SUSPECTS}
        ).fetchall()
        for run, token, holder in suspects:
            if leases.system.is_alive(Owner(**parse_json(str(holder), "a claim"))) is False:
                values = {"plan": self.plan, "run": run, "token": token}
                connection.execute(f"UPDATE headtohead_claim SET holder = NULL WHERE {_OURS}", values)


class PostgresClaim:
    """A row that bears this worker's token, as long as no other worker takes it over."""

    guarded: Path | None = None
    """No folder: what is written is checked by the lease in the run's own folder."""

    def __init__(self, claims: PostgresClaims, run: str, token: object) -> None:
        self._claims, self.run, self._token = claims, run, token
        self._last_beat = leases.system.seconds()
        self._lost = False

    def values(self) -> dict[str, object]:
        """Return what identifies the claim in statements."""
        return {"plan": self._claims.plan, "run": self.run, "token": self._token}

    def is_held(self) -> bool:
        """Return False once another worker may have taken over, also where the database does not answer for long."""
        silence = leases.system.seconds() - self._last_beat
        if not self._lost and silence >= BEAT_SECONDS:
            self.beat()
            silence = leases.system.seconds() - self._last_beat
        return not self._lost and silence < STALE_SECONDS / 2

    def beat(self) -> None:
        """Give a sign of life, and learn whether the claim is still this worker's."""
        started = leases.system.seconds()
        if started - self._last_beat < BEAT_SECONDS:
            return
        try:
            count = self._claims.execute(
                f"UPDATE headtohead_claim SET beat = clock_timestamp() WHERE {_OURS}", self.values()
            )
        except UsageError:  # a server that answers again later, or too late
            return
        if count:
            self._last_beat = started
        else:
            self._lost = True

    def writing(self) -> AbstractContextManager[None]:
        """Nothing is written under a claim itself."""
        return nullcontext()

    def release(self, *, is_done: bool = False) -> None:
        leases.drop(self)
        if is_done:
            self._claims.close([self.run])
        self._claims.execute(
            f"UPDATE headtohead_claim SET holder = NULL, is_done = %(is_done)s WHERE {_OURS}",
            {**self.values(), "is_done": is_done},
        )


@contextmanager
def connected(address: str) -> Iterator[Database]:
    """Open a connection for one transaction; a server that is full or restarts is asked again for half a minute."""
    try:
        import psycopg
    except ImportError:
        raise ConfigurationError(
            "launcher.claims needs the package psycopg: pip install 'headtohead[postgres]'"
        ) from None
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection = psycopg.connect(address, connect_timeout=10, application_name="headtohead")
            break
        except psycopg.OperationalError as error:
            if time.monotonic() > end:
                message = " ".join(str(error).split())
                raise UsageError(f"the claims in {address} cannot be reached: {message}") from None
            time.sleep(random.uniform(0.1, 1.0))
    try:
        with connection:
            yield connection
    except psycopg.OperationalError as error:
        message = " ".join(str(error).split())
        raise UsageError(f"the claims in {address} were interrupted: {message}") from None


def check_address(address: str) -> None:
    """Refuse an address that no server can have, and one that shows a password: it is written into the plan's
    folder."""
    with connected(address) as connection:
        if connection.info.password and connection.info.password in address:
            raise UsageError(
                "launcher.claims holds a password, which would be written beside the runs: put it into ~/.pgpass, or "
                "name a service of ~/.pg_service.conf: launcher.claims=service=NAME"
            )
