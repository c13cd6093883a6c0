"""Premises about a few things, and claims that follow from them, contradict them, or go beyond them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headtohead.data.english import words

_AT_ONCE = 4096
"""Pairs written together."""
ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")
_DENIED = {ENTAILMENT: CONTRADICTION, NEUTRAL: NEUTRAL, CONTRADICTION: ENTAILMENT}
"""What a claim must say so that its negation has the label."""
THINGS = words("lamp box cup chair clock drum")
VALUES = (
    ("red", "blue", "green", "black", "white"),
    ("in the kitchen", "in the garden", "in the attic", "in the cellar", "in the office"),
)
"""Colours and places: what may be said of a thing."""
PREMISES: tuple[tuple[tuple[int, ...], ...], ...] = (((0,),), ((0, 1), (0,)), ((0, 1), (1,)), ((0, 1), (0,), (1,)))
"""Whether colour or place or both are said of each thing."""
SHARES = (0.2, 0.35, 0.15, 0.3)
"""How common each kind of premise is. The first needs no memory of what is said of which thing."""
NEGATED_SHARES = {ENTAILMENT: 0.1, NEUTRAL: 0.1, CONTRADICTION: 0.4}
"""As in collections of this kind, a negation hints at a contradiction, and a place, of which premises say less, at
neither: without any hint at all, learning finds no beginning."""
OPENINGS = (
    "", "today ", "as we know , ", "they say that ", "by now ", "at the moment ", "it seems that ", "look : ",
)  # fmt: skip
"""They make pairs differ, and tell nothing."""

Fact = tuple[int, int, int]
"""The number of a thing, of what is said (colour or place), and of its value."""


def claim_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a premise, a claim, and their relation.

    The claim is about a thing of the premise and takes its value from there where it can, whatever its label: which
    words both have says little, what is said of which thing says it all.
    """
    while True:
        things, *values = (
            np.argsort(generator.random((_AT_ONCE, len(of))), axis=1).tolist() for of in (THINGS, *VALUES)
        )
        drawn = generator.choice(len(PREMISES), size=_AT_ONCE, p=SHARES)
        labels = generator.integers(3, size=_AT_ONCE)
        negated = generator.random(_AT_ONCE) < np.array([NEGATED_SHARES[label] for label in LABELS])[labels]
        orders, picks = generator.random((_AT_ONCE, 3)), generator.random(_AT_ONCE)
        openings = generator.integers(len(OPENINGS), size=(_AT_ONCE, 2)).tolist()
        for row in range(_AT_ONCE):
            unused = [iter(of[row]) for of in values]
            said = zip(things[row], PREMISES[drawn[row]], strict=False)
            clauses = [[(thing, kind, next(unused[kind])) for kind in kinds] for thing, kinds in said]
            facts = [fact for clause in clauses for fact in clause]
            label = LABELS[labels[row]]
            stated = _DENIED[label] if negated[row] else label
            claim = _claim(facts, stated, float(picks[row]), [next(rest) for rest in unused])
            premise = " , ".join(_clause(clauses[place]) for place in np.argsort(orders[row][: len(clauses)]))
            said_of_it = _clause([claim], " not" if negated[row] else "")
            first, second = (OPENINGS[place] for place in openings[row])
            yield f"{first}{premise} .", f"{second}{said_of_it} .", label


def _claim(facts: Sequence[Fact], relation: str, pick: float, unsaid: Sequence[int]) -> Fact:
    """One of those that have this relation to the facts, with a value that they have, or else with an unsaid one."""
    if relation == ENTAILMENT:
        return facts[int(pick * len(facts))]
    known = {(thing, kind) for thing, kind, _ in facts}
    things = sorted({thing for thing, *_ in facts})
    said = [(kind, value) for _, kind, value in facts]
    for values in (said, enumerate(unsaid)):
        new = sorted({(thing, kind, value) for kind, value in values for thing in things} - set(facts))
        claims = [claim for claim in new if (claim[:2] in known) == (relation == CONTRADICTION)]
        if claims:
            return claims[int(pick * len(claims))]
    raise AssertionError(f"{facts} leave nothing to claim")


def _clause(facts: Sequence[Fact], negation: str = "") -> str:
    """All that is said of one thing."""
    told = " and ".join(VALUES[kind][value] for _, kind, value in facts)
    return f"the {THINGS[facts[0][0]]} is{negation} {told}"
