"""A small fragment of English: sentences whose verbs agree with subjects that may be far away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from typing import ClassVar

import numpy as np

from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.data_source import DataError, SplitName
from headtohead.data.row_formats.language_rows import LanguageSource, RowPacking
from headtohead.data.row_formats.text_source import TokenizedRows
from headtohead.data.splits.sample_splits import SplitSizes, split_samples
from headtohead.ranges import Count, Seed

Rules = Mapping[str, Sequence[tuple[float, str]]]
"""The rules of a symbol: weights, and bodies of symbols and words separated by spaces."""


@dataclass(frozen=True)
class Grammar:
    """Symbols come first, words after them, in one numbering; rules are numbered symbol by symbol."""

    symbols: tuple[str, ...]
    words: tuple[str, ...]
    bodies: Ragged
    """The body that replaces a rule's symbol."""
    cumulative: np.ndarray
    """The cumulative probability of rule r of symbol s: s plus the probability of all rules of s up to r."""

    @classmethod
    def of(cls, rules: Rules) -> Grammar:
        symbols = tuple(rules)
        bodies = [body.split() for choices in rules.values() for _, body in choices]
        words = tuple(sorted({part for body in bodies for part in body} - set(symbols)))
        number = {name: index for index, name in enumerate((*symbols, *words))}
        values = np.array([number[part] for body in bodies for part in body])
        cumulative = []
        for index, choices in enumerate(rules.values()):
            sums = np.cumsum([weight for weight, _ in choices])
            cumulative.append(index + sums / sums[-1])
        lengths = np.array([len(body) for body in bodies])
        return cls(symbols, words, Ragged.of_lengths(values, lengths), np.concatenate(cumulative))

    def sentences(self, num_sentences: int, generator: np.random.Generator) -> Ragged:
        """Return word numbers (from 0) of sentences derived from the first symbol."""
        current = Ragged.of_lengths(np.zeros(num_sentences, dtype=np.int64), np.ones(num_sentences, dtype=np.int64))
        while (open_places := np.flatnonzero(current.values < len(self.symbols))).size:
            current = self._rewritten(current, open_places, generator)
        return Ragged(current.values - len(self.symbols), current.offsets)

    def _rewritten(self, current: Ragged, indices: np.ndarray, generator: np.random.Generator) -> Ragged:
        """Replace every symbol by the body of a rule drawn for it."""
        drawn = current.values[indices] + generator.random(len(indices))
        rules = np.searchsorted(self.cumulative, drawn, side="right")
        lengths = np.ones(len(current.values), dtype=np.int64)
        lengths[indices] = self.bodies.lengths[rules]
        values = np.repeat(current.values, lengths)
        replaced = np.zeros(len(current.values), dtype=bool)
        replaced[indices] = True
        values[np.repeat(replaced, lengths)] = self.bodies.chosen(rules).values
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return Ragged(values, ends[current.offsets])


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


NOUNS = words(
    "dog cat horse bird farmer teacher doctor king queen sister sailor painter robot wizard baker soldier singer "
    "writer river mountain house garden bridge castle forest island letter book song story lamp door window table "
    "boat wagon stone flower apple clock mirror coin ring rope basket hammer bell candle drum flag"
)
NAMES = words("anna boris clara david elena felix greta hugo irene jonas karin louis maria nils olga peter")
TRANSITIVE = words(
    "see find help follow like fear know call paint carry move hold want need draw visit remember admire ignore "
    "thank warn praise blame greet join lead trust avoid"
)
INTRANSITIVE = words("sleep walk sing wait laugh fall dream work rest shine vanish arrive listen dance")
CLAIMING = words("say think believe hope claim dream")
ADJECTIVES = words(
    "old young small big red green blue dark bright quiet loud kind cruel clever lazy brave strange famous poor rich "
    "cold warm heavy light golden broken empty hidden ancient gentle"
)
ADVERBS = words("often never always quickly slowly quietly today again gladly rarely")
LOCATIONS = words("near behind under beside above beyond with without")

