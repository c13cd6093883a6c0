"""A probabilistic context-free grammar that writes all its sentences at once, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headtohead.data.storage import Ragged

Rules = Mapping[str, Sequence[tuple[float, str]]]
"""What a symbol may become: weights, and bodies of symbols and words set apart by spaces."""


@dataclass(frozen=True)
class Grammar:
    """Symbols come first, words after them, in one numbering; rules are numbered symbol by symbol."""

    symbols: tuple[str, ...]
    words: tuple[str, ...]
    bodies: Ragged
    """What each rule puts in place of its symbol."""
    cumulative: np.ndarray
    """Of rule r of symbol s: s plus the probability of all rules of s up to r."""

    @classmethod
    def of(cls, rules: Rules) -> Grammar:
        symbols = tuple(rules)
        bodies = [body.split() for choices in rules.values() for _, body in choices]
        words = tuple(sorted({part for body in bodies for part in body} - set(symbols)))
        number = {name: place for place, name in enumerate((*symbols, *words))}
        values = np.array([number[part] for body in bodies for part in body])
        cumulative = []
        for place, choices in enumerate(rules.values()):
            sums = np.cumsum([weight for weight, _ in choices])
            cumulative.append(place + sums / sums[-1])
        lengths = np.array([len(body) for body in bodies])
        return cls(symbols, words, Ragged.of_lengths(values, lengths), np.concatenate(cumulative))

    def sentences(self, num_sentences: int, generator: np.random.Generator) -> Ragged:
        """Word numbers (from 0) of sentences derived from the first symbol."""
        current = Ragged.of_lengths(np.zeros(num_sentences, dtype=np.int64), np.ones(num_sentences, dtype=np.int64))
        while (open_places := np.flatnonzero(current.values < len(self.symbols))).size:
            current = self._rewritten(current, open_places, generator)
        return Ragged(current.values - len(self.symbols), current.offsets)

    def _rewritten(self, current: Ragged, places: np.ndarray, generator: np.random.Generator) -> Ragged:
        """Every symbol replaced by the body of a rule of its own."""
        drawn = current.values[places] + generator.random(len(places))
        rules = np.searchsorted(self.cumulative, drawn, side="right")
        lengths = np.ones(len(current.values), dtype=np.int64)
        lengths[places] = self.bodies.lengths[rules]
        values = np.repeat(current.values, lengths)
        replaced = np.zeros(len(current.values), dtype=bool)
        replaced[places] = True
        values[np.repeat(replaced, lengths)] = self.bodies.chosen(rules).values
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return Ragged(values, ends[current.offsets])
