"""Keys and values follow one another, among noise or in motifs of several tokens, and a key that comes again asks for
its value (Poli et al. 2024, https://arxiv.org/abs/2403.17844, appendix B)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from math import perm
from typing import Annotated, ClassVar

import numpy as np

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataError
from headtohead.data.generated.answered_rows import Answered, AnsweredSource, sample_without_replacement
from headtohead.data.generated.problem_forms import FIRST_ID
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Count, Length, Range, Seed, Symbols, Vocabulary

_MOST_MOTIFS = 50_000
LongestMotif = Annotated[int, Range(1, 4)]
NoiseShare = Annotated[float, Range(0.0, 0.9)]


@dataclass(frozen=True)
class Motifs:
    """All sequences of 1 to `longest` different tokens, padded with PAD: every length is equally likely, and every
    motif of a length."""

    tokens: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, first: int, num_tokens: int, longest: int) -> Motifs:
        """Return the motifs over `num_tokens` tokens from `first` on."""
        counts = [perm(num_tokens, size) for size in range(1, longest + 1)]
        tokens = np.full((sum(counts), longest), PAD)
        start = 0
        for size, count in enumerate(counts, start=1):
            tokens[start : start + count, :size] = list(permutations(range(first, first + num_tokens), size))
            start += count
        return cls(tokens, np.repeat([1 / (longest * count) for count in counts], counts))


class InContextRecall(AnsweredSource):
    """A row has `num_pairs` keys, each with its value, in an order drawn at random; units of noise may stand in
    between. Where a key comes for the second time or later, the tokens of its value are scored, each asked of the token
    before it. Noise and the first value of a key are not. Longer rows have as many keys, which come more often."""

    @abstractmethod
    def __init__(
        self,
        *,
        splits: SplitSizes,
        length: int,
        num_pairs: int,
        num_symbols: int,
        num_noise: int,
        noise_share: float,
        longest_motif: int,
        batch_size: int,
        seed: int,
    ) -> None:
        tokens = FIRST_ID + num_symbols + num_noise
        super().__init__(splits=splits, length=length, num_tokens=tokens, batch_size=batch_size, seed=seed)
        self.num_pairs, self.num_symbols, self.num_noise = num_pairs, num_symbols, num_noise
        self.noise_share, self.longest_motif = noise_share, longest_motif
        self.num_keys = num_symbols // 2
        if self.num_keys < longest_motif:
            raise DataError(
                f"data.num_symbols={num_symbols} is fewer than {2 * longest_motif}: half of them are keys, half values."
            )
        self.num_motifs = sum(perm(num_symbols - self.num_keys, size) for size in range(1, longest_motif + 1))
        if self.num_motifs > _MOST_MOTIFS:
            raise DataError(
                f"data.num_symbols={num_symbols} makes {self.num_motifs:,} motifs of up to {longest_motif} tokens, and "
                f"{_MOST_MOTIFS:,} are the most: give fewer symbols, or shorter motifs."
            )
        num_keys = sum(perm(self.num_keys, size) for size in range(1, longest_motif + 1))
        if not 1 <= num_pairs <= num_keys:
            raise DataError(
                f"data.num_pairs={num_pairs} must be from 1 to {num_keys}, the different keys of data.num_symbols="
                f"{num_symbols}."
            )
        if length < 8 * longest_motif:
            raise DataError(
                f"data.length={length} must be at least {8 * longest_motif}, so that a key and its value come again."
            )

    def row_parameters(self) -> Mapping[str, object]:
        names = ("num_pairs", "num_symbols", "num_noise", "noise_share", "longest_motif")
        return {name: getattr(self, name) for name in names}

    def name_of(self, token: int) -> str:
        index = token - FIRST_ID
        if index < self.num_keys:
            return f"k{index}"
        return f"v{index - self.num_keys}" if index < self.num_symbols else f"n{index - self.num_symbols}"

    @property
    def numbers_in_row(self) -> int:
        return max(self.num_tokens, self.num_motifs, 2 * self.longest_motif * self.length)

    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        """Draw rows until so many have an answer: few have none, unless they are short and keys are many."""
        drawn = [(np.zeros((0, self.length), dtype=np.int64),) * 2]
        missing = num_rows
        while missing > 0:
            tokens, targets = self._drawn(missing, generator)
            answered = (targets != IGNORED).any(1)
            drawn.append((tokens[answered], targets[answered]))
            missing -= int(answered.sum())
        parts = tuple(zip(*drawn, strict=True))
        return np.concatenate(parts[0]), np.concatenate(parts[1])

    def _drawn(self, num_rows: int, generator: np.random.Generator) -> Answered:
        """Draw units of a key and a value, or of noise, and write one after another, a token more than a row has."""
        num_units = self.length // 2 + 1
        pairs = self._pairs(num_rows, generator)
        chosen = generator.integers(self.num_pairs, size=(num_rows, num_units))
        is_noise = generator.random((num_rows, num_units)) < self.noise_share
        units = np.take_along_axis(pairs, chosen[:, :, None], axis=1)
        if self.num_noise:
            noise = generator.integers(self.num_tokens - self.num_noise, self.num_tokens, size=units.shape)
            units = np.where(is_noise[:, :, None] & (units != PAD), noise, units)
        is_value = np.arange(units.shape[2]) >= self.longest_motif
        is_scored = _come_again(chosen, is_noise, self.num_pairs)[:, :, None] & is_value
        flat, scored = units.reshape(num_rows, -1), is_scored.reshape(num_rows, -1)
        written = np.argsort(flat == PAD, axis=1, kind="stable")[:, : self.length + 1]
        tokens = np.take_along_axis(flat, written, axis=1)
        targets = np.where(np.take_along_axis(scored, written, axis=1), tokens, IGNORED)
        return tokens[:, :-1], targets[:, 1:]

    def _pairs(self, num_rows: int, generator: np.random.Generator) -> np.ndarray:
        """Return the pairs of each row: the tokens of a key, then those of its value, both padded with PAD. Keys are
        different, values need not be."""
        keys = Motifs.of(FIRST_ID, self.num_keys, self.longest_motif)
        values = Motifs.of(FIRST_ID + self.num_keys, self.num_symbols - self.num_keys, self.longest_motif)
        key = sample_without_replacement(num_rows, self.num_pairs, keys.shares, generator)
        value = generator.choice(len(values.shares), size=key.shape, p=values.shares)
        return np.concatenate([keys.tokens[key], values.tokens[value]], axis=2)


def _come_again(chosen: np.ndarray, is_noise: np.ndarray, num_pairs: int) -> np.ndarray:
    """Return a mask of the units whose pair was in the row before."""
    rows, seen = np.arange(len(chosen)), np.zeros((len(chosen), num_pairs), dtype=bool)
    again = np.zeros_like(is_noise)
    for unit in range(chosen.shape[1]):
        pair, is_pair = chosen[:, unit], ~is_noise[:, unit]
        again[:, unit] = is_pair & seen[rows, pair]
        seen[rows, pair] |= is_pair
    return again


class NoisyRecall(InContextRecall):
    """Keys and values of one token each, among units of noise that have a vocabulary of their own."""

    name: ClassVar[str] = "noisy_recall"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Length = 128,
        num_pairs: Count = 8,
        num_symbols: Symbols = 16,
        num_noise: Vocabulary = 16,
        noise_share: NoiseShare = 0.2,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        if not 0.0 <= noise_share <= 0.9:
            raise DataError(f"data.noise_share={noise_share} must be at least 0 and at most 0.9.")
        super().__init__(
            splits=splits,
            length=length,
            num_pairs=num_pairs,
            num_symbols=num_symbols,
            num_noise=num_noise,
            noise_share=noise_share,
            longest_motif=1,
            batch_size=batch_size,
            seed=seed,
        )


class FuzzyRecall(InContextRecall):
    """Keys and values of 1 to `longest_motif` tokens each: which tokens belong together is to be found out."""

    name: ClassVar[str] = "fuzzy_recall"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Length = 128,
        num_pairs: Count = 8,
        num_symbols: Symbols = 16,
        longest_motif: LongestMotif = 3,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            splits=splits,
            length=length,
            num_pairs=num_pairs,
            num_symbols=num_symbols,
            num_noise=0,
            noise_share=0.0,
            longest_motif=longest_motif,
            batch_size=batch_size,
            seed=seed,
        )
