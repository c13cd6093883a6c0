"""From a study to its runs: arms x seeds, each with the configuration that makes it and an id made of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.building.configuration import compose_checked
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.studying.ablation.possible import LeftOut, without_the_impossible
from headtohead.studying.study import Study
from headtohead.tracking.record import Place

_NOT_OF_THE_RESULT = (
    "name", "group", "tags", "notes", "output_dir", "resume_from", "tracking", "choices",
)  # fmt: skip
"""How a run is called, where it goes and who is told: another value there makes no other run."""
_NOT_OF_THE_TRAINING = ("progress_bar", "threads", "num_workers", "num_samples", "keep_checkpoints", "log_every")
_ID_LENGTH = 12


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

    @property
    def name(self) -> str:
        return f"{self.arm}-s{self.seed}"

    @property
    def place(self) -> Place:
        return Place(self.study, self.arm, self.seed)


@dataclass(frozen=True)
class Plan:
    """All runs of a study, seeds first: whenever it is stopped, the arms have had the same seeds."""

    study: Study
    cells: tuple[Cell, ...]
    folder: Path
    """outputs/studies/NAME."""
    left_out: LeftOut = ()
    """Combinations of an ablation that cannot be built."""

    def run_folder(self, cell: Cell) -> Path:
        return self.folder / "runs" / cell.id

    def of_arm(self, arm: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.arm == arm]


def plan_of(study: Study, config_dir: str | Path | None = None) -> Plan:
    """Every run composed and checked; arms that are the same run are refused."""
    study, left_out = without_the_impossible(study, lambda arm: _cell(study, arm, study.seeds[0], config_dir))
    cells = [_cell(study, arm, seed, config_dir) for seed in study.seeds for arm in study.arms]
    _refuse_twins(study, cells)
    _refuse_ways_apart(cells)
    return Plan(study, tuple(cells), Path(cells[0].config["output_dir"]) / "studies" / study.name, left_out)


def overrides_of(study: Study, arm: str, seed: int) -> tuple[str, ...]:
    """What makes the run with `h2h train`; of two values for one field the later counts."""
    given = (*study.base, *study.arms[arm], f"seed={seed + study.seed_offsets.get(arm, 0)}", f"name={arm}-s{seed}")
    last = {key_of(override): override for override in (*given, f"group={study.name}")}
    return tuple(last.values())


def run_id(config: Mapping[str, Any]) -> str:
    """A hash of what decides the result: the resolved configuration, its seed in it, without names and paths."""
    deciding = {key: value for key, value in config.items() if key not in _NOT_OF_THE_RESULT}
    deciding["trainer"] = {k: v for k, v in config["trainer"].items() if k not in _NOT_OF_THE_TRAINING}
    text = json.dumps(deciding, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def shard_of(cells: Sequence[Cell], index: int, count: int) -> list[Cell]:
    """The i-th of n shares, i from 1; by place in the plan, so that every share has all arms where it can."""
    arms = len({cell.arm for cell in cells})
    return [cell for place, cell in enumerate(cells) if (place // arms) % count == index - 1]


def _cell(study: Study, arm: str, seed: int, config_dir: str | Path | None) -> Cell:
    overrides = overrides_of(study, arm, seed)
    try:
        config = compose_checked("train", overrides, config_dir)
    except ConfigurationError as error:
        raise ConfigurationError(f"study {study.name}, arm {arm}: {error}") from None
    if config["trainer"]["devices"] * config["trainer"]["num_nodes"] > 1:
        raise ConfigurationError(
            f"study {study.name}, arm {arm}: trainer.devices={config['trainer']['devices']} is refused, since the runs "
            f"of a study take one device each: set trainer.devices=1, and --workers for several runs at once"
        )
    return Cell(arm, seed, overrides, config, run_id(config), study.name)


def _refuse_twins(study: Study, cells: Sequence[Cell]) -> None:
    first: dict[str, Cell] = {}
    for cell in cells:
        twin = first.setdefault(cell.id, cell)
        if twin is not cell:
            raise ConfigurationError(
                f"study {study.name}: arms {twin.arm} and {cell.arm} are the same run (seeds {twin.seed} and "
                f"{cell.seed}): change one, or give seed_offsets: {{{cell.arm}: 1000}} to compare an arm with itself"
            )


def _refuse_ways_apart(cells: Sequence[Cell]) -> None:
    places = {cell.config["output_dir"]: cell.arm for cell in cells}
    if len(places) > 1:
        raise ConfigurationError(f"arms {' and '.join(places.values())} go to different output_dir: give one for all")
