"""How far the tuning of an arm has come, by the records of its trials alone: every worker finds the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headtohead.comparing.trials import Setting, Trial, trial_of
from headtohead.studying.cells import Cell
from headtohead.studying.tuning.searching import proposals, winner
from headtohead.studying.tuning.tuning import Tuning
from headtohead.tracking.record import RunRecord


@dataclass(frozen=True)
class Progress:
    """The tuning of one arm."""

    tuning: Tuning
    """As it is for this arm."""
    cells: tuple[Cell, ...]
    """The trials known so far; later ones may depend on how these end."""
    tried: tuple[Trial, ...]
    over: bool
    """Whether every trial has ended."""

    @property
    def winner(self) -> Trial | None:
        """None while it lasts, and where no trial came to an end."""
        return winner(self.tuning, self.tried) if self.over else None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The overrides of the winner."""
        return () if self.winner is None else self.winner.setting.overrides


def progress_of(
    tuning: Tuning, cell_of: Callable[[int, Setting], Cell], ended: Callable[[Cell], RunRecord | None]
) -> Progress:
    """Batch after batch, from the first: a batch is proposed once all before it have ended, however they did.

    `ended` gives the record of a run that is done, None for any other.
    """
    cells: list[Cell] = []
    tried: list[Trial] = []
    while settings := proposals(tuning, tried):
        batch = [(len(tried) + place, setting) for place, setting in enumerate(settings)]
        made = [cell_of(number, setting) for number, setting in batch]
        cells += made
        records = [ended(cell) for cell in made]
        if any(record is None for record in records):
            return Progress(tuning, tuple(cells), tuple(tried), over=False)
        assert tuning.metric is not None, "for_arm says by what"
        tried += [
            trial_of(number, setting, record, tuning.metric)
            for (number, setting), record in zip(batch, records, strict=True)
            if record is not None
        ]
    return Progress(tuning, tuple(cells), tuple(tried), over=True)
