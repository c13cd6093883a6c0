"""Text written by a seeded probabilistic grammar: a language-model corpus that needs no download and has no end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from headtohead.data.contracts import DataError, SplitName
from headtohead.data.dealing import check_sizes, deal
from headtohead.data.generated.english import english_rules
from headtohead.data.generated.grammar import Grammar
from headtohead.data.language import LanguageSource, Packing
from headtohead.data.storage import Ragged
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Count, Length, Rows, Seed, Vocabulary

_AT_ONCE = 4096
"""Documents written together."""
_UNGLUED = (".", ",")
"""Words without a space before them."""


class GrammarCorpus(LanguageSource):
    """Documents of a few sentences each, no two alike. How common each word is follows from the seed."""

    name: ClassVar[str] = "grammar_lm"
    draws_its_rows = True

    def __init__(
        self,
        *,
        num_train: Rows = 20_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        max_sentences: Count = 6,
        context_length: Length = 128,
        batch_size: BatchSize = 32,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        packing: Packing = "apart",
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            context_length=context_length,
            batch_size=batch_size,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            packing=packing,
        )
        self.sizes = check_sizes(num_train, num_validation, num_test)
        if max_sentences < 1:
            raise DataError(f"data.max_sentences={max_sentences} must be at least 1.")
        self.max_sentences, self.seed = max_sentences, seed

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"sizes": self.sizes, "max_sentences": self.max_sentences, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[str]]:
        return deal(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[str]:
        """Without end; some may be alike."""
        grammar = Grammar.of(english_rules(self.seed))
        spaced = [word if word in _UNGLUED else f" {word}" for word in grammar.words]
        pieces = np.array(spaced, dtype=object)
        generator = np.random.default_rng([self.seed, 1])
        while True:
            num_sentences = generator.integers(1, self.max_sentences, size=_AT_ONCE, endpoint=True)
            sentences = grammar.sentences(int(num_sentences.sum()), generator)
            ends = np.concatenate([[0], np.cumsum(num_sentences)])
            documents = Ragged(pieces[sentences.values], sentences.offsets[ends])
            yield from ("".join(documents[row]).lstrip() for row in range(_AT_ONCE))
