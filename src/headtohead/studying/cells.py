"""The runs of a study: where each belongs, the overrides and the configuration that make it, and an id made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headtohead.building.content import run_id
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.studying.composing import Composer
from headtohead.studying.foundations import FIELD, Start, without_foundation
from headtohead.studying.study import SPLIT_FIELD, Study
from headtohead.tracking.record import Place

_IN_STEPS = ("schedule.warmup", "schedule.decay")
"""Numbers of steps where they are not below 1."""


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    arm: str
    seed: int
    """That of the study; what the run itself is given may be offset."""
    overrides: tuple[str, ...]
    config: Mapping[str, Any] = field(compare=False, repr=False)
    id: str
    """Of the same content everywhere: machine, folder, order and company of other arms make no difference."""
    study: str = ""
    trial: int | None = None
    """Of the arm's tuning; such a run is never in a verdict."""
    share: float = 1.0
    """Of the budget; verdicts rest on the whole."""
    is_foundation: bool = False
    """Whether others start from it; arm is its name then, and it is in no verdict."""

    @property
    def name(self) -> str:
        return name_of(self.arm, self.seed, self.trial, self.share)

    @property
    def counts(self) -> bool:
        """Whether a verdict may rest on it."""
        return self.trial is None and self.share == 1 and not self.is_foundation

    @property
    def place(self) -> Place:
        """None where there is no study."""
        return Place(self.study, self.arm, self.seed, self.trial, self.share) if self.study else Place()


class Cells:
    """Makes the runs of one study."""

    def __init__(self, study: Study, composer: Composer) -> None:
        self._study, self._composer = study, composer

    def of(
        self,
        arm: str,
        seed: int,
        added: Sequence[str] = (),
        *,
        trial: int | None = None,
        share: float = 1.0,
        start: Start | None = None,
    ) -> Cell:
        """added comes after the overrides of the arm: what a budget, a tuning or a place on an axis asks of it."""
        begun = () if start is None else (start.override,)
        overrides = overrides_of(self._study, arm, seed, (*begun, *added), trial=trial, share=share)
        config = self._composed(arm, overrides)
        of_the_id = config if start is None else {**config, FIELD: start.id}
        return Cell(arm, seed, overrides, config, run_id(of_the_id), self._study.name, trial, share)

    def foundation(self, name: str, seed: int) -> Cell:
        """What arms start from; of it they need the best weights."""
        made = (*self._study.base, *self._study.foundations[name])
        given = (*made, "trainer.keep_checkpoints=best", *split_of(self._study, seed), f"seed={seed}")
        last = {key_of(override): override for override in given}
        overrides = (*last.values(), f"name={name_of(name, seed)}", f"group={self._study.name}")
        config = self._composed(name, overrides)
        return Cell(name, seed, overrides, config, run_id(config), self._study.name, is_foundation=True)

    def _composed(self, arm: str, overrides: tuple[str, ...]) -> Mapping[str, Any]:
        try:
            config = self._composer.composed(overrides)
        except ConfigurationError as error:
            raise ConfigurationError(f"study {self._study.name}, arm {arm}: {error}") from None
        if config["trainer"]["devices"] * config["trainer"]["num_nodes"] > 1:
            raise ConfigurationError(
                f"study {self._study.name}, arm {arm}: trainer.devices={config['trainer']['devices']} is refused, "
                "since the runs of a study take one device each: set trainer.devices=1, and --workers for several "
                "runs at once"
            )
        return config


def name_of(arm: str, seed: int, trial: int | None = None, share: float = 1.0) -> str:
    """As the run is called on terminals and dashboards."""
    if trial is not None:
        return f"{arm}-t{trial}"
    return f"{arm}-s{seed}" if share == 1 else f"{arm}-s{seed}-{100 * share:g}pct"


def overrides_of(
    study: Study, arm: str, seed: int, added: Sequence[str] = (), *, trial: int | None = None, share: float = 1.0
) -> tuple[str, ...]:
    """What makes the run with `h2h train`; of two values for one field the later counts. Trials have no use for tests
    on longer rows."""
    longer = study.lengths if trial is None else ()
    lengths = [f"evaluation.lengths=[{','.join(map(str, longer))}]"] if longer else []
    own = f"seed={seed + study.seed_offsets.get(arm, 0)}"
    given = (*study.base, *lengths, *study.arms[arm], *added, *split_of(study, seed), own)
    last = {key_of(override): override for override in without_foundation(given)}
    return (*last.values(), f"name={name_of(arm, seed, trial, share)}", f"group={study.name}")


def split_of(study: Study, seed: int) -> tuple[str, ...]:
    """The rows of each split, the same in every arm: drawn by the seed where the study says so."""
    return (f"{SPLIT_FIELD}={seed}",) if "split" in study.vary else ()


def shortened(config: Mapping[str, Any], steps: int) -> tuple[str, ...]:
    """Overrides that make a whole run of so many steps: what is counted in steps keeps its place in the run. A run that
    takes none stays as it is."""
    whole: int = config["trainer"]["max_steps"]
    if steps == whole or not whole:
        return ()
    validate_every = max(1, round(config["trainer"]["validate_every"] * steps / whole))
    counted = [
        f"{path}={max(1, round(value * steps / whole))}"
        for path in _IN_STEPS
        if (value := config["schedule"].get(path.partition(".")[2])) is not None and value >= 1
    ]
    return (f"trainer.max_steps={steps}", f"trainer.validate_every={validate_every}", *counted)
