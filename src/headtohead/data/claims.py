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
PREMISES = (
    (((0,),), 0.2), (((1,),), 0.2), (((0,), (1,)), 0.1), (((0, 1), (0,)), 0.15), (((0, 1), (1,)), 0.15),
    (((0, 1), (0,), (1,)), 0.2),
)  # fmt: skip
"""Whether colour or place or both are said of each thing, and how common that is. Premises of one thing are short
and need no memory of who has what: learning finds a beginning there."""
NEGATED_SHARE = 0.2
OPENINGS = (
    "", "today ", "as we know , ", "they say that ", "by now ", "at the moment ", "it seems that ", "look : ",
)  # fmt: skip
"""They make pairs differ, and tell nothing."""

Fact = tuple[int, int, int]
"""The number of a thing, of what is said (colour or place), and of its value."""


def claim_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a premise, a claim, and their relation.

    The claim is about a thing of the premise, and takes its value from there where it can, whatever its label: which
    words both have says little, who has what says it all.
    """
    shapes, shares = zip(*PREMISES, strict=True)
    while True:
        things, *values = (
            np.argsort(generator.random((_AT_ONCE, len(of))), axis=1).tolist() for of in (THINGS, *VALUES)
        )
        drawn = generator.choice(len(shapes), size=_AT_ONCE, p=shares)
        labels, negated = generator.integers(3, size=_AT_ONCE), generator.random(_AT_ONCE) < NEGATED_SHARE
        orders, picks = generator.random((_AT_ONCE, 3)), generator.random(_AT_ONCE)
        openings = generator.integers(len(OPENINGS), size=(_AT_ONCE, 2)).tolist()
        for row in range(_AT_ONCE):
            unused = [iter(of[row]) for of in values]
            said = zip(things[row], shapes[drawn[row]], strict=False)
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
    """One that has this relation to the facts; `unsaid` are a colour and a place that they do not have."""
    if relation == NEUTRAL:
        known = {(thing, kind) for thing, kind, _ in facts}
        missing = [(thing, kind) for thing in {thing for thing, *_ in facts} for kind in (0, 1)]
        missing = sorted(pair for pair in missing if pair not in known)
        thing, kind = missing[int(pick * len(missing))]
        said = [value for _, other, value in facts if other == kind] or [unsaid[kind]]
        return thing, kind, said[int(pick * len(missing) * len(said)) % len(said)]
    thing, kind, value = facts[int(pick * len(facts))]
    if relation == ENTAILMENT:
        return thing, kind, value
    others = [other for _, of, other in facts if of == kind and other != value] or [unsaid[kind]]
    return thing, kind, others[0]


def _clause(facts: Sequence[Fact], negation: str = "") -> str:
    """All that is said of one thing."""
    told = " and ".join(VALUES[kind][value] for _, kind, value in facts)
    return f"the {THINGS[facts[0][0]]} is{negation} {told}"
