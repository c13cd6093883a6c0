"""Problems of finite groups: the product of a sequence of elements (Liu et al. 2023, https://arxiv.org/abs/2210.10749;
Merrill et al. 2024, https://arxiv.org/abs/2404.08819), of which parity is that of Z_2; and addition modulo a prime."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.data_source import DataError, SplitName
from headtohead.data.generated.problem_forms import (
    FIRST_ID,
    AnswerSpan,
    Layout,
    ProblemForm,
    Problems,
    check_lengths,
    lengths_beyond,
)
from headtohead.data.generated.procedural_source import DrawnSource, ProceduralSource
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Length, Range, Seed, ShareLeavingSome

_MOST_POINTS = 5
"""S_6 would have 720 elements, and a table of half a million products."""
_FEWEST_POINTS = {"S": 2, "A": 3}
_LARGEST_CYCLE = 10_000


@dataclass(frozen=True)
class Group:
    """Element 0 is the neutral one; `multiply` takes arrays of element numbers."""

    names: Sequence[str]
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def __len__(self) -> int:
        return len(self.names)

    def running_products(self, elements: np.ndarray) -> np.ndarray:
        """Return, in each row, the product of all elements up to each position."""
        products = elements.copy()
        for column in range(1, elements.shape[1]):
            products[:, column] = self.multiply(products[:, column - 1], elements[:, column])
        return products


@lru_cache(maxsize=8)
def group_named(name: str) -> Group:
    """Return the group of this name: Z_n adds modulo n; S_n are all permutations of n points, A_n the even ones."""
    match = re.fullmatch(r"([ZSA])_(\d+)", name)
    if match:
        family, size = match[1], int(match[2])
        if family == "Z" and 2 <= size <= _LARGEST_CYCLE:
            return Group([str(number) for number in range(size)], lambda first, second: (first + second) % size)
        if family != "Z" and _FEWEST_POINTS[family] <= size <= _MOST_POINTS:
            return permutation_group(size, even_only=family == "A")
    raise DataError(
        f"data.group={name} is not a group known here: choose Z_n with n from 2 to {_LARGEST_CYCLE} (Z_2 is "
        f"parity), S_n "
        f"with n from 2 to {_MOST_POINTS}, or A_n with n from 3 to {_MOST_POINTS}."
    )


def permutation_group(num_points: int, *, even_only: bool) -> Group:
    """Return a permutation group; elements are named by the images of 1, 2, 3 ..., and in a product the left factor
    acts first."""
    elements = np.array([p for p in itertools.permutations(range(num_points)) if not (even_only and _is_odd(p))])
    powers = num_points ** np.arange(num_points)
    codes = elements @ powers
    order = np.argsort(codes)
    # The left factor sends i to elements[a, i], and the right one that to elements[b, elements[a, i]].
    composed = elements[:, elements].swapaxes(0, 1) @ powers
    table = order[np.searchsorted(codes[order], composed)]
    names = ["".join(str(point + 1) for point in element) for element in elements]
    return Group(names, lambda first, second: table[first, second])


def _is_odd(permutation: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 1


class WordProblem(DrawnSource):
    """Elements are drawn uniformly. With form=language every position asks for the product so far; with form=labelled
    that of the whole row is the label."""

    name: ClassVar[str] = "word_problem"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "labelled")
    layout: ClassVar[Layout] = "along"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        form: Literal["language", "labelled"] = "language",
        group: str = "Z_2",
        length: Length = 16,
        min_length: Length | None = None,
        test_length: Length | None = None,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        names = group_named(group).names
        super().__init__(
            sizes=splits.by_name(),
            spans=check_lengths(min_length, length, test_length, fewest=1),
            form=form,
            symbols=names,
            class_names=names,
            batch_size=batch_size,
            seed=seed,
        )
        self.group = group

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"group": self.group}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        group, past = group_named(self.group), lengths_beyond(lengths, span.longest)
        elements = generator.integers(len(group), size=past.shape)
        products = group.running_products(elements)
        products_of_rows = products[np.arange(size), lengths - 1]
        return Problems.of(
            np.where(past, PAD, FIRST_ID + elements), np.where(past, PAD, FIRST_ID + products), products_of_rows
        )


# Addition modulo a prime, on which models grok (Power et al. 2022, https://arxiv.org/abs/2201.02177): all sums, of
# which a share is for training.


Pairs = Literal["unordered", "ordered"]
_LARGEST_MODULUS = 2_000


class ModularAddition(ProceduralSource):
    """Every pair of numbers is in one split; the pairs outside training are halved. With pairs=unordered a + b and b +
    a are in the same split, so that no sum is known from its mirror image; with pairs=ordered, as in the paper, each is
    drawn separately."""

    name: ClassVar[str] = "modular_addition"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "labelled")
    separator: ClassVar[str] = "="

    def __init__(
        self,
        *,
        form: Literal["language", "labelled"] = "language",
        modulus: Annotated[int, Range(2, 2_000)] = 97,
        train_fraction: ShareLeavingSome = 0.5,
        pairs: Pairs = "unordered",
        batch_size: BatchSize = 512,
        seed: Seed = 0,
    ) -> None:
        if not 2 <= modulus <= _LARGEST_MODULUS:
            raise DataError(f"data.modulus={modulus} must be from 2 to {_LARGEST_MODULUS}.")
        if pairs not in get_args(Pairs):
            raise DataError(f"data.pairs={pairs} is unknown: choose {' or '.join(get_args(Pairs))}.")
        if not 0 < train_fraction < 1:
            raise DataError(f"data.train_fraction={train_fraction} must be above 0 and below 1.")
        self.modulus, self.train_fraction, self.pairs = modulus, train_fraction, pairs
        num_pairs = modulus**2 if pairs == "ordered" else modulus * (modulus + 1) // 2
        self.num_train = round(train_fraction * num_pairs)
        if not 1 <= self.num_train <= num_pairs - 2:
            raise DataError(
                f"data.train_fraction={train_fraction} of {num_pairs} pairs modulo {modulus} leaves a split empty: "
                f"change it, or raise data.modulus."
            )
        numbers = [str(number) for number in range(modulus)]
        super().__init__(form=form, symbols=[*numbers, "+"], class_names=numbers, batch_size=batch_size, seed=seed)

    def problem_parameters(self) -> Mapping[str, object]:
        return {"modulus": self.modulus, "train_fraction": self.train_fraction, "pairs": self.pairs}

    def problems(self, name: SplitName) -> Problems:
        first, second = self._split_pairs(name)
        sums = (first + second) % self.modulus
        prompts = np.stack([FIRST_ID + first, np.full_like(first, FIRST_ID + self.modulus), FIRST_ID + second], axis=1)
        return Problems.of(prompts, FIRST_ID + sums[:, None], sums)

    def _split_pairs(self, name: SplitName) -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of a split, in both orders where they are unordered."""
        first, second = np.divmod(np.arange(self.modulus**2), self.modulus)
        if self.pairs == "unordered":
            first, second = first[first <= second], second[first <= second]
        order = np.random.default_rng([self.seed, 3]).permutation(len(first))
        num_test = (len(first) - self.num_train) // 2
        borders = {"test": (0, num_test), "validation": (num_test, -self.num_train), "train": (-self.num_train, None)}
        chosen = order[slice(*borders[name])]
        first, second = first[chosen], second[chosen]
        if self.pairs == "ordered":
            return first, second
        apart = first != second
        return np.concatenate([first, second[apart]]), np.concatenate([second, first[apart]])
