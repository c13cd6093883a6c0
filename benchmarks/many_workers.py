"""Workers by the thousand on one study, simulated: claims, files opened and a conductor's memory over their number.

    python benchmarks/many_workers.py [--runs 10000] [--workers 10 100 1000] [--rows FILE] [--picture FILE]
        [--postgres ADDRESS]

The claims, records, queue, monitor and index are the real ones; training is pretended, time is compressed, and the
shared disk shows names late, has no locks and is slow at times. One worker in a hundred is killed every minute,
pre-empted, suspended, or lost with its node. An exit code of 0 says that every run was trained to its end once.
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
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from execution.test_postgres_claims import simulated_claims
from simulated_cluster.cluster import Trouble
from simulated_cluster.study import Outcome, SimulatedStudy, folder_claims
from studies.small_studies import plan_without_models


def simulated(number: int, workers: int, postgres: str | None) -> tuple[Outcome, bool]:
    """Simulate one study, and return whether each of its runs ended once under one writer at a time."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_without_models(Path(folder), seeds=number // 2)
        with simulated_claims(postgres) if postgres else nullcontext(folder_claims) as claims:
            study = SimulatedStudy(lambda: plan, workers=workers, seed=1, trouble=Trouble(), make_claims=claims)
            outcome = study.run()
    return outcome, outcome.ended == Counter(run.id for run in plan.runs) and not outcome.overlaps


Row = dict[str, Any]
_DRAWN = {
    "claims_per_second": "claims in a second, busiest minute",
    "opened": "files opened by a worker in a minute",
    "conductor_mb": "memory of a conductor, MB",
}


def row_of(outcome: Outcome, number: int, workers: int, claims: str) -> Row:
    """Return what is measured of a simulated study, as it is printed, saved and drawn."""
    peak, seconds = max(outcome.conductor)
    return {
        "runs": number,
        "workers": workers,
        "claims": claims,
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--rows", type=Path, help="a file of JSON to which the figures are added")
    parser.add_argument("--picture", type=Path, help="draw these figures, and those in --rows")
    parser.add_argument("--postgres", metavar="ADDRESS", help="claims in this database instead of in the folder")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    rows: list[Row] = json.loads(chosen.rows.read_text()) if chosen.rows and chosen.rows.exists() else []
    all_once = True
    for workers in chosen.workers:
        number = min(chosen.runs, 10 * workers)
        begun = time.process_time()
        outcome, is_once = simulated(number, workers, chosen.postgres)
        all_once = all_once and is_once
        row = row_of(outcome, number, workers, "PostgreSQL" if chosen.postgres else "leases")
        rows.append(row)
        accidents = ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{number:,} runs by {workers:,} workers, {outcome.simulated_seconds / 3600:.1f} hours simulated in "
            f"{time.process_time() - begun:.0f} s of processor time and {memory:.1f} GB; {accidents}\n"
            f"  every run once: {'yes' if is_once else 'NO'}; {len(outcome.claims):,} claims, "
            f"{outcome.claims_per_second:.1f} in a second of the busiest minute\n"
            f"  files opened by a worker in a minute: {outcome.opened:.0f}, at most {outcome.most_opened:.0f}\n"
            f"  a conductor: {row['conductor_mb']:.1f} MB, {row['look_seconds']:.2f} s of processor time for a look",
            flush=True,
        )
        if chosen.rows:
            chosen.rows.write_text(json.dumps(rows, indent=1))
    if chosen.picture:
        draw(rows, chosen.picture)
    return 0 if all_once else 1


if __name__ == "__main__":
    sys.exit(main())
