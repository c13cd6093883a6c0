"""Studies on simulated clusters: whatever happens to workers, disks and clocks, every run is trained to its end once.

The large form, ten thousand runs by a thousand workers, is `python benchmarks/many_workers.py`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from execution.test_postgres_claims import simulated_claims
from headtohead.files.leases import Lease
from headtohead.records.run_folder import RunFolder
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.results.study_report import report_of
from simulated_cluster.clock import Clock
from simulated_cluster.cluster import CALM, HeldLeases, Trouble
from simulated_cluster.network_files import NetworkFiles
from simulated_cluster.study import Outcome, SimulatedStudy, undisturbed, verdict_of
from studies.small_studies import TINY, plan_without_models, small_study
from waiting import PATIENCE

HARSH = Trouble(killed_per_minute=0.15, slow_share=0.01)
"""More than any cluster, so that little time shows much."""
TUNING = {"search": "grid", "trials": 3, "space": {"optimizer.lr": [0.1, 0.001, 0.01]}}


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR)
    yield


def simulate(plan: StudyPlan, seed: int, trouble: Trouble = HARSH, **options: Any) -> Outcome:
    options = {"workers": 8, "mean_seconds": 100.0, "looks": 1, **options}
    return SimulatedStudy(lambda: plan, seed=seed, trouble=trouble, **options).run()


def check_once_each(plan: StudyPlan, outcome: Outcome) -> None:
    assert outcome.ended == Counter(run.id for run in plan.runs), "each run ends once, and none is lost"
    assert not outcome.overlaps, "no process writes after another took over"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_run_ends_once_whatever_happens_and_the_verdict_is_that_of_a_calm_study(
    tmp_path: Path, seed: int
) -> None:
    plans = [plan_without_models(tmp_path / name, seeds=20) for name in ("calm", "harsh")]
    check_once_each(plans[0], undisturbed(plans[0]))
    outcome = simulate(plans[1], seed)
    check_once_each(plans[1], outcome)
    assert verdict_of(plans[0]) == verdict_of(plans[1]) and report_of(plans[1]).complete
    assert sum(outcome.counts.values()) > 5 and len(outcome.claims) > len(plans[1].runs), "much happened"


@pytest.mark.slow
def test_a_tuned_study_is_planned_on_while_workers_die(tmp_path: Path) -> None:
    verdicts = []
    for name, trouble in (("calm", CALM), ("harsh", HARSH)):
        base = [*TINY, f"output_dir={tmp_path / name}"]
        planner = StudyPlanner(small_study(base=base, seeds=4, tuning=TUNING))
        simulated = SimulatedStudy(planner.plan, workers=6, seed=3, trouble=trouble, looks=0, mean_seconds=100.0)
        outcome = simulated.run()
        check_once_each(simulated.plan, outcome)
        assert len(outcome.ended) == 2 * (3 + 4)
        verdicts.append(verdict_of(simulated.plan))
    assert verdicts[0] == verdicts[1]


def test_the_thread_of_real_leases_finds_none_of_a_simulation() -> None:
    held = HeldLeases()
    held[Lease(Path("leases/run.1"), 1)] = None
    seen: list[int] = []
    other = Thread(target=lambda: seen.append(len(list(held))))
    other.start()
    other.join(PATIENCE)
    assert len(list(held)) == 1 and seen == [0]


@pytest.mark.slow
def test_what_happens_follows_from_the_seed(tmp_path: Path) -> None:
    plans = [plan_without_models(tmp_path / name, seeds=5) for name in "ab"]
    first, second = (simulate(plan, 7) for plan in plans)
    assert first.claims == second.claims and first.operations == second.operations


@pytest.mark.process
def test_claims_in_a_database_pass_the_same(tmp_path: Path, postgres: str) -> None:
    plan = plan_without_models(tmp_path, seeds=8)
    with simulated_claims(postgres) as make_claims:
        check_once_each(plan, simulate(plan, 5, make_claims=make_claims))


@pytest.mark.slow
def test_the_files_that_a_worker_opens_do_not_grow_with_their_number(tmp_path: Path) -> None:
    """An idle worker watches at most 16 runs at a time, which a few workers leave unfilled: 32 do not."""
    opened = []
    for number in (32, 96):
        plan = plan_without_models(tmp_path / str(number), seeds=2 * number)
        opened.append(simulate(plan, 1, CALM, workers=number, looks=0).opened)
    assert opened[1] < 1.4 * opened[0]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "no check", "no renewal", "no exclusion"])
def test_the_simulation_finds_claims_that_are_not_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The laws above rest on these; each is taken out by itself."""
    if fault == "no check":
        monkeypatch.setattr(Lease, "check", lambda _: None)
        monkeypatch.setattr(RunFolder, "check_lease", lambda _: None)
    elif fault == "no renewal":
        monkeypatch.setattr(Lease, "_renew_after_silence", lambda _: None)
    elif fault == "no exclusion":
        create = NetworkFiles.create

        def careless(files: NetworkFiles, path: Path, text: str) -> bool:
            return create(files, path, text) or path.suffix == ".1"

        monkeypatch.setattr(NetworkFiles, "create", careless)
    trouble = Trouble(killed_per_minute=0.4, memory_seconds=300.0, kinds=("asleep",))
    broken = 0
    for seed in range(20 if fault != "none" else 6):
        if broken:
            break
        plan = plan_without_models(tmp_path / str(seed), seeds=6)
        outcome = simulate(plan, seed, trouble, looks=0, workers=12)
        broken += len(outcome.overlaps) + (outcome.ended != Counter(run.id for run in plan.runs))
    assert bool(broken) == (fault != "none")


def test_whoever_waits_goes_on_at_their_moment_however_long_others_wait() -> None:
    clock, moments = Clock(), []

    def wait(number: int) -> None:
        if number:
            clock.at(clock.now + 0.5, lambda: wait(number - 1))
        clock.pause(1.0 + number)
        moments.append((number, clock.now))

    wait_at = 3.0
    clock.at(wait_at, lambda: wait(1000))
    clock.run(until=5000.0)
    assert dict(moments) == {number: wait_at + 0.5 * (1000 - number) + 1.0 + number for number in range(1001)}
    assert [moment for _, moment in moments] == sorted(moment for _, moment in moments)
