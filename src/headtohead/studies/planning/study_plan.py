"""Turn a study into runs: arms x seeds x shares of the budget, after the trials of a tuning if there is one.

A plan tells what is known by now. Which settings an arm's runs get is known once all trials of its tuning have ended:
until then the plan is open, and whoever works on the study plans again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.comparison.analyses.trials import Setting
from headtohead.comparison.contrasts import SeedStop
from headtohead.comparison.verdicts.seed_rounds import Pair, RoundProgress
from headtohead.config.compose.composition import composed_once
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import ended_record
from headtohead.execution.tuning import Tuning, for_arm
from headtohead.studies.definition.study import MEASURED_BUDGETS, FoundationRun, Study, foundation_of, used
from headtohead.studies.planning.matched_arms import Report, matched, refuse_elsewhere, refuse_unmet
from headtohead.studies.planning.study_progress import TuningProgress, progress_of, proposals, rounds_of
from headtohead.studies.planning.study_runs import (
    LeftOut,
    StudyRuns,
    check_metric,
    refuse_alike_once_tuned,
    refuse_duplicates,
    refuse_impossible_layers,
    refuse_shares_of_fits,
    shortened,
    steps_of,
    without_the_impossible,
)

if TYPE_CHECKING:
    from headtohead.studies.matching.matching import Matching

FoundationRuns = Mapping[tuple[str, int], RunSpec]
"""Foundations by name and seed."""


@dataclass(frozen=True)
class StudyPlan:
    """The runs of a study, trials first, then by seed: whenever it is stopped, the arms have had the same seeds."""

    study: Study
    runs: tuple[RunSpec, ...]
    """Those known so far."""
    folder: Path
    """outputs/studies/NAME."""
    drafts: Mapping[str, Mapping[str, Any]] = field(compare=False, repr=False)
    """Each arm's configuration under the budget, before any tuning."""
    left_out: LeftOut = ()
    """Combinations of an ablation that cannot be built."""
    matching: Matching | None = None
    """The result of matching each arm to the budget."""
    tunings: Mapping[str, TuningProgress] = field(default_factory=dict)
    """The tunings by arm, where arms are tuned."""
    awaited: int = 0
    """Runs that follow once the foundations they start from are laid."""
    rounds: RoundProgress | None = None
    """The progress of a study that adds seeds until it is decided."""

    @property
    def is_open(self) -> bool:
        """Return whether more runs follow from how trials and foundations end."""
        more_seeds = self.rounds is not None and self.rounds.is_open
        return self.awaited > 0 or more_seeds or not all(progress.over for progress in self.tunings.values())

    @property
    def budget_name(self) -> str | None:
        return self.study.budget_name

    @property
    def family(self) -> list[RunSpec]:
        """The runs that verdicts rest on, as far as they are known."""
        return [run for run in self.runs if run.counts]

    @property
    def num_runs(self) -> int:
        """Return the number of runs of the whole study, including those not known yet."""
        made = (*used(self.study), *self.study.arms)
        return sum(self.num_runs_of(arm) + self.num_trials(arm) for arm in made)

    def num_seeds(self, arm: str) -> int:
        """Return the number of seeds that the arm has or may get."""
        decided = self.rounds is not None and not self.rounds.may_grow(arm)
        return self.rounds.seeds[arm] if self.rounds is not None and decided else len(self.study.seeds)

    def num_runs_of(self, arm: str, most_seeds: int | None = None) -> int:
        """Return the number of runs of one arm without its trials, or of a foundation, which has those more that trials
        start from; over at most `most_seeds` seeds."""
        is_arm = arm in self.study.arms
        starting = [arm] if is_arm else [one for one in self.study.arms if foundation_of(self.study, one) == arm]
        seeds = max(self.num_seeds(one) for one in starting)
        seeds = seeds if most_seeds is None else min(seeds, most_seeds)
        of_trials = max((progress.tuning.seeds for progress in self.tunings.values()), default=0)
        return seeds * len(self.study.shares) if is_arm else seeds + of_trials

    @property
    def stops(self) -> Mapping[Pair, SeedStop]:
        """Return where the seeds of each contrast stopped; empty if their number was fixed."""
        return {} if self.rounds is None else self.rounds.stops

    def num_trials(self, arm: str) -> int:
        """Return the number of runs of an arm's tuning, including those not known yet."""
        if arm not in self.tunings:
            return 0
        tuning = self.tunings[arm].tuning
        return tuning.trials * tuning.seeds

    def run_folder(self, run: RunSpec) -> Path:
        return self.folder / "runs" / run.id

    def what_makes(self, arm: str) -> tuple[str, ...]:
        """Return the overrides that set an arm apart: its own, those that the budget asks for, and those of its
        tuning."""
        matched = self.matching.arm(arm).overrides if self.matching is not None else ()
        chosen = self.tunings[arm].chosen if arm in self.tunings else ()
        return (*self.study.arms[arm], *matched, *chosen)

    def of_arm(self, arm: str) -> list[RunSpec]:
        return [run for run in self.runs if run.arm == arm]


