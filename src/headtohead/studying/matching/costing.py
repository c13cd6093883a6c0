"""What a whole run costs, before any of it is run: the ledger of its model, times what its batches hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import comb
from statistics import median
from typing import Any, Literal, get_args

from headtohead.architectures.contracts import InputSize
from headtohead.architectures.costs import Totals, ledger
from headtohead.architectures.row_flops import Lengths, RowFlops
from headtohead.building.build import build_data, build_task, fitted, make_model
from headtohead.building.view import View
from headtohead.data.batch import IGNORED
from headtohead.data.contracts import Split
from headtohead.data.order import evaluation_batches, order_of
from headtohead.data.sampling import learned_rows
from headtohead.training.seeds import seeds_of

Figure = Literal[
    "parameters", "non_embedding_parameters", "active_parameters", "training_flops", "tokens", "state_elements",
    "seconds",
]  # fmt: skip
FIGURES: tuple[Figure, ...] = get_args(Figure)
BATCHES_READ = 32
"""From the start of the run; where all rows are of one length, one batch is as good as any number."""


@dataclass(frozen=True)
class Reading:
    """What the first steps of a run read."""

    rows: Mapping[Lengths, int]
    """How many there are of each lengths."""
    scored: int
    """Targets that count, of all rows together."""
    num_steps: int
    tokens_per_step: float
    """Real ones, both sides together; of images, their number."""


@dataclass(frozen=True)
class Timing:
    """How long a step of one arm takes, as calibrated."""

    turns: tuple[float, ...]
    """Seconds of a step in each turn."""
    device: str
    kernels: Mapping[str, str]
    """What computes each mixer that has a fast kernel: torch, or that kernel's package."""
    threads: int | None = None
    """Of the processor; None on another device."""

    @property
    def step_seconds(self) -> float:
        return median(self.turns)

    def uncertainty(self, other: Timing) -> float:
        """Half the 95 % interval of the median ratio between turns that followed each other, as a share of it: order
        statistics, which assume no distribution; of fewer than six turns, all that was seen."""
        ratios = sorted(own / others for own, others in zip(self.turns, other.turns, strict=True))
        cut, num_turns = 0, len(ratios)
        while 2 * sum(comb(num_turns, below) for below in range(cut + 2)) <= 0.05 * 2**num_turns:
            cut += 1
        return (ratios[num_turns - 1 - cut] - ratios[cut]) / 2 / median(ratios)


class CostedModel:
    """A model without memory, and what it is given to read."""

    def __init__(self, config: Mapping[str, Any], size: InputSize, reading: Reading) -> None:
        self._model, self.size, self.reading = make_model(config, "meta"), size, reading

    @cached_property
    def totals(self) -> Totals:
        return ledger(self._model, self.size).totals

    @cached_property
    def flops_per_step(self) -> float:
        """As training counts them: of each row at its own length, a vocabulary's where a target counts."""
        reading = self.reading
        return RowFlops(self._model).of(reading.rows, scored=reading.scored)[0] / reading.num_steps


@dataclass(frozen=True)
class CostedRun:
    """A configuration with nothing left to the data, and what it costs."""

    config: Mapping[str, Any]
    model: CostedModel
    timing: Timing | None = None

    @property
    def steps(self) -> int:
        """Readings, of which there is one where all rows are learned from at once."""
        return int(self.config["trainer"]["max_steps"]) if View(self.config).takes_steps else 1

    def changed(self, config: Mapping[str, Any]) -> CostedRun:
        """The same data read by another shape, or for longer."""
        same = config["model"] == self.config["model"]
        model = self.model if same else CostedModel(config, self.model.size, self.model.reading)
        return CostedRun(config, model, self.timing)

    def figure(self, name: Figure) -> float:
        if name == "training_flops":
            return self.model.flops_per_step * self.steps
        if name == "tokens":
            return self.model.reading.tokens_per_step * self.steps
        if name == "seconds":
            assert self.timing is not None, "a run is timed before it is asked for its time"
            return self.timing.step_seconds * self.steps
        return float(getattr(self.model.totals, name))

    def figures(self) -> dict[str, float]:
        """All that are known: nobody knows beforehand how often what is fitted at once goes over its rows."""
        unknown = {"seconds"} if self.timing is None else set()
        unknown |= set() if View(self.config).takes_steps else {"training_flops"}
        return {name: self.figure(name) for name in FIGURES if name not in unknown}


def costed(config: Mapping[str, Any], timing: Timing | None = None) -> CostedRun:
    """Prepares the data where needed, and reads the first batches of the run."""
    filled, size = fitted(config)
    return CostedRun(filled, CostedModel(filled, size, reading_of(config)), timing)


def reading_of(config: Mapping[str, Any]) -> Reading:
    """The first batches, in the order in which training would read them; all rows, where they are learned from at
    once."""
    data = build_data(config)
    task = build_task(config, data.spec())
    seed = seeds_of(config["seed"]).data_order
    split = learned_rows(data.split("train"), config["trainer"].get("train_rows"), seed)
    if not View(config).takes_steps:
        return Reading({}, 0, 1, _tokens_of(split, data.batch_size))
    order = order_of(split, batch_size=data.batch_size, seed=seed)
    num_steps = max(1, min(BATCHES_READ, config["trainer"]["max_steps"]))
    rows: Counter[Lengths] = Counter()
    scored = tokens = 0
    for step in range(num_steps):
        epoch, numbers = order.step(step)
        batch = task.view_to_learn(split.batch(numbers), seed=seed, epoch=epoch)
        rows.update(batch.lengths)
        scored += 0 if batch.targets is None else int((batch.targets != IGNORED).sum())
        tokens += batch.num_tokens if batch.images is None else batch.num_samples
    return Reading(rows, scored, num_steps, tokens / num_steps)


def _tokens_of(split: Split, batch_size: int) -> int:
    return sum(split.batch(rows).num_tokens for rows in evaluation_batches(len(split), batch_size=batch_size))
