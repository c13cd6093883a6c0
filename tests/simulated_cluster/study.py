"""A study on the simulated cluster: its planner, claims, queue, records and monitor are real, training is pretended."""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.execution.claims.folder_claims import FolderClaims
from headtohead.execution.claims.run_claims import RunClaims
from headtohead.execution.monitor import Monitor, RunStatus
from headtohead.execution.run_queue import Job, RunQueue, idle_seconds
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import is_done
from headtohead.files.leases import LeaseLostError, Leases
from headtohead.records.index.run_index import RunIndex
from headtohead.records.record import Comparability, Progress, RunRecord
from headtohead.records.run_folder import RECORD, RunFolder
from headtohead.records.strict_json import RecordError
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.study_report import report_of
from simulated_cluster.cluster import CALM, Cluster, Process, Program, Trouble

MEAN_SECONDS = 600.0
"""The mean time that a run takes."""
_STEPS = 100
_SAVE_EVERY = 25
_REPLAN_SECONDS = 20.0
OPENED = ("open", "create", "list")
"""Operations that open a file or a folder, or make one."""
Planner = Callable[[], StudyPlan]
MakeClaims = Callable[[Process, StudyPlan], RunClaims]


def folder_claims(process: Process, plan: StudyPlan) -> RunClaims:
    """Return claims by leases, whose choices follow from the number of the process."""
    return FolderClaims(Leases(plan.folder / "leases"), seed=process.number)


def value_of(run: RunSpec) -> float:
    """Return what training this run gives, whoever trains it: arms differ, and so do seeds."""
    digest = hashlib.sha256(run.id.encode()).digest()
    arm = int.from_bytes(hashlib.sha256(run.arm.encode()).digest()[:2], "big") / 2**16
    return 1.0 + 0.05 * arm + 0.02 * int.from_bytes(digest[:4], "big") / 2**32


def seconds_of(run: RunSpec, mean: float) -> float:
    """Return how long training takes: half to three halves of the mean."""
    return mean * (0.5 + hashlib.sha256(run.id.encode()).digest()[5] / 255)