class StudyPlanner:
    """Plans a study again and again, and does no more than is new."""

    def __init__(
        self,
        study: Study,
        config_dir: str | Path | None = None,
        *,
        threads: int | None = None,
        report: Report | None = None,
    ) -> None:
        compose = composed_once(config_dir)
        whole = StudyRuns(study, compose, config_dir)
        self.study, self._left_out = without_the_impossible(
            study, lambda arm: refuse_impossible_layers(study, {arm: whole.of(arm, study.seeds[0]).config})
        )
        self._study_runs = StudyRuns(self.study, compose, config_dir)
        self.written = {arm: self._study_runs.of(arm, study.seeds[0]).config for arm in self.study.arms}
        """Each arm's configuration before any budget."""
        check_metric(study, self.written)
        refuse_shares_of_fits(study, self.written)
        self.folder = _folder(study, self.written)
        self._match: Callable[[], Matching | None] = lambda: matched(
            self.study, self.written, self.folder, config_dir=config_dir, threads=threads, report=report
        )
        self._matching: Matching | None = None
        self._threads = threads

    @property
    def has_begun(self) -> bool:
        """Return whether there are runs, of which some may have ended."""
        return (self.folder / "runs").is_dir()

    def plan(self) -> StudyPlan:
        """Reads the records of trials; all else is known from the first time on."""
        study = self.study
        if self._matching is None and (matching := self._match()) is not None:
            refuse_unmet(study, matching)
            self._matching = matching
        drafts = {arm: self._study_runs.of(arm, study.seeds[0], self._requested(arm)).config for arm in study.arms}
        seeds = (*study.tuning.every_seed, *study.seeds) if isinstance(study.tuning, Tuning) else study.seeds
        foundation_runs = {
            (name, seed): self._study_runs.foundation(name, seed) for seed in seeds for name in used(study)
        }
        tuned = drafts if isinstance(study.tuning, Tuning) else {}
        tunings = {arm: self._tuned(arm, draft, foundation_runs) for arm, draft in tuned.items()}
        trials = {arm: progress.runs for arm, progress in tunings.items()}
        refuse_alike_once_tuned(study, trials, lambda arm: self._first_tuned(arm, tunings[arm]))
        ready = [arm for arm in study.arms if arm not in tunings or tunings[arm].over]

        def run_at(arm: str, seed: int, share: float = 1.0) -> RunSpec | None:
            """Return None while nobody knows what it is."""
            if arm not in ready or not self._may_start(self._below(arm, seed, foundation_runs)):
                return None
            return self._run(arm, seed, share, drafts[arm], tunings.get(arm), foundation_runs)

        rounds = rounds_of(study, run_at, self.folder)
        due = {arm: study.seeds[: None if rounds is None else rounds.seeds[arm]] for arm in study.arms}
        of_seeds = [
            run_at(arm, seed, share)
            for seed in study.seeds
            for share in sorted(study.shares)
            for arm in ready
            if seed in due[arm]
        ]
        counted = [run for run in of_seeds if run is not None]
        refuse_duplicates(study, counted)
        begun = {
            (foundation_of(study, arm), seed) for arm in study.arms for seed in (*seeds[: -len(study.seeds)], *due[arm])
        }
        foundation_arms = [run for index, run in foundation_runs.items() if index in begun]
        runs = (*foundation_arms, *_in_turn([progress.runs for progress in tunings.values()]), *counted)
        drafts |= {run.arm: run.config for run in foundation_runs.values()}
        awaited = len(of_seeds) - len(counted)
        plan = StudyPlan(study, runs, self.folder, drafts, self._left_out, self._matching, tunings, awaited, rounds)
        self._check_conditions(plan)
        return plan

    def _check_conditions(self, plan: StudyPlan) -> None:
        """Records that are complete may be read anywhere."""
        undone = plan.is_open or any(ended_record(plan.run_folder(run)) is None for run in plan.runs)
        if plan.budget_name in MEASURED_BUDGETS and plan.matching is not None and undone:
            refuse_elsewhere(plan.study, plan.matching, self.written, self.folder, self._threads)

    def _below(self, arm: str, seed: int, foundation_runs: FoundationRuns) -> RunSpec | None:
        """The foundation that the arm's run of this seed starts from."""
        return foundation_runs.get((foundation_of(self.study, arm) or "", seed))

    def _start(self, below: RunSpec | None) -> FoundationRun | None:
        return None if below is None else FoundationRun(self.folder / "runs" / below.id, below.id)

    def _may_start(self, foundation: RunSpec | None) -> bool:
        """A foundation that failed is laid too: what starts from it says so."""
        return foundation is None or ended_record(self.folder / "runs" / foundation.id) is not None

    def _requested(self, arm: str) -> tuple[str, ...]:
        """Return the overrides that the budget requires."""
        return () if self._matching is None else self._matching.arm(arm).overrides

    def _tuned(self, arm: str, draft: Mapping[str, object], foundation_runs: FoundationRuns) -> TuningProgress:
        """Trials wait for the foundations of their own seeds."""
        study = self.study
        assert isinstance(study.tuning, Tuning), "a sentence is not a tuning"
        try:
            tuning = for_arm(study.tuning, metric=study.metric, direction=study.direction, config=draft)
        except ConfigurationError as error:
            raise ConfigurationError(f"study {study.name}, arm {arm}: {error}") from None
        below = {seed: self._below(arm, seed, foundation_runs) for seed in tuning.every_seed}
        if not all(map(self._may_start, below.values())):
            return TuningProgress(tuning, (), (), over=False)
        shorter = () if tuning.steps is None else shortened(draft, tuning.steps)
        overrides = (*self._requested(arm), *shorter, "trainer.keep_checkpoints=none", "trainer.num_samples=0")

        def run_of(number: int, setting: Setting, seed: int) -> RunSpec:
            return self._study_runs.of(
                arm, seed, (*overrides, *setting.overrides), trial=number, start=self._start(below[seed])
            )

        return progress_of(tuning, run_of, lambda run: ended_record(self.folder / "runs" / run.id))

    def _first_tuned(self, arm: str, progress: TuningProgress) -> RunSpec:
        """Return what the arm's run would be by the first of its settings."""
        setting = proposals(progress.tuning, ())[0]
        return self._study_runs.of(arm, self.study.seeds[0], (*self._requested(arm), *setting.overrides))

    def _run(
        self,
        arm: str,
        seed: int,
        share: float,
        draft: Mapping[str, object],
        progress: TuningProgress | None,
        foundation_runs: FoundationRuns,
    ) -> RunSpec:
        chosen = progress.chosen if progress is not None else ()
        steps = steps_of(share, RunConfig(draft).max_steps, arm=arm, study=self.study.name)
        added = (*self._requested(arm), *chosen, *shortened(draft, steps))
        return self._study_runs.of(
            arm, seed, added, share=share, start=self._start(self._below(arm, seed, foundation_runs))
        )


def _in_turn(rows: Sequence[Sequence[RunSpec]]) -> list[RunSpec]:
    """Return the first of each, then the second of each."""
    longest = max(map(len, rows), default=0)
    return [row[index] for index in range(longest) for row in rows if index < len(row)]


def _folder(study: Study, written: Mapping[str, Mapping[str, object]]) -> Path:
    arm_of_folder = {RunConfig(config).output_dir: arm for arm, config in written.items()}
    if len(arm_of_folder) > 1:
        raise ConfigurationError(
            f"arms {' and '.join(arm_of_folder.values())} go to different output_dir: give one for all"
        )
    return Path(next(iter(arm_of_folder))) / "studies" / study.name
