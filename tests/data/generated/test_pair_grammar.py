"""Relations by reading the pairs again, and how little their words tell."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import DataError
from headtohead.data.generated.pair_grammar import CONTRADICTION, ENTAILMENT, NEUTRAL, SCENES, PairGrammar, Relation
from headtohead.data.generated.stories import NEXT, PEOPLE, RANDOM, TOPICS

LOCATIONS = [position for _, positions in SCENES for position in positions.split(" / ")]
Pair = tuple[str, str, str]
every_relation = pytest.mark.parametrize("relation", get_args(Relation))


def relation_of(report: str, claim: str) -> str:
    """Derive the relation from the person meant, and whether the place belongs to the deed."""
    (pronoun,) = (pronoun for name, pronoun in PEOPLE if f" {name} " in f" {report} ")
    (positions,) = (
        positions for actions, positions in SCENES if any(f"{action} ." in report for action in actions.split(" / "))
    )
    if f" {pronoun} was " not in f" {claim}":
        return NEUTRAL
    there = any(f" {position} ." in claim for position in positions.split(" / "))
    return ENTAILMENT if there != (" was not " in claim) else CONTRADICTION


def follows(first: str, second: str) -> str:
    """Return whether the pronoun fits the name, and both sentences belong to one topic."""
    (pronoun,) = (pronoun for name, pronoun in PEOPLE if f" {name} " in f" {first} ")
    (topic,) = (ends for begins, ends in TOPICS if any(f"{message} ." in first for message in begins.split(" / ")))
    fits = f" {pronoun} " in f" {second} " and any(f"{message} ." in second for message in topic.split(" / "))
    return NEXT if fits else RANDOM


def pairs(relation: Any, **sizes: int) -> dict[str, list[Pair]]:
    return dict(from_fields(PairGrammar, relation=relation, **sizes).samples())  # type: ignore[arg-type]


@every_relation
def test_labels_are_those_of_a_reader(relation: Any) -> None:
    read = relation_of if relation == "entailment" else follows
    for first, second, label in pairs(relation, num_train=3_000)["train"]:
        assert read(first, second) == label


@every_relation
def test_labels_are_equally_common(relation: Any) -> None:
    labels = [label for *_, label in pairs(relation)["train"]]
    shares = [labels.count(label) / len(labels) for label in set(labels)]
    assert max(shares) - min(shares) < 0.04


@pytest.mark.parametrize(("relation", "most"), [("entailment", 0.55), ("next", 0.64)])
def test_bag_of_words_tells_little(relation: Any, most: float) -> None:
    """The baseline is a linear classifier on the words of both sentences, as separate features."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    drawn = pairs(relation, num_train=4_000, num_test=2_000)

    def marked(split: str) -> tuple[list[str], list[str]]:
        texts = [f"{first} " + " ".join(f"2{word}" for word in second.split()) for first, second, _ in drawn[split]]
        return texts, [label for *_, label in drawn[split]]

    model = make_pipeline(CountVectorizer(token_pattern=r"\S+"), LogisticRegression(max_iter=100, tol=1e-2))
    assert model.fit(*marked("train")).score(*marked("test")) < most


def test_every_place_is_claimed_with_every_label() -> None:
    result = {
        (position, label)
        for _, claim, label in pairs("entailment")["train"]
        for position in LOCATIONS
        if position in claim
    }
    assert len(result) == 3 * len(LOCATIONS)


def test_rows_are_pairs_with_token_types() -> None:
    batch = from_fields(PairGrammar, num_train=100, num_validation=5, num_test=5).split("train").batch(np.arange(50))
    assert batch.token_types is not None and batch.targets is not None
    assert set(batch.token_types.unique().tolist()) == {0, 1} and set(batch.targets.tolist()) == {0, 1, 2}


def test_unknown_relation_is_refused() -> None:
    with pytest.raises(DataError, match=r"data.relation=cousin is unknown: choose one of entailment, next"):
        from_fields(PairGrammar, relation="cousin")  # type: ignore[arg-type]