@dataclass
class Outcome:
    """An outcome is what a simulation came to."""

    ended: Counter[str] = field(default_factory=Counter)
    """The number of times that each run was trained to its end and its record written."""
    steps: Counter[str] = field(default_factory=Counter)
    writers: dict[str, int] = field(default_factory=dict)
    """The number of the lease under which each run was last written."""
    overlaps: list[str] = field(default_factory=list)
    """Runs whose record appeared under a lease that another process had taken over."""
    claims: list[float] = field(default_factory=list)
    """The times at which runs were claimed, in simulated seconds."""
    conductor: list[tuple[float, float]] = field(default_factory=list)
    """The peak memory of a conductor in bytes, and the processor time of one look of it."""
    simulated_seconds: float = 0.0
    operations: dict[str, float] = field(default_factory=dict)
    """The operations on the shared disk, for each worker and minute."""
    most_opened: float = 0.0
    """The most files that one process opened, created or listed for each minute of its life."""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def opened(self) -> float:
        """Return how many files a worker opens, creates or lists in a minute."""
        return sum(self.operations.get(kind, 0.0) for kind in OPENED)

    @property
    def claims_per_second(self) -> float:
        """Return the claims of the busiest minute, for each second."""
        minutes = Counter(int(when // 60) for when in self.claims)
        return max(minutes.values(), default=0) / 60


class SimulatedStudy:
    """Workers of a cluster on one plan; `planner` plans anew where the plan is open."""

    def __init__(
        self,
        planner: Planner,
        *,
        workers: int,
        seed: int,
        trouble: Trouble,
        make_claims: MakeClaims = folder_claims,
        looks: int = 2,
        mean_seconds: float = MEAN_SECONDS,
    ) -> None:
        self._planner, self._workers, self._make_claims, self._looks = planner, workers, make_claims, looks
        self._mean = mean_seconds
        self.cluster = Cluster(seed, trouble)
        self.outcome = Outcome()
        self._finished: dict[Path, tuple[float, str]] = {}
        """The time and the machine at which the record of a run became final."""
        self._plan, self._planned = planner(), 0.0

    def run(self) -> Outcome:
        """Let the study come to its end."""
        cluster, outcome = self.cluster, self.outcome
        with cluster.disk():
            cluster.start_workers(self._workers, self._worker)
            mean = self._mean * len(self._plan.runs) / self._workers
            for look in range(self._looks):
                cluster.clock.at((look + 1) * mean / (self._looks + 1), self._conduct)
            while cluster.workers:
                cluster.clock.run(until=cluster.clock.now + 60.0)
        outcome.simulated_seconds = max(outcome.claims, default=0.0)
        self._count_operations()
        outcome.counts = cluster.counts
        return outcome

    @property
    def plan(self) -> StudyPlan:
        """Return the plan as it is now."""
        return self._planner()

    def _again(self) -> tuple[StudyPlan, Sequence[RunSpec]]:
        """Every worker plans from the same records: they share a plan that is not old."""
        if self.cluster.clock.now - self._planned > _REPLAN_SECONDS:
            self._plan, self._planned = self._planner(), self.cluster.clock.now
        return self._plan, self._plan.runs

    def _worker(self, process: Process) -> Program:
        clock = self.cluster.clock
        plan, runs = self._again()

        def sees_done(folder: Path) -> bool:
            when, machine = self._finished.get(folder, (clock.now, ""))
            is_hidden = machine != process.machine.name and when > self.cluster.server.seen_until(process.machine)
            return not is_hidden and is_done(folder)

        queue = RunQueue(plan, runs, self._make_claims(process, plan), again=self._again, is_done=sees_done)
        idle_since: float | None = None
        while not process.is_stopping and (queue.has_work or queue.plan_more() or queue.awaits_more):
            job = next(
                (job for runs in queue.by_devices() if (job := queue.take(runs, is_idle=idle_since is not None))), None
            )
            if job is None:
                idle_since = clock.now if idle_since is None else idle_since
                yield idle_seconds(idle_since, clock.now)
                queue.plan_more()
                continue
            idle_since = None
            self.outcome.claims.append(clock.now)
            if not queue.begin(job):
                yield 0.1
                continue
            yield from self._train(job, process)
            if job.claim.is_held():
                queue.end(job, death=None if process.is_stopping else "exit code 1")

    def _train(self, job: Job, process: Process) -> Program:
        """Pretend to train: the real record, written under the real lease, from the step of the last one on."""
        try:
            folder, record = self._claimed(job)
        except RecordError:  # another writes it: the process fails
            return
        try:
            while record.progress.step < _STEPS:
                folder.write_record(record)
                self._wrote(job.run.id, folder)
                yield seconds_of(job.run, self._mean) * _SAVE_EVERY / _STEPS
                folder.check_lease()
                self.outcome.steps[job.run.id] += _SAVE_EVERY
                record.progress = Progress(step=record.progress.step + _SAVE_EVERY, flops=1e6)
                if process.is_stopping:
                    record.status = "interrupted"
                    break
            else:
                record.status = "finished"
                loss = value_of(job.run)
                record.metrics |= {"validation": {"loss": loss}, "test": {"loss": loss}}
            if record.status == "finished":
                self._finished.setdefault(job.folder, (self.cluster.clock.now, process.machine.name))
            folder.write_record(record)
            self._wrote(job.run.id, folder)
            self.outcome.ended[job.run.id] += record.status == "finished"
        except LeaseLostError:
            return
        folder.release()

    def _claimed(self, job: Job) -> tuple[RunFolder, RunRecord]:
        """Begin the run, or go on with it; a look at the folder itself, which is fresh once its lease is ours."""
        if (job.folder / RECORD).exists():
            folder = RunFolder.resume(job.folder)
            record = folder.read_record_as_written()
            record.status = "running"
            return folder, record
        folder = RunFolder.create_at(job.folder)
        record = RunRecord(
            id=folder.id, name=job.run.name, seed=job.run.seed, status="running", config=dict(job.run.config)
        )
        record.place = job.run.place
        record.comparability = Comparability(evaluation="e")
        record.throughput = {"tokens_per_second": 10.0, "peak_memory_bytes": 2.0**20}
        return folder, record

    def _wrote(self, run: str, folder: RunFolder) -> None:
        """Note the lease under which a record appeared: one of a lower number than the last is of a second writer."""
        assert folder._lease is not None
        number = folder._lease.number
        if number < self.outcome.writers.get(run, 0):
            self.outcome.overlaps.append(run)
        self.outcome.writers[run] = number

    def _conduct(self) -> None:
        """Measure a conductor that is started now: its first look reads everything, and so does the index."""
        process = self.cluster.process(self.cluster.machine("login"))
        plan, runs = self._again()
        process.files.slow_share = 0.0  # while it waited, others would allocate
        with self.cluster.as_process(process):
            tracemalloc.start()
            monitor = Monitor(plan, runs)
            monitor.update()
            begun = time.process_time()
            statuses = monitor.update()
            seconds = time.process_time() - begun
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            process.files.slow_share = self.cluster.server.slow_share
            if (plan.folder / "runs").is_dir():
                with RunIndex(None) as index:
                    indexed = {
                        Path(run.path).name for run in index.summaries(plan.folder / "runs") if run.status == "finished"
                    }
                before, after = _finished(statuses), _finished(Monitor(plan, runs).update())
                assert before <= indexed <= after, "the index says what records said while it was read"
        self.outcome.conductor.append((float(peak), seconds))

    def _count_operations(self) -> None:
        total: Counter[str] = Counter()
        for process in cluster_workers(self.cluster):
            total.update(process.files.operations)
        minutes = 1e-9 + sum(process.minutes for process in cluster_workers(self.cluster))
        self.outcome.operations = {kind: count / minutes for kind, count in sorted(total.items())}
        opened = [
            sum(process.files.operations[kind] for kind in OPENED) / process.minutes
            for process in cluster_workers(self.cluster)
        ]
        self.outcome.most_opened = max(opened, default=0.0)


def undisturbed(plan: StudyPlan) -> Outcome:
    """Let one worker do a study to which nothing happens, in runs of a second."""
    return SimulatedStudy(lambda: plan, workers=1, seed=1, trouble=CALM, looks=0, mean_seconds=1.0).run()


def verdict_of(plan: StudyPlan) -> list[Any]:
    """Return all that is reported of a study but for where its files are."""
    data = report_of(plan).to_dict()
    return [data[name] for name in ("verdicts", "arms", "complete", "remarks")]


def _finished(statuses: Sequence[RunStatus]) -> set[str]:
    return {status.run.id for status in statuses if status.status == "finished"}


def cluster_workers(cluster: Cluster) -> list[Process]:
    """Return the workers that lived for some minutes."""
    return [process for process in cluster.processes if process.minutes >= 1]
