"""Sentences with people, places and organisations that share their names, so that only the context of a name tells
which it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import ClassVar

import numpy as np

from headtohead.data.data_source import SplitName
from headtohead.data.generated.english_grammar import words
from headtohead.data.row_formats.tagged import TagFormat, Tagged
from headtohead.data.row_formats.text_source import BucketedRows, TextSource
from headtohead.data.splits.sample_splits import SplitSizes, split_samples
from headtohead.ranges import Seed

_AT_ONCE = 4096
"""Sentences written together."""
NAMES = words(
    "washington jackson lincoln madison jordan paris florence virginia georgia charlotte sydney austin dallas houston "
    "chelsea victoria carson morgan ford disney hilton wells orlando savannah may will mark rose grant hope"
)
"""Each is as often a person as a place or an organisation, and the last ones are common words as well."""
TWO_WORDS = 0.4
"""The share of entities that have two words."""
PATTERNS = (
    "PER said she would move to LOC",
    "ORG said it would move to LOC",
    "PER sold her shares in ORG",
    "ORG sold its shares in ORG",
    "LOC sold its old harbour to ORG",
    "after ten years in LOC , PER joined ORG",
    "after ten years at ORG , PER retired to LOC",
    "after ten years with PER , she left ORG",
    "the mayor of LOC thanked the founder of ORG",
    "the mother of PER thanked the mayor of LOC",
    "the founder of ORG thanked the mother of PER",
    "PER and PER were married in LOC",
    "ORG and ORG were merged by PER",
    "LOC and LOC were flooded again in may",
    "they drove from LOC to LOC with PER",
    "they heard from PER that ORG was closing",
    "they heard that LOC was sinking from PER",
    "the shares of ORG rose when PER resigned",
    "the streets of LOC were empty when ORG closed",
    "the letters of PER were found in LOC",
    "PER rose and left for LOC",
    "ORG will grant PER a loan",
    "PER may grant ORG a licence",
    "LOC may mark the birthday of PER",
    "PER , born in LOC , runs ORG",
    "ORG , founded in LOC , hired PER",
    "LOC , governed by PER , sued ORG",
    "I hope that PER will marry PER",
    "I hope that ORG will hire PER",
    "I hope that LOC will host ORG",
)
"""Each kind of entity occurs at every position of a sentence, after the same words as the others."""
ENDINGS = (" .", " last year .", " , they say .", " , as it seems .", " in the end .")


class TaggingGrammar(TextSource):
    """Sentences that all differ, in lower case, with tags in BIO."""

    name: ClassVar[str] = "tagging_grammar"
    draws_its_rows = True
    kind = "tagged_text"
    class_names: ClassVar[tuple[str, ...]] = ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")

    def __init__(
        self,
        *,
        splits: SplitSizes = SplitSizes(num_train=10_000),
        rows: BucketedRows = BucketedRows(batch_size=64),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows)
        self.sizes, self.seed = splits.by_name(), seed

    @property
    def form(self) -> TagFormat:
        return TagFormat(self.class_names)

    def sample_parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[Tagged]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def _written(self) -> Iterator[Tagged]:
        """Yield tagged sentences without end; some may be equal."""
        generator = np.random.default_rng(self.seed)
        most = max(pattern.count(kind) for pattern in PATTERNS for kind in ("PER", "LOC", "ORG")) + 2
        while True:
            patterns = generator.integers(len(PATTERNS), size=_AT_ONCE).tolist()
            endings = generator.integers(len(ENDINGS), size=_AT_ONCE).tolist()
            names = generator.integers(len(NAMES), size=(_AT_ONCE, most, 2)).tolist()
            long = (generator.random((_AT_ONCE, most)) < TWO_WORDS).tolist()
            for pattern, ending, drawn, two in zip(patterns, endings, names, long, strict=True):
                entities = [[NAMES[index] for index in pair[: 1 + more]] for pair, more in zip(drawn, two, strict=True)]
                yield filled(PATTERNS[pattern] + ENDINGS[ending], entities)


def filled(pattern: str, entities: list[list[str]]) -> Tagged:
    """Fill the pattern with one entity after another in place of its types."""
    words: list[str] = []
    tags: list[str] = []
    rest = iter(entities)
    for word in pattern.split():
        if word.isupper() and len(word) > 1:
            entity = next(rest)
            words += entity
            tags += [f"B-{word}"] + [f"I-{word}"] * (len(entity) - 1)
        else:
            words.append(word)
            tags.append("O")
    return tuple(words), tuple(tags)
