"""Workers by the thousand on one study, simulated: claims, files opened and a conductor's memory over their number.

    python benchmarks/many_workers.py [--runs 10000] [--workers 10 100 1000] [--picture FILE] [--postgres ADDRESS]

The claims, records, queue, monitor and index are the real ones; training is pretended, time is compressed, and the
shared disk shows names late, has no locks and is slow at times. One worker in a hundred is killed every minute,
pre-empted, suspended, or lost with its node. An exit code of 0 says that every run was trained to its end once.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

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


def draw(outcomes: dict[int, Outcome], file: Path) -> None:
    """Draw what grows with the number of workers, and what does not."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), constrained_layout=True)
    numbers = list(outcomes)
    curves = {
        "claims in a second, busiest minute": [one.claims_per_second for one in outcomes.values()],
        "files opened by a worker in a minute": [one.opened for one in outcomes.values()],
        "memory of a conductor, MB": [max(peak for peak, _ in one.conductor) / 1e6 for one in outcomes.values()],
    }
    for axis, (title, values) in zip(axes, curves.items(), strict=True):
        axis.plot(numbers, values, "o-", color="#3366aa")
        axis.set(xscale="log", xlabel="workers", title=title, ylim=(0, 1.2 * max(values)))
        axis.title.set_size(9)
    figure.savefig(file, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--postgres", metavar="ADDRESS", help="claims in this database instead of in the folder")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    outcomes, all_once = {}, True
    for workers in chosen.workers:
        number = min(chosen.runs, 10 * workers)
        begun = time.process_time()
        outcome, is_once = simulated(number, workers, chosen.postgres)
        outcomes[workers], all_once = outcome, all_once and is_once
        peak, seconds = max(outcome.conductor)
        accidents = ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())
        print(
            f"{number:,} runs by {workers:,} workers, {outcome.simulated_seconds / 3600:.1f} hours simulated in "
            f"{time.process_time() - begun:.0f} s of processor time; {accidents}\n"
            f"  every run once: {'yes' if is_once else 'NO'}; {len(outcome.claims):,} claims, "
            f"{outcome.claims_per_second:.1f} in a second of the busiest minute\n"
            f"  files opened by a worker in a minute: {outcome.opened:.0f}, at most {outcome.most_opened:.0f}\n"
            f"  a conductor: {peak / 1e6:.1f} MB, {seconds:.2f} s of processor time for a look",
            flush=True,
        )
    if chosen.picture:
        draw(outcomes, chosen.picture)
    return 0 if all_once else 1


if __name__ == "__main__":
    sys.exit(main())
