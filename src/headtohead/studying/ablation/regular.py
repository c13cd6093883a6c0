"""Regular fractions of two-level designs (Box and Hunter, https://www.jstor.org/stable/1266725).

Some factors are crossed in full; each further one is the product of several of these, its generator. Every product of
generators is a word of factors whose product is constant: the shortest word's length is the resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from headtohead.building.errors import ConfigurationError

Word = frozenset[int]
"""Factors, by place."""


def regular_fraction(factors: Sequence[str], resolution: int) -> list[tuple[int, ...]]:
    """The smallest fraction of this resolution: rows of 0 (the base's level) and 1, the base first."""
    for num_crossed in range(2, len(factors)):
        generators = _generators(num_crossed, len(factors) - num_crossed, resolution)
        if generators is not None:
            return [_row(crossed, generators) for crossed in product((0, 1), repeat=num_crossed)]
    raise ConfigurationError(
        f"ablation: no fraction of {len(factors)} factors has resolution {resolution}: set kind: factorial, "
        "or a lower resolution"
    )


def _row(crossed: tuple[int, ...], generators: Sequence[Word]) -> tuple[int, ...]:
    return (*crossed, *(sum(crossed[place] for place in word) % 2 for word in generators))


def _generators(num_crossed: int, num_more: int, resolution: int) -> list[Word] | None:
    """One for each further factor, long ones first; None where there are not enough that agree."""
    sizes = range(num_crossed, resolution - 2, -1)
    known = [frozenset(word) for size in sizes for word in combinations(range(num_crossed), size)]

    def extended(chosen: list[Word], words: list[Word], start: int) -> list[Word] | None:
        if len(chosen) == num_more:
            return chosen
        for place in range(start, len(known)):
            new = known[place] | {num_crossed + len(chosen)}
            made = [new, *(word ^ new for word in words)]
            if min(map(len, made)) >= resolution:
                found = extended([*chosen, known[place]], [*words, *made], place + 1)
                if found is not None:
                    return found
        return None

    return extended([], [], 0)
