"""Premises about a few things, and claims that follow from them, contradict them, or go beyond them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtohead.data.english import words

_AT_ONCE = 4096
"""Pairs written together."""
ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"
LABELS = (ENTAILMENT, NEUTRAL, CONTRADICTION)
THINGS = words("lamp box cup chair book clock ring drum kite coin")
VALUES = (
    ("red", "blue", "green", "black", "white", "yellow"),
    ("in the kitchen", "in the garden", "in the attic", "in the cellar", "in the garage", "in the office"),
)
"""Colours and places: what may be said of a thing."""
NEGATED_SHARE = 0.25


def claim_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a premise, a claim, and their relation.

    Of three things in a premise one has colour and place, one a colour, one a place. The claim is about one of them
    and takes its value from the premise, whatever its label: the words of both say nothing, who has what says it all.
    """
    while True:
        things = np.argsort(generator.random((_AT_ONCE, len(THINGS))), axis=1)[:, :3]
        values = [np.argsort(generator.random((_AT_ONCE, len(of))), axis=1)[:, :2] for of in VALUES]
        orders = np.argsort(generator.random((_AT_ONCE, 3)), axis=1)
        labels, negated = generator.integers(3, size=_AT_ONCE), generator.random(_AT_ONCE) < NEGATED_SHARE
        kinds, picks, swaps = generator.integers(2, size=(3, _AT_ONCE))
        for row in range(_AT_ONCE):
            names = [THINGS[thing] for thing in things[row]]
            said = [[of[place] for place in drawn[row]] for of, drawn in zip(VALUES, values, strict=True)]
            clauses = [
                f"the {names[0]} is {said[0][0]} and {said[1][0]}",
                f"the {names[1]} is {said[0][1]}",
                f"the {names[2]} is {said[1][1]}",
            ]
            premise = " , ".join(clauses[place] for place in orders[row]) + " ."
            label, kind, pick = LABELS[labels[row]], int(kinds[row]), int(picks[row])
            # Thing 0 has both kinds; thing 1 + kind has this kind alone, thing 2 - kind only the other.
            thing = names[2 - kind] if label == NEUTRAL else names[(1 + kind) * pick]
            wrong = swaps[row] if label == NEUTRAL else (label == CONTRADICTION) ^ negated[row]
            value = said[kind][(0 if label == NEUTRAL else pick) ^ int(wrong)]
            yield premise, f"the {thing} is {'not ' if negated[row] else ''}{value} .", label
