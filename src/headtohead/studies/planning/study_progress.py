"""A study's progress by the records of its runs alone, so that every worker gets the same answer: the tuning of
each arm, and the rounds of a study that adds seeds until it is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from headtohead.comparison.analyses.trials import Setting, Trial, best_of, trial_of
from headtohead.comparison.analyses.tuning_summary import TuningDesign, TuningSummary, tuning_summary
from headtohead.comparison.comparison_results import value_of
from headtohead.comparison.contrasts import Registration
from headtohead.comparison.verdicts.seed_rounds import EndedRun, RoundProgress, fewest_seeds, follow_rounds
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import ended_record
from headtohead.execution.tuning import Tuning, on_grid, random_settings
from headtohead.records.record import COUNTED, RunRecord
from headtohead.studies.definition.study import Study


@dataclass(frozen=True)
class TuningProgress:
    """The tuning of one arm."""

    tuning: Tuning
    """The tuning as it is for this arm."""
    runs: tuple[RunSpec, ...]
    """The trials known so far; later ones may depend on how these end."""
    tried: tuple[Trial, ...]
    over: bool
    """Whether every trial has ended."""

    @property
    def winner(self) -> Trial | None:
        """Return None while it lasts, and where no trial came to an end."""
        return winner(self.tuning, self.tried) if self.over else None

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the overrides of the winner."""
        return () if self.winner is None else self.winner.setting.overrides


def progress_of(
    tuning: Tuning, run_of: Callable[[int, Setting, int], RunSpec], ended: Callable[[RunSpec], RunRecord | None]
) -> TuningProgress:
    """Batch after batch, from the first: a batch is proposed once all before it have ended, however they did.

    `run_of` makes the run of a trial's number, setting and seed. `ended` gives the record of a run that is done, None
    for any other.
    """
    runs: list[RunSpec] = []
    tried: list[Trial] = []
    while settings := proposals(tuning, tried):
        batch = [(len(tried) + index, setting) for index, setting in enumerate(settings)]
        made = [[run_of(number, setting, seed) for seed in tuning.every_seed] for number, setting in batch]
        runs += [run for one_trial in made for run in one_trial]
        records = [[ended(run) for run in one_trial] for one_trial in made]
        known = [[record for record in one_trial if record is not None] for one_trial in records]
        if any(len(one_trial) < tuning.seeds for one_trial in known):
            return TuningProgress(tuning, tuple(runs), tuple(tried), over=False)
        assert tuning.metric is not None, "for_arm says by what"
        tried += [
            trial_of(number, setting, one_trial, tuning.metric)
            for (number, setting), one_trial in zip(batch, known, strict=True)
        ]
    return TuningProgress(tuning, tuple(runs), tuple(tried), over=True)


def summary_of(tunings: Mapping[str, TuningProgress]) -> TuningSummary | None:
    """Summarise the tuning of all arms; None if nothing is tuned."""
    if not tunings:
        return None
    first = next(iter(tunings.values())).tuning
    tried = {arm: (progress.tuning.space, progress.tried) for arm, progress in tunings.items()}
    return tuning_summary(_design(first), tried)


def _design(tuning: Tuning) -> TuningDesign:
    """All but the space is that of every arm."""
    assert tuning.metric and tuning.direction, "for_arm says by what, and what is better"
    return TuningDesign(
        tuning.search, tuning.trials, tuning.metric, tuning.direction, tuning.seed, tuning.steps, tuning.seeds
    )


def proposals(tuning: Tuning, tried: Sequence[Trial]) -> list[Setting]:
    """Settings of the next trials, numbered on from those tried: 0, 1, 2 ..., all ended. None: the search is over.

    The tuning is one that `for_arm` completed.
    """
    assert tuning.space and tuning.direction, "for_arm says over which space, and what is better"
    assert [trial.number for trial in tried] == list(range(len(tried))), "trials are recorded without gaps"
    if tuning.search == "grid":
        return on_grid(tuning.space)[len(tried) : tuning.trials]
    if tuning.search == "random":
        return list(islice(random_settings(tuning.space, tuning.seed), len(tried), tuning.trials))
    from headtohead.execution.tuning import suggested

    return suggested(tuning, tried)


def winner(tuning: Tuning, tried: Sequence[Trial]) -> Trial | None:
    """Return the best on validation. None: nothing finished, and the arm keeps the settings that it came with."""
    return best_of(tried, larger_is_better=tuning.larger_is_better)


RunAt = Callable[[str, int], RunSpec | None]
"""The run of an arm and a seed that verdicts rest on; None while nobody knows what it is."""


def rounds_of(study: Study, run_at: RunAt, folder: Path) -> RoundProgress | None:
    """Return how far they have come; None where the number of seeds was fixed."""
    if study.rounds is None:
        return None

    def ended(arm: str, index: int) -> EndedRun | None:
        run = run_at(arm, study.seeds[index])
        record = None if run is None else ended_record(folder / "runs" / run.id)
        if record is None:
            return None
        return EndedRun(value_of(record, study.metric), counts=record.status in COUNTED)

    registration = Registration(
        direction=study.direction,
        margin=study.margin,
        alpha=study.alpha,
        paired=study.is_paired,
        solved_at=study.solved_at,
    )
    return follow_rounds(study.rounds, list(study.arms), study.contrasts, registration, ended)


def fewest_rounds(study: Study) -> int | None:
    """Return the seeds of every arm with which all contrasts can be decided at the earliest; None where solve rates
    decide, and where the number of seeds was fixed."""
    if study.rounds is None or study.solved_at is not None:
        return None
    return fewest_seeds(study.alpha / max(1, len(study.contrasts)), study.rounds.start, study.rounds.most)
