"""Addition modulo a prime, on which models grok (Power et al. 2022, https://arxiv.org/abs/2201.02177): all sums, of
which a share is for training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import DataError, SplitName
from headtohead.data.generated.problems import FIRST_ID, ProblemForm, Problems
from headtohead.data.generated.procedural import ProceduralSource
from headtohead.ranges import BatchSize, OpenShare, Seed, Vocabulary

Pairs = Literal["unordered", "ordered"]
_LARGEST_MODULUS = 2_000


class ModularAddition(ProceduralSource):
    """Every pair of numbers is in one split; what is not for training is halved. With pairs=unordered a + b and b + a
    are in the same split, so that no sum is known from its mirror image; with pairs=ordered, as in the paper, each
    falls where it falls."""

    name: ClassVar[str] = "modular_addition"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language", "labelled")
    separator: ClassVar[str] = "="

    def __init__(
        self,
        *,
        form: Literal["language", "labelled"] = "language",
        modulus: Vocabulary = 97,
        train_fraction: OpenShare = 0.5,
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

    def problem_parameters(self) -> Mapping[str, Any]:
        return {"modulus": self.modulus, "train_fraction": self.train_fraction, "pairs": self.pairs}

    def problems(self, name: SplitName) -> Problems:
        first, second = self._dealt(name)
        sums = (first + second) % self.modulus
        prompts = np.stack([FIRST_ID + first, np.full_like(first, FIRST_ID + self.modulus), FIRST_ID + second], axis=1)
        return Problems.of(prompts, FIRST_ID + sums[:, None], sums)

    def _dealt(self, name: SplitName) -> tuple[np.ndarray, np.ndarray]:
        """The pairs of a split, both ways round where they are unordered."""
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
