"""Translation between numerals and English words, "1205" and "one thousand two hundred and five": exact answers for
sequence-to-sequence models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.dealing import check_sizes
from headtohead.data.numerals import LARGEST, in_words
from headtohead.data.pairs import Pair, PairSource
from headtohead.data.tokenizers import TokenizerName

Direction = Literal["to_words", "to_digits", "both"]


class NumberWords(PairSource):
    """Every number of digits is equally likely, as far as there are enough numbers; no number is in two splits, nor
    twice in one. With direction=both, half of the pairs go each way."""

    name: ClassVar[str] = "number_words"

    def __init__(
        self,
        *,
        num_train: int = 20_000,
        num_validation: int = 500,
        num_test: int = 500,
        max_number: int = 999_999,
        direction: Direction = "to_words",
        batch_size: int = 64,
        tokenizer: TokenizerName = "char",
        vocab_size: int | None = None,
        bucket_by_length: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        if direction not in get_args(Direction):
            raise DataError(f"data.direction={direction} is unknown: choose one of {', '.join(get_args(Direction))}.")
        if not 0 <= max_number <= LARGEST:
            raise DataError(f"data.max_number={max_number} must be from 0 to {LARGEST}.")
        self.sizes = check_sizes(num_train, num_validation, num_test)
        self.max_number, self.direction, self.seed = max_number, direction, seed
        if sum(self.sizes.values()) > max_number + 1:
            raise DataError(
                f"data.max_number={max_number} gives {max_number + 1} numbers, and the splits ask for "
                f"{sum(self.sizes.values())}: raise it, or lower data.num_train={num_train}."
            )

    def pair_parameters(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in ("sizes", "max_number", "direction", "seed")}

    def pairs(self) -> Mapping[SplitName, list[Pair]]:
        generator = np.random.default_rng(self.seed)
        numbers = numbers_by_digits(sum(self.sizes.values()), self.max_number, generator)
        to_digits = generator.random(len(numbers)) < 0.5
        if self.direction != "both":
            to_digits[:] = self.direction == "to_digits"
        digits, words = numbers.astype(str).astype(object), in_words(numbers)
        sources, targets = np.where(to_digits, words, digits), np.where(to_digits, digits, words)
        dealt = iter(zip(sources.tolist(), targets.tolist(), strict=True))
        pairs = {name: [next(dealt) for _ in range(self.sizes[name])] for name in reversed(SPLIT_NAMES)}
        return {name: pairs[name] for name in SPLIT_NAMES}


def numbers_by_digits(size: int, max_number: int, generator: np.random.Generator) -> np.ndarray:
    """Different numbers from 0 to `max_number`, shuffled: as many of each number of digits, or all that there are."""
    starts = np.array([0, *(10**place for place in range(1, len(str(max_number))))])
    available = np.diff(np.append(starts, max_number + 1))
    taken = _shared_out(size, available)
    chosen = [
        start + generator.choice(count, number, replace=False)
        for start, count, number in zip(starts, available, taken, strict=True)
    ]
    return generator.permutation(np.concatenate(chosen))


def _shared_out(size: int, available: np.ndarray) -> np.ndarray:
    """Equal shares of `size`, none above what is available; what the small ones lack goes to the others."""
    taken = np.zeros_like(available)
    for place, count in enumerate(np.sort(available)):
        share = (size - int(taken.sum())) // (len(available) - place)
        taken[place] = min(share, count)
    order = np.argsort(available, kind="stable")
    shares = np.empty_like(taken)
    shares[order] = taken
    return shares
