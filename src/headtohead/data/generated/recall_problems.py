"""Multi-query associative recall (Arora et al. 2023, https://arxiv.org/abs/2312.04927): key-value pairs, then some of
the keys again at distances that follow a power law, each as a query for its value.

Induction heads (Olsson et al. 2022, https://arxiv.org/abs/2209.11895): whatever followed a symbol before follows it
again.

Memorisation (Poli et al. 2024, https://arxiv.org/abs/2403.17844, appendix B): facts that no row tells, and that a
model can only have in its weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.batches.batch import IGNORED
from headtohead.data.data_source import DataError
from headtohead.data.generated.answered_rows import Answered, AnsweredSource, sample_without_replacement
from headtohead.data.generated.problem_forms import (
    FIRST_ID,
    AnswerSpan,
    Layout,
    ProblemForm,
    Problems,
    check_lengths,
    lengths_beyond,
    padded_symbols,
)
from headtohead.data.generated.procedural_source import DrawnSource
from headtohead.data.generated.string_rewriting import check_symbols
from headtohead.data.splits.sample_splits import SplitSizes
from headtohead.data.tokenizers import PAD
from headtohead.ranges import BatchSize, Length, Positive, Range, Rows, Seed, Symbols, Vocabulary


class AssociativeRecall(AnsweredSource):
    """A row is `num_pairs` keys with their values, then queried keys among random tokens. Keys and values are two
    halves of the vocabulary. The target of a queried key is its value; nothing else is scored. Longer rows have as
    many pairs, queried further away."""

    name: ClassVar[str] = "associative_recall"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Length = 64,
        num_pairs: Rows = 8,
        vocab_size: Vocabulary = 64,
        power: Positive = 0.01,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        super().__init__(splits=splits, length=length, num_tokens=vocab_size, batch_size=batch_size, seed=seed)
        self.num_pairs, self.power = num_pairs, power
        self.num_keys = (vocab_size - FIRST_ID) // 2
        if num_pairs < 1 or 4 * num_pairs > length:
            raise DataError(
                f"data.num_pairs={num_pairs} must be from 1 to {length // 4} at data.length={length}: a row has room "
                f"for twice as many tokens as all pairs take."
            )
        if num_pairs > self.num_keys:
            raise DataError(
                f"data.vocab_size={vocab_size} has {max(self.num_keys, 0)} keys, fewer than data.num_pairs={num_pairs}"
                f": give at least {FIRST_ID + 2 * num_pairs}, for special tokens, keys and as many values."
            )
        if power <= 0:
            raise DataError(f"data.power={power} must be above 0: near 0 keys are queried soon, at 1 anywhere.")

    def row_parameters(self) -> Mapping[str, object]:
        return {"num_pairs": self.num_pairs, "vocab_size": self.num_tokens, "power": self.power}

    def name_of(self, token: int) -> str:
        index = token - FIRST_ID
        return f"k{index}" if index < self.num_keys else f"v{index - self.num_keys}"

    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        size = self.num_pairs
        keys = FIRST_ID + sample_without_replacement(num_rows, size, np.ones(self.num_keys), generator)
        first_value = FIRST_ID + self.num_keys
        values = first_value + sample_without_replacement(
            num_rows, size, np.ones(self.num_tokens - first_value), generator
        )
        tokens = generator.integers(FIRST_ID, self.num_tokens, size=(num_rows, self.length))
        tokens[:, 0 : 2 * size : 2], tokens[:, 1 : 2 * size : 2] = keys, values
        room = (self.length - 2 * size) // 2
        distances = sample_without_replacement(num_rows, size, np.arange(1, room + 1) ** (self.power - 1), generator)
        query_positions = 2 * size + 2 * distances
        np.put_along_axis(tokens, query_positions, keys, axis=1)
        targets = np.full((num_rows, self.length), IGNORED)
        np.put_along_axis(targets, query_positions, values, axis=1)
        return tokens, targets


Pattern = Literal["trigger", "repeat"]


class Induction(DrawnSource):
    """Induction problems. With pattern=trigger (Gu and Dao 2023, https://arxiv.org/abs/2312.00752) a special symbol
    stands once among random ones and again at the end: what followed it is the one answer. With pattern=repeat a random
    half comes twice, and each symbol of the second time has its successor for an answer."""

    name: ClassVar[str] = "induction"
    kind = "language"
    forms: ClassVar[tuple[ProblemForm, ...]] = ("language",)
    layout: ClassVar[Layout] = "along"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        pattern: Pattern = "trigger",
        length: Annotated[int, Range(3, 16_777_216)] = 64,
        min_length: Annotated[int, Range(3, 16_777_216)] | None = None,
        test_length: Annotated[int, Range(3, 16_777_216)] | None = None,
        num_symbols: Symbols = 16,
        batch_size: BatchSize = 64,
        seed: Seed = 0,
    ) -> None:
        check_symbols(num_symbols)
        if pattern not in get_args(Pattern):
            raise DataError(f"data.pattern={pattern} is unknown: choose one of {', '.join(get_args(Pattern))}.")
        super().__init__(
            sizes=splits.by_name(),
            spans=check_lengths(min_length, length, test_length, fewest=3),
            form="language",
            symbols=[*(str(number) for number in range(num_symbols)), "trigger"],
            batch_size=batch_size,
            seed=seed,
        )
        self.pattern, self.num_symbols = pattern, num_symbols

    def drawn_parameters(self) -> Mapping[str, object]:
        return {"pattern": self.pattern, "num_symbols": self.num_symbols}

    def draw(self, size: int, span: AnswerSpan, generator: np.random.Generator) -> Problems:
        lengths = span.draw(size, generator)
        prompts = padded_symbols(lengths, span.longest, self.num_symbols, generator)
        return (
            self._triggered(prompts, lengths, generator) if self.pattern == "trigger" else _repeated(prompts, lengths)
        )

    def _triggered(self, prompts: np.ndarray, lengths: np.ndarray, generator: np.random.Generator) -> Problems:
        rows, trigger = np.arange(len(prompts)), FIRST_ID + self.num_symbols
        first = generator.integers(0, lengths - 2)
        answers = np.full_like(prompts, PAD)
        answers[rows, lengths - 1] = prompts[rows, first + 1]
        prompts[rows, first] = trigger
        prompts[rows, lengths - 1] = trigger
        return Problems.of(prompts, answers)


def _repeated(prompts: np.ndarray, lengths: np.ndarray) -> Problems:
    """Return repeated prompts, whose first half is so long that it contains the last symbol's successor."""
    period = lengths // 2 + 1
    columns = np.arange(prompts.shape[1])
    again = columns - period[:, None]
    is_target = (again >= 0) & ~lengths_beyond(lengths, len(columns))
    earlier = np.maximum(again, 0)
    written = np.where(is_target, np.take_along_axis(prompts, earlier, axis=1), prompts)
    return Problems.of(written, np.where(is_target, np.take_along_axis(prompts, earlier + 1, axis=1), PAD))


class Memorization(AnsweredSource):
    """A row is keys drawn at random, each followed by a blank whose target is the key's value. Which value a key has is
    drawn once from the seed: all rows and splits share these facts, and differ in the order of their keys."""

    name: ClassVar[str] = "memorization"

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(),
        length: Annotated[int, Range(2, 16_777_216)] = 32,
        num_facts: Symbols = 128,
        batch_size: BatchSize = 32,
        seed: Seed = 0,
    ) -> None:
        tokens = FIRST_ID + 1 + 2 * num_facts
        super().__init__(splits=splits, length=length, num_tokens=tokens, batch_size=batch_size, seed=seed)
        if length < 2 or length % 2:
            raise DataError(f"data.length={length} must be at least 2 and even: a blank follows each key.")
        if num_facts < 2:
            raise DataError(f"data.num_facts={num_facts} must be at least 2, so that there is something to know.")
        self.num_facts = num_facts

    def row_parameters(self) -> Mapping[str, object]:
        return {"num_facts": self.num_facts}

    def name_of(self, token: int) -> str:
        index = token - FIRST_ID
        if index == 2 * self.num_facts:
            return "."
        return f"k{index}" if index < self.num_facts else f"v{index - self.num_facts}"

    def facts(self) -> np.ndarray:
        """Return the token of the value of each key; no two keys share a value."""
        generator = np.random.default_rng([self.seed, 3])  # 0 to 2 draw the rows of the splits
        return FIRST_ID + self.num_facts + generator.permutation(self.num_facts)

    def draw(self, num_rows: int, generator: np.random.Generator) -> Answered:
        keys = generator.integers(self.num_facts, size=(num_rows, self.length // 2))
        tokens = np.full((num_rows, self.length), FIRST_ID + 2 * self.num_facts)
        targets = np.full((num_rows, self.length), IGNORED)
        tokens[:, 0::2], targets[:, 1::2] = FIRST_ID + keys, self.facts()[keys]
        return tokens, targets
