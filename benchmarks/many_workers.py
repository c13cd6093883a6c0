"""Workers by the thousand on one study, simulated: claims, files opened and a conductor's memory over their number.

    python benchmarks/many_workers.py [--runs 10000] [--workers 10 100 1000] [--claims leases postgres]
        [--seconds 600] [--rows FILE] [--picture FILE]

The claims, records, queue, monitor and index are the real ones; training is pretended, time is compressed, and the
shared disk shows names late, has no locks and is slow at times. One worker in a hundred is killed every minute,
pre-empted, suspended, or lost with its node. An exit code of 0 says that every run was trained to its end once, and
that the verdict is that of a study to which nothing happened. Claims in PostgreSQL need Debian's package, which is
started for them: apt-get install postgresql.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from execution.test_postgres_claims import simulated_claims
from postgres_server import started_server
from simulated_cluster.cluster import Trouble
from simulated_cluster.study import (
    MEAN_SECONDS,
    MakeClaims,
    Outcome,
    SimulatedStudy,
    folder_claims,
    undisturbed,
    verdict_of,
)
from studies.small_studies import plan_without_models


@dataclass(frozen=True)
class Simulation:
    """A simulation is one study on a cluster, and what became of it."""

    claims: str
    runs: int
    workers: int
    outcome: Outcome
    is_once: bool
    """Whether each run ended once, under one writer at a time."""
    is_same: bool
    """Whether the verdict is that of a study to which nothing happened."""


def simulated(claims: str, number: int, workers: int, seconds: float) -> Simulation:
    """Simulate one study, whose runs take so many seconds in the mean, and the same without troubles."""
    with tempfile.TemporaryDirectory() as folder, made_claims(claims) as make_claims:
        calm, plan = (plan_without_models(Path(folder) / name, seeds=number // 2) for name in ("calm", "troubled"))
        study = SimulatedStudy(
            lambda: plan, workers=workers, seed=1, trouble=Trouble(), make_claims=make_claims, mean_seconds=seconds
        )
        outcome = study.run()
        is_once = outcome.ended == Counter(run.id for run in plan.runs) and not outcome.overlaps
        undisturbed(calm)
        return Simulation(claims, number, workers, outcome, is_once, is_same=verdict_of(plan) == verdict_of(calm))


@contextmanager
def made_claims(claims: str) -> Iterator[MakeClaims]:
    """Yield what makes a worker's claims."""
    if claims == "leases":
        yield folder_claims
        return
    with started_server() as address, simulated_claims(address) as make_claims:
        yield make_claims


Row = dict[str, Any]
_DRAWN = {
    "claims_per_second": "claims in a second, busiest minute",
    "opened": "files opened by a worker in a minute",
    "conductor_mb": "memory of a conductor, MB",
}


def row_of(simulation: Simulation) -> Row:
    """Return what is measured of a simulated study, as it is printed, saved and drawn."""
    outcome = simulation.outcome
    peak, seconds = max(outcome.conductor)
    return {
        "runs": simulation.runs,
        "workers": simulation.workers,
        "claims": simulation.claims,
        "is_once": simulation.is_once,
        "is_same": simulation.is_same,
        "accidents": sum(outcome.counts.values()),
        "num_claims": len(outcome.claims),
        "claims_per_second": outcome.claims_per_second,
        "opened": outcome.opened,
        "most_opened": outcome.most_opened,
        "conductor_mb": peak / 1e6,
        "look_seconds": seconds,
    }


def draw(rows: Sequence[Row], file: Path) -> None:
    """Draw what grows with the number of workers, and what does not."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator, NullLocator

    figure, axes = pyplot.subplots(1, len(_DRAWN), figsize=(10, 3), constrained_layout=True)
    numbers = sorted({row["workers"] for row in rows})
    for axis, (name, title) in zip(axes, _DRAWN.items(), strict=True):
        for claims in dict.fromkeys(row["claims"] for row in rows):
            points = sorted((row["workers"], row[name]) for row in rows if row["claims"] == claims)
            axis.plot(*zip(*points, strict=True), "o-", label=claims)
        axis.set(xscale="log", xlabel="workers", title=title, ylim=(0, 1.2 * max(row[name] for row in rows)))
        axis.set_xticks(numbers, [f"{number:,}" for number in numbers])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_locator(MaxNLocator(4))
        axis.title.set_size(9)
    axes[0].legend(frameon=False, fontsize=8, title="claims in")
    figure.savefig(file, dpi=110)


def show(simulation: Simulation, row: Row, seconds: float) -> None:
    """Print what one simulation came to, in so many seconds of processor time."""
    outcome = simulation.outcome
    accidents = ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{simulation.runs:,} runs by {simulation.workers:,} workers, claims: {simulation.claims}, "
        f"{outcome.simulated_seconds / 3600:.1f} hours simulated in {seconds:.0f} s of processor time and "
        f"{memory:.1f} GB; {accidents}\n"
        f"  every run once: {'yes' if simulation.is_once else 'NO'}; the verdict of an undisturbed study: "
        f"{'yes' if simulation.is_same else 'NO'}\n"
        f"  {len(outcome.claims):,} claims, {outcome.claims_per_second:.1f} in a second of the busiest minute\n"
        f"  files opened by a worker in a minute: {outcome.opened:.0f}, at most {outcome.most_opened:.0f}\n"
        f"  a conductor: {row['conductor_mb']:.1f} MB, {row['look_seconds']:.2f} s of processor time for a look",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rows", type=Path, help="a file of JSON to which the figures are added")
    parser.add_argument("--picture", type=Path, help="draw these figures, and those in --rows")
    parser.add_argument("--claims", choices=["leases", "postgres"], nargs="+", default=["leases", "postgres"])
    parser.add_argument("--seconds", type=float, default=MEAN_SECONDS, help="the mean time of a run")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[Row] = json.loads(chosen.rows.read_text()) if chosen.rows and chosen.rows.exists() else []
    holds = True
    for claims, workers in product(chosen.claims, chosen.workers):
        begun = time.process_time()
        simulation = simulated(claims, min(chosen.runs, 10 * workers), workers, chosen.seconds)
        holds = holds and simulation.is_once and simulation.is_same
        rows.append(row_of(simulation))
        show(simulation, rows[-1], time.process_time() - begun)
        if chosen.rows:
            chosen.rows.write_text(json.dumps(rows, indent=1))
    if chosen.picture:
        draw(rows, chosen.picture)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
