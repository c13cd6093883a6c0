"""Pairs of sentences and how much of what they say is the same, from 0 to 5, as people grade it in STS-B (Cer et al.
2017, https://arxiv.org/abs/1708.00055)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from headtohead.data.contracts import SplitName
from headtohead.data.dealing import check_sizes, deal
from headtohead.data.generated.english import words
from headtohead.data.scored import ScoredForm, ScoredPair
from headtohead.data.texts import TextSource
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Rows, Seed, Vocabulary

_AT_ONCE = 4096
"""Pairs written together."""
_REWORDED = 0.3
"""The share of parts that say the same in another word: without many in the same one, learning finds no beginning."""


def _synonyms(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(pair.split("/")) for pair in words(text))


PARTS = {
    "who": _synonyms("boy/lad woman/lady king/ruler doctor/physician sailor/seaman child/kid"),
    "how": _synonyms("quickly/rapidly quietly/silently gladly/happily often/frequently rarely/seldom"),
    "did": _synonyms("bought/purchased found/discovered hid/concealed fixed/repaired threw/hurled"),
    "what": _synonyms("stone/rock gift/present picture/image coat/jacket ship/vessel lamp/lantern"),
    "where": _synonyms("wood/forest shop/store road/street market/bazaar hill/slope"),
}
"""What a sentence is made of; each part says one of several things, in one of two words."""
PATTERNS = (
    "the {who} {how} {did} the {what} near the {where} .",
    "near the {where} the {who} {did} the {what} {how} .",
)


class SimilarityGrammar(TextSource):
    """Pairs that all differ, all grades as common: the grade is the number of parts that say the same, though rarely
    all in the same words or at the same place."""

    name: ClassVar[str] = "similarity_grammar"
    draws_its_rows = True
    kind = "scored_text"

    def __init__(
        self,
        *,
        num_train: Rows = 10_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        batch_size: BatchSize = 64,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        self.sizes, self.seed = check_sizes(num_train, num_validation, num_test), seed

    @property
    def form(self) -> ScoredForm:
        return ScoredForm()

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"sizes": self.sizes, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[ScoredPair]]:
        return deal(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[ScoredPair]:
        """Without end; some may be alike."""
        generator = np.random.default_rng(self.seed)
        numbers = np.array([len(meanings) for meanings in PARTS.values()])
        while True:
            first = generator.integers(numbers, size=(_AT_ONCE, len(numbers)))
            others = (first + generator.integers(1, numbers, size=first.shape)) % numbers
            grades = generator.integers(0, len(numbers), size=_AT_ONCE, endpoint=True)
            is_same = np.argsort(generator.random(first.shape), axis=1) < grades[:, None]
            second = np.where(is_same, first, others)
            wordings = generator.integers(2, size=first.shape)
            again = np.where(generator.random(first.shape) < _REWORDED, 1 - wordings, wordings)
            patterns = generator.integers(len(PATTERNS), size=(2, _AT_ONCE))
            for row in range(_AT_ONCE):
                yield (
                    _sentence(first[row], wordings[row], int(patterns[0, row])),
                    _sentence(second[row], again[row], int(patterns[1, row])),
                    float(grades[row]),
                )


def _sentence(meanings: np.ndarray, wordings: np.ndarray, pattern: int) -> str:
    chosen = zip(PARTS.items(), meanings.tolist(), wordings.tolist(), strict=True)
    return PATTERNS[pattern].format(**{part: ways[meaning][wording] for (part, ways), meaning, wording in chosen})
