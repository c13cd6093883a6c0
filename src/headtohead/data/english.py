"""A little English: sentences whose verbs agree with subjects that may stand far away."""

from __future__ import annotations

import numpy as np

from headtohead.data.grammar import Rules

NOUNS = ["dog", "cat", "horse", "bird", "farmer", "teacher", "doctor", "king", "queen", "child", "sailor", "painter", "robot", "wizard", "baker", "soldier", "singer", "writer", "river", "mountain", "house", "garden", "bridge", "castle", "forest", "island", "letter", "book", "song", "story", "lamp", "door", "window", "table", "boat", "wagon", "stone", "flower", "apple", "clock", "mirror", "coin", "ring", "rope", "basket", "hammer", "bell", "candle", "drum", "flag"]
NAMES = ["anna", "boris", "clara", "david", "elena", "felix", "greta", "hugo", "irene", "jonas", "karin", "louis", "maria", "nils", "olga", "peter"]
TRANSITIVE = ["see", "find", "help", "follow", "like", "fear", "know", "call", "paint", "carry", "move", "hold", "want", "need", "draw", "visit", "remember", "admire", "ignore", "thank", "warn", "praise", "blame", "greet", "join", "lead", "trust", "avoid"]
INTRANSITIVE = ["sleep", "walk", "sing", "wait", "laugh", "fall", "dream", "work", "rest", "shine", "vanish", "arrive", "listen", "dance"]
CLAIMING = ["say", "think", "believe", "hope", "claim", "dream"]
ADJECTIVES = ["old", "young", "small", "big", "red", "green", "blue", "dark", "bright", "quiet", "loud", "kind", "cruel", "clever", "lazy", "brave", "strange", "famous", "poor", "rich", "cold", "warm", "heavy", "light", "golden", "broken", "empty", "hidden", "ancient", "gentle"]
ADVERBS = ["often", "never", "always", "quickly", "slowly", "quietly", "today", "again", "gladly", "rarely"]
PLACES = ["near", "behind", "under", "beside", "above", "beyond", "with", "without"]

_SENTENCES: Rules = {
    "sentence": [(8, "clause ."), (2, "clause , and clause ."), (1, "clause , but clause ."), (1, "when clause , clause .")],
    "clause": [(3, "one does"), (2, "many do")],
    "one": [(3, "the group_one"), (2, "a group_one"), (1, "every group_one"), (2, "name")],
    "many": [(3, "the group_many"), (1, "some group_many"), (1, "many group_many"), (1, "one and one")],
    "group_one": [
        (6, "noun_one"), (3, "adjective noun_one"), (1, "adjective adjective noun_one"), (2, "noun_one place anyone"),
        (0.8, "noun_one that does"), (0.8, "noun_one that many act_many"),
    ],
    "group_many": [
        (6, "noun_many"), (3, "adjective noun_many"), (1, "adjective adjective noun_many"),
        (2, "noun_many place anyone"), (0.8, "noun_many that do"), (0.8, "noun_many that one act_one"),
    ],
    "anyone": [(3, "one"), (2, "many")],
    "does": [(3, "rest_one"), (1, "rest_one adverb"), (5, "act_one anyone"), (0.6, "claim_one that clause")],
    "do": [(3, "rest_many"), (1, "rest_many adverb"), (5, "act_many anyone"), (0.6, "claim_many that clause")],
}  # fmt: skip


def english_rules(seed: int) -> Rules:
    """The same constructions for every seed; how common each word is follows from the seed, by Zipf's law."""
    generator = np.random.default_rng(seed)
    words = {
        "noun_one": NOUNS,
        "noun_many": [f"{noun}s" for noun in NOUNS],
        "name": NAMES,
        "act_one": [f"{verb}s" for verb in TRANSITIVE],
        "act_many": TRANSITIVE,
        "rest_one": [third_person(verb) for verb in INTRANSITIVE],
        "rest_many": INTRANSITIVE,
        "claim_one": [f"{verb}s" for verb in CLAIMING],
        "claim_many": CLAIMING,
        "adjective": ADJECTIVES,
        "adverb": ADVERBS,
        "place": PLACES,
    }
    lexicon = {}
    for symbol, entries in words.items():
        ranks = generator.permutation(len(entries)) + 1
        lexicon[symbol] = [(1 / rank, entry) for rank, entry in zip(ranks, entries, strict=True)]
    return {**_SENTENCES, **lexicon}


def third_person(verb: str) -> str:
    return f"{verb}es" if verb.endswith("sh") else f"{verb}s"
