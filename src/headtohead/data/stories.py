"""Stories of a few sentences: a person does something, and what follows fits the person and the matter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_AT_ONCE = 4096
"""Pairs written together."""
NEXT, RANDOM = "next", "random"
PEOPLE = (
    ("anna", "she"), ("clara", "she"), ("elena", "she"), ("greta", "she"), ("irene", "she"), ("maria", "she"),
    ("boris", "he"), ("david", "he"), ("felix", "he"), ("hugo", "he"), ("jonas", "he"), ("peter", "he"),
)  # fmt: skip
TOPICS = (
    ("bought a violin / took music lessons / joined the orchestra",
     "practised every scale / played too loudly / tuned the strings"),
    ("rented a field / planted potatoes / bought a tractor",
     "waited for rain / dug until dusk / sold the harvest"),
    ("went to the harbour / borrowed a boat / learned to sail",
     "feared the waves / hoisted the anchor / caught a herring"),
    ("entered the kitchen / opened a bakery / lit the oven",
     "burned the bread / needed more flour / kneaded the dough"),
    ("fell ill / called a doctor / broke an arm",
     "stayed in bed / took the medicine / slept in a hospital"),
    ("opened a library / wrote a novel / learned to read",
     "turned the pages / copied a chapter / lent the books"),
    ("built a wall / moved to a castle / mended the roof",
     "carried the bricks / broke a ladder / stacked the stones"),
    ("joined the army / went to war / enlisted at dawn",
     "polished the rifle / marched all night / obeyed the captain"),
    ("studied the stars / bought a telescope / became an astronomer",
     "watched the moon / named a comet / measured the sky"),
    ("opened a bank / inherited a fortune / won the lottery",
     "counted the money / hid the gold / signed a cheque"),
)  # fmt: skip
"""What begins each story, and what may follow: never the same words, so that their connection is to be learned."""
_BEGINNINGS, _ENDS = (tuple(tuple(told.split(" / ")) for told in side) for side in zip(*TOPICS, strict=True))
WHEN = ("", "last week ", "in spring ", "one day ", "at last ")
THEN = ("", "then ", "so ", "after that ", "of course ")


def story_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a first sentence, a second one, and whether it is the next of the same story or comes from another
    story, of anyone."""
    while True:
        people, others = generator.integers(len(PEOPLE), size=(2, _AT_ONCE))
        topics = generator.integers(len(TOPICS), size=_AT_ONCE)
        other_topics = (topics + generator.integers(1, len(TOPICS), size=_AT_ONCE)) % len(TOPICS)
        told = generator.integers(3, size=(_AT_ONCE, 2))
        when, then = (generator.integers(len(of), size=_AT_ONCE) for of in (WHEN, THEN))
        follows = generator.random(_AT_ONCE) < 0.5
        for row in range(_AT_ONCE):
            person, topic = (people[row], topics[row]) if follows[row] else (others[row], other_topics[row])
            first = f"{WHEN[when[row]]}{PEOPLE[people[row]][0]} {_BEGINNINGS[topics[row]][told[row, 0]]} ."
            second = f"{THEN[then[row]]}{PEOPLE[person][1]} {_ENDS[topic][told[row, 1]]} ."
            yield first, second, NEXT if follows[row] else RANDOM