_SENTENCES: Rules = {
    "Sentence": [
        (8, "Clause ."),
        (2, "Clause , and Clause ."),
        (1, "Clause , but Clause ."),
        (1, "when Clause , Clause ."),
    ],
    "Clause": [(3, "One Does"), (2, "Many Do")],
    "One": [(3, "the GroupOne"), (3, "every GroupOne"), (2, "Name")],
    "Many": [(3, "the GroupMany"), (1, "some GroupMany"), (1, "most GroupMany"), (1, "One and One")],
    "GroupOne": [
        (6, "NounOne"),
        (3, "Adjective NounOne"),
        (1, "Adjective Adjective NounOne"),
        (2, "NounOne Place Anyone"),
        (0.8, "NounOne that Does"),
        (0.8, "NounOne that Many ActMany"),
    ],
    "GroupMany": [
        (6, "NounMany"),
        (3, "Adjective NounMany"),
        (1, "Adjective Adjective NounMany"),
        (2, "NounMany Place Anyone"),
        (0.8, "NounMany that Do"),
        (0.8, "NounMany that One ActOne"),
    ],
    "Anyone": [(3, "One"), (2, "Many")],
    "Does": [(3, "RestOne"), (1, "RestOne Adverb"), (5, "ActOne Anyone"), (0.6, "ClaimOne that Clause")],
    "Do": [(3, "RestMany"), (1, "RestMany Adverb"), (5, "ActMany Anyone"), (0.6, "ClaimMany that Clause")],
}
"""Symbols begin with a capital, words do not."""


def english_rules(seed: int) -> Rules:
    """Return the same constructions for every seed; the word frequencies follow from the seed, by Zipf's law."""
    generator = np.random.default_rng(seed)
    lexical = {
        "NounOne": NOUNS,
        "NounMany": tuple(f"{noun}s" for noun in NOUNS),
        "Name": NAMES,
        "ActOne": tuple(f"{verb}s" for verb in TRANSITIVE),
        "ActMany": TRANSITIVE,
        "RestOne": tuple(_third_person(verb) for verb in INTRANSITIVE),
        "RestMany": INTRANSITIVE,
        "ClaimOne": tuple(f"{verb}s" for verb in CLAIMING),
        "ClaimMany": CLAIMING,
        "Adjective": ADJECTIVES,
        "Adverb": ADVERBS,
        "Place": LOCATIONS,
    }
    lexicon = {}
    for symbol, entries in lexical.items():
        ranks = generator.permutation(len(entries)) + 1
        lexicon[symbol] = [(1 / rank, entry) for rank, entry in zip(ranks, entries, strict=True)]
    return {**_SENTENCES, **lexicon}


def _third_person(verb: str) -> str:
    return f"{verb}es" if verb.endswith("sh") else f"{verb}s"


# Text written by a seeded probabilistic grammar: a language-model corpus that needs no download and has no end.


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
        splits: SplitSizes = SplitSizes(),
        max_sentences: Count = 6,
        packed: RowPacking = RowPacking(),
        rows: TokenizedRows = TokenizedRows(),
        seed: Seed = 0,
    ) -> None:
        super().__init__(rows, packed)
        self.sizes = splits.by_name()
        if max_sentences < 1:
            raise DataError(f"data.max_sentences={max_sentences} must be at least 1.")
        self.max_sentences, self.seed = max_sentences, seed

    def sample_parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes, "max_sentences": self.max_sentences, "seed": self.seed}

    def samples(self) -> Mapping[SplitName, list[str]]:
        return split_samples(islice(self._written(), 50 * sum(self.sizes.values())), self.sizes, source=self.name)

    def overrides_for_share(self, share: float, lacking: Sequence[SplitName]) -> Sequence[str]:
        return [f"data.num_{name}={ceil(2 * share * sum(self.sizes.values()))}" for name in lacking]

    def _written(self) -> Iterator[str]:
        """Yield texts without end; some may be equal."""
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
