"""Reports of what someone did, and claims that follow from them, contradict them, or are about someone else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtohead.data.generated.stories import PEOPLE, WHEN

_AT_ONCE = 4096
"""Pairs written together."""
ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")
SCENES = (
    ("went sailing / caught a herring", "on the water / at sea"),
    ("slept until noon / lay down to rest", "in bed / under a blanket"),
    ("baked the bread / peeled the apples", "in the kitchen / at the stove"),
    ("sang before the king / played to a full house", "on stage / in front of an audience"),
)
"""What someone may do, and where that is; nobody is in two of these places."""
_DEEDS, _PLACES = (tuple(tuple(told.split(" / ")) for told in side) for side in zip(*SCENES, strict=True))
_NUM_WAYS = 2
"""To say each."""
OPENINGS = (
    "", "then ", "they say that ", "it seems that ", "at that time ", "as we know , ", "no doubt ", "of course ",
)  # fmt: skip
"""They make pairs differ, and tell nothing."""
NEGATED_SHARES = {ENTAILMENT: 0.05, NEUTRAL: 0.1, CONTRADICTION: 0.2}
"""As in collections of this kind, a negation hints at a contradiction."""


def claim_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a report, a claim, and their relation.

    A claim with the other pronoun is about someone of whom the report says nothing. Every word stands in claims of
    every label: only the pronoun beside the name, and the place beside the deed, tell which it is.
    """
    while True:
        people, scenes = generator.integers(len(PEOPLE), size=_AT_ONCE), generator.integers(len(SCENES), size=_AT_ONCE)
        elsewhere = (scenes + generator.integers(1, len(SCENES), size=_AT_ONCE)) % len(SCENES)
        ways = generator.integers(_NUM_WAYS, size=(_AT_ONCE, 2))
        when, openings = (generator.integers(len(of), size=_AT_ONCE) for of in (WHEN, OPENINGS))
        labels = generator.integers(len(LABELS), size=_AT_ONCE)
        negated = generator.random(_AT_ONCE) < np.array([NEGATED_SHARES[label] for label in LABELS])[labels]
        # Of a neutral claim, nobody knows; else a claim holds where it names the place of the deed or denies another.
        there = np.where(labels == 1, generator.random(_AT_ONCE) < 0.5, (labels == 0) != negated)
        for row in range(_AT_ONCE):
            name, pronoun = PEOPLE[people[row]]
            if LABELS[labels[row]] == NEUTRAL:
                pronoun = "he" if pronoun == "she" else "she"
            deed = _DEEDS[scenes[row]][ways[row, 0]]
            place = _PLACES[scenes[row] if there[row] else elsewhere[row]][ways[row, 1]]
            was = "was not" if negated[row] else "was"
            report, claim = f"{WHEN[when[row]]}{name} {deed} .", f"{OPENINGS[openings[row]]}{pronoun} {was} {place} ."
            yield report, claim, LABELS[labels[row]]
