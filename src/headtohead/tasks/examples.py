"""Rows of the train split that are shown in prompts, and those that stand in for one in its own prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headtohead.data.contracts import DataSpec
from headtohead.errors import UsageError
from headtohead.tasks.class_labels import class_name
from headtohead.tasks.prompting import Texts, texts_of

_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Example:
    """A row of the train split with its class."""

    row: int
    texts: Texts
    label: int


@dataclass(frozen=True)
class Examples:
    """In the order in which prompts show them."""

    shown: tuple[Example, ...] = ()
    reserves: tuple[Example, ...] = ()
    """One more of each class, where the rows have one."""

    def without(self, row: int) -> tuple[Example, ...]:
        """For the prompt of this row of the train split: another of its class in its place, or none."""
        return tuple(
            other
            for example in self.shown
            for other in ((example,) if example.row != row else self._in_place_of(example))
        )

    def _in_place_of(self, example: Example) -> tuple[Example, ...]:
        return tuple(reserve for reserve in self.reserves if reserve.label == example.label)


def drawn_examples(spec: DataSpec, count: int, seed: int) -> Examples:
    """Of the rows that a run learns from, as many of each class, or one more; which, and in which order, the seed
    says."""
    if count == 0:
        return Examples()
    generator = np.random.default_rng(seed)
    classes = generator.permutation(spec.num_classes)
    wanted = {int(number): 0 for number in classes}
    for place in range(count):
        wanted[int(classes[place % len(classes)])] += 1
    found: list[Example] = []
    reserves: dict[int, Example] = {}
    reserved = {number for number, left in wanted.items() if left}
    for example in _shuffled(spec, generator):
        if wanted[example.label]:
            wanted[example.label] -= 1
            found.append(example)
        elif example.label in reserved:
            reserves.setdefault(example.label, example)
        if len(found) == count and len(reserves) == len(reserved):
            break
    if len(found) < count:
        short = ", ".join(f"{left} more of {class_name(spec, number)}" for number, left in wanted.items() if left)
        raise UsageError(
            f"task.shots={count} asks for {short} than the {_num_rows(spec)} rows of the train split that are learned "
            "from have: show fewer examples."
        )
    return Examples(tuple(found[place] for place in generator.permutation(count)), tuple(reserves.values()))


def _num_rows(spec: DataSpec) -> int:
    assert spec.open_train is not None, "data opens its train split"
    return len(spec.open_train())


def _shuffled(spec: DataSpec, generator: np.random.Generator) -> Iterator[Example]:
    assert spec.open_train is not None, "data opens its train split"
    split = spec.open_train()
    order = generator.permutation(len(split))
    for start in range(0, len(order), _ROWS_AT_ONCE):
        batch = split.batch(order[start : start + _ROWS_AT_ONCE])
        assert batch.targets is not None, "labelled texts have labels"
        yield from map(Example, batch.rows.tolist(), texts_of(batch, spec), batch.targets.tolist())
