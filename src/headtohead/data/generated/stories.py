"""Stories of a few sentences: a person does something, and what follows fits the person and the matter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headtohead.data.generated.english import words

_AT_ONCE = 4096
"""Pairs written together."""
NEXT, RANDOM = "next", "random"
WOMEN, MEN = words("anna clara elena maria"), words("boris david hugo peter")
PEOPLE = tuple((name, "she") for name in WOMEN) + tuple((name, "he") for name in MEN)
TOPICS = (
    ("bought a violin / joined the orchestra", "practised every scale / tuned the strings"),
    ("planted potatoes / bought a tractor", "waited for rain / sold the harvest"),
    ("went to the harbour / learned to sail", "feared the waves / hoisted the anchor"),
    ("called a doctor / fell ill", "stayed in bed / took the medicine"),
)
"""What begins each story, and what may follow: never the same words, so that their connection is to be learned."""
_BEGINNINGS, _ENDS = (tuple(tuple(told.split(" / ")) for told in side) for side in zip(*TOPICS, strict=True))
_NUM_WAYS = 2
"""To begin each story, and to go on."""
WHEN = (
    "", "last week ", "in spring ", "one day ", "at last ", "after a quarrel ", "on a sunday ", "this year ",
    "much later ", "at the age of forty ", "without a word ", "to our surprise ", "as a child ", "in winter ",
    "for a change ", "before the war ", "against all advice ", "on a whim ", "for no reason ", "long ago ",
)  # fmt: skip
THEN = (
    (
        "then ", "so ", "after that ", "of course ", "in the end ", "therefore ", "since that day ", "by and by ",
        "from then on ", "all the same ",
    ),
    (
        "", "every day ", "for a year ", "at first ", "with great care ", "as always ", "for once ", "more than once ",
        "without complaint ", "as they say ",
    ),
)  # fmt: skip
"""They make pairs differ. The first, which join sentences, are a little more common where there is something to join:
without any hint at all, learning finds no beginning."""
JOINED_SHARES = {NEXT: 0.6, RANDOM: 0.4}


def story_pairs(generator: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Without end: a first sentence, a second one, and whether it is the next of the same story or comes from another
    story, of anyone."""
    while True:
        people, others = generator.integers(len(PEOPLE), size=(2, _AT_ONCE))
        topics = generator.integers(len(TOPICS), size=_AT_ONCE)
        other_topics = (topics + generator.integers(1, len(TOPICS), size=_AT_ONCE)) % len(TOPICS)
        told = generator.integers(_NUM_WAYS, size=(_AT_ONCE, 2))
        when, then = generator.integers(len(WHEN), size=_AT_ONCE), generator.integers(len(THEN[0]), size=_AT_ONCE)
        follows = generator.random(_AT_ONCE) < 0.5
        joined = generator.random(_AT_ONCE) < np.where(follows, *JOINED_SHARES.values())
        for row in range(_AT_ONCE):
            person, topic = (people[row], topics[row]) if follows[row] else (others[row], other_topics[row])
            first = f"{WHEN[when[row]]}{PEOPLE[people[row]][0]} {_BEGINNINGS[topics[row]][told[row, 0]]} ."
            second = f"{THEN[0 if joined[row] else 1][then[row]]}{PEOPLE[person][1]} {_ENDS[topic][told[row, 1]]} ."
            yield first, second, NEXT if follows[row] else RANDOM
