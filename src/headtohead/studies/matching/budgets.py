"""Define what is held equal between the arms of a study: conf/budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headtohead.config.instantiate import make
from headtohead.ranges import Count, Share

if TYPE_CHECKING:
    from headtohead.estimates.run_cost import CostedRun, Figure

SizeAxisName = Literal["width", "head_size", "depth", "feedforward", "steps"]
"""The moves of a solver: the width with heads of the size they have, the width with as many heads as there are, the
number of layers, the inner width of the feed-forward layers, the length of the run."""
SIZE_AXES: tuple[SizeAxisName, ...] = ("width", "head_size", "depth", "feedforward", "steps")
SHAPE: tuple[SizeAxisName, ...] = ("width", "head_size", "feedforward")
_PARAMETERS: dict[str, Figure] = {
    "total": "parameters",
    "non_embedding": "non_embedding_parameters",
    "active": "active_parameters",
}


@dataclass(frozen=True)
class Budget(ABC):
    """One axis on which every arm must be as large as the baseline."""

    tolerance: Share = 0.02
    """Share of the baseline's figure."""

    changed_by: ClassVar[tuple[SizeAxisName, ...]]
    """The moves that change this figure at all."""
    usual: ClassVar[tuple[SizeAxisName, ...]]
    """The moves that are allowed unless an arm says otherwise, the first first."""

    @property
    @abstractmethod
    def figure(self) -> Figure:
        """The name of what is held equal."""

    def of(self, run: CostedRun) -> float:
        """The run's own."""
        return run.figure(self.figure)


@dataclass(frozen=True)
class EqualParameters(Budget):
    """This budget holds the parameters of the model equal, including frozen ones."""

    changed_by = ("width", "head_size", "depth", "feedforward")
    usual = SHAPE
    counted: Literal["total", "non_embedding", "active"] = "total"

    @property
    def figure(self) -> Figure:
        return _PARAMETERS[self.counted]


@dataclass(frozen=True)
class EqualFlops(Budget):
    """Forward and backward, all steps of the run."""

    changed_by = SIZE_AXES
    usual = ("steps",)

    @property
    def figure(self) -> Figure:
        return "training_flops"


@dataclass(frozen=True)
class EqualTokens(Budget):
    """Real tokens, without padding, both sides together."""

    changed_by = ("steps",)
    usual = ("steps",)

    @property
    def figure(self) -> Figure:
        return "tokens"


@dataclass(frozen=True)
class EqualState(Budget):
    """The cache of attention grows with every token, that of a recurrence does not: after one sample."""

    changed_by = ("width", "head_size", "depth")
    usual = ("width", "head_size")

    @property
    def figure(self) -> Figure:
        return "state_elements"


@dataclass(frozen=True)
class MeasuredBudget(Budget, ABC):
    """Shapes are measured as they are written; only the number of steps is free."""

    changed_by = ("steps",)
    usual = ("steps",)
    rounds: Count = 7
    turn_steps: Count = 5


@dataclass(frozen=True)
class EqualTime(MeasuredBudget):
    """This budget holds the seconds of training equal."""

    @property
    def figure(self) -> Figure:
        return "seconds"


@dataclass(frozen=True)
class EqualEnergy(MeasuredBudget):
    """This budget holds the joules of training equal; a turn lasts a second at least, since counters advance in
    jumps."""

    @property
    def figure(self) -> Figure:
        return "joules"


def budget_of(config: Mapping[str, Any]) -> Budget:
    """Return that of a configuration with the root `match`."""
    budget: Budget = make(config["budget"])
    return budget


def label(name: str) -> str:
    """Return a figure or a move in words."""
    return name.replace("_", " ").replace("flops", "FLOPs").replace("non embedding", "non-embedding")
