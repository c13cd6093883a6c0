"""Pairs of sentences whose relation their words by themselves tell little of: whether the first says what the second
says, or whether the second goes on with the story of the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from headtohead.data.contracts import DataError, SplitName
from headtohead.data.dealing import check_sizes, deal
from headtohead.data.generated.claims import CONTRADICTION, ENTAILMENT, NEUTRAL, claim_pairs
from headtohead.data.generated.stories import NEXT, RANDOM, story_pairs
from headtohead.data.labelled import LabelledForm, LabelledPair
from headtohead.data.texts import TextSource
from headtohead.data.tokenizers import TokenizerName
from headtohead.ranges import BatchSize, Rows, Seed, Vocabulary

Relation = Literal["entailment", "next"]
CLASS_NAMES: dict[str, tuple[str, ...]] = {
    "entailment": (ENTAILMENT, NEUTRAL, CONTRADICTION),
    "next": (NEXT, RANDOM),
}


class PairGrammar(TextSource):
    """Pairs that all differ, all labels as common."""

    name: ClassVar[str] = "pair_grammar"
    draws_its_rows = True
    kind = "labelled_text"

    def __init__(
        self,
        *,
        num_train: Rows = 10_000,
        num_validation: Rows = 1_000,
        num_test: Rows = 1_000,
        relation: Relation = "entailment",
        batch_size: BatchSize = 64,
        tokenizer: TokenizerName = "bpe",
        vocab_size: Vocabulary | None = None,
        bucket_by_length: bool = True,
        seed: Seed = 0,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        if relation not in get_args(Relation):
            raise DataError(f"data.relation={relation} is unknown: choose one of {', '.join(get_args(Relation))}.")
        self.sizes, self.relation, self.seed = check_sizes(num_train, num_validation, num_test), relation, seed

    @property
    def form(self) -> LabelledForm:
        return LabelledForm(CLASS_NAMES[self.relation])

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"sizes": self.sizes, "relation": self.relation, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[LabelledPair]]:
        return deal(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[LabelledPair]:
        generator = np.random.default_rng(self.seed)
        return claim_pairs(generator) if self.relation == "entailment" else story_pairs(generator)
