"""A little English: sentences whose verbs agree with subjects that may stand far away."""

from __future__ import annotations

import numpy as np

from headtohead.data.generated.grammar import Rules


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
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
PLACES = words("near behind under beside above beyond with without")

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
    """The same constructions for every seed; how common each word is follows from the seed, by Zipf's law."""
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
        "Place": PLACES,
    }
    lexicon = {}
    for symbol, entries in lexical.items():
        ranks = generator.permutation(len(entries)) + 1
        lexicon[symbol] = [(1 / rank, entry) for rank, entry in zip(ranks, entries, strict=True)]
    return {**_SENTENCES, **lexicon}


def _third_person(verb: str) -> str:
    return f"{verb}es" if verb.endswith("sh") else f"{verb}s"
