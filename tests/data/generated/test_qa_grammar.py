"""Answers by reading the contexts again, and how little there is to guess."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from from_fields import from_fields
from headtohead.data.data_source import DataError
from headtohead.data.generated.qa_grammar import LOCATIONS, PEOPLE, THINGS, QaGrammar
from headtohead.data.row_formats.questions import Question

FACT = re.compile(
    r"(?:in (?P<before>.+?) , )?(?P<who>\w+) (?P<did>found|sold|lost|painted|hid) the (?P<what>\w+ \w+)"
    r"(?: in (?P<after>.+?))? \."
)


def facts_of(context: str) -> list[dict[str, str]]:
    result = [match.groupdict() for match in FACT.finditer(context)]
    return [{**fact, "where": fact["before"] or fact["after"]} for fact in result]


def answer_of(question: str, context: str) -> str:
    """Find the answer in the one fact that the question names."""
    words = question.removesuffix(" ?")
    facts = [
        fact
        for fact in facts_of(context)
        if sum((f" {fact['who']} " in words, f" the {fact['what']}" in words, words.endswith(fact["where"]))) == 2
    ]
    (fact,) = facts
    return fact[question.split()[0]]


@pytest.fixture(scope="module")
def samples() -> list[Question]:
    return list(from_fields(QaGrammar, num_train=3_000, num_validation=10, num_test=10).samples()["train"])


def test_answers_are_those_of_a_reader(samples: list[Question]) -> None:
    for options in samples:
        assert answer_of(options.question, options.context) == options.answer
        assert options.start is not None and options.context.startswith(options.answer, options.start)


def test_contexts_have_facts_of_different_people_things_and_places(samples: list[Question]) -> None:
    for options in samples:
        facts = facts_of(options.context)
        assert 2 <= len(facts) <= 3
        assert all(len({fact[part] for fact in facts}) == len(facts) for part in ("who", "what", "where"))


def test_answers_stand_anywhere_and_have_one_to_three_words(samples: list[Question]) -> None:
    assert {len(options.answer.split()) for options in samples} == {1, 2, 3}
    positions = Counter(options.context[: options.start].count(" .") for options in samples)
    assert set(positions) == {0, 1, 2} and min(positions.values()) > 100


def test_question_alone_does_not_tell_the_answer(samples: list[Question]) -> None:
    """The baseline is the most common answer to each question, chosen on the very questions it is measured on."""
    answers: dict[str, Counter[str]] = {}
    for options in samples:
        answers.setdefault(" ".join(options.question.split()[:2]), Counter())[options.answer] += 1
    assert sum(max(counts.values()) for counts in answers.values()) / len(samples) < 0.15


def test_context_alone_does_not_tell_the_answer(samples: list[Question]) -> None:
    """Even one who knows the requested kind of answer must choose among the facts."""
    assert np.mean([1 / len(facts_of(options.context)) for options in samples]) < 0.43


def test_all_words_are_used(samples: list[Question]) -> None:
    answers = {options.answer for options in samples}
    assert answers == {*PEOPLE, *THINGS, *LOCATIONS}


def test_a_share_of_questions_joins_what_two_facts_tell_apart(samples: list[Question]) -> None:
    doubtful = list(
        from_fields(QaGrammar, num_train=3_000, num_validation=10, num_test=10, unanswerable_share=0.3).samples()[
            "train"
        ]
    )
    without = [options for options in doubtful if options.answer is None]
    assert 0.27 < len(without) / 3_000 < 0.33
    for options in without:
        words, facts = options.question.removesuffix(" ?"), facts_of(options.context)
        named = [
            {part for part, is_named in parts.items() if is_named}
            for fact in facts
            if (
                parts := {
                    "who": f" {fact['who']} " in words,
                    "what": f" the {fact['what']}" in words,
                    "where": words.endswith(f" {fact['where']}"),
                }
            )
        ]
        assert max(map(len, named)) == 1 and sum(map(len, named)) == 2, options
    contexts = {options.context for options in samples}
    assert sum(options.context in contexts for options in doubtful) > 2_900, "the contexts are the same"
    for options in doubtful:
        assert options.answer is None or answer_of(options.question, options.context) == options.answer


def test_senseless_share_of_unanswerable_questions_is_refused() -> None:
    with pytest.raises(DataError, match=r"data\.unanswerable_share=1\.0 must be from 0 to less than 1"):
        from_fields(QaGrammar, unanswerable_share=1.0)


@pytest.mark.parametrize("max_facts", [1, 9])
def test_senseless_number_of_facts_is_refused(max_facts: int) -> None:
    with pytest.raises(DataError, match=f"data.max_facts={max_facts} must be from 2, .* to 8"):
        from_fields(QaGrammar, max_facts=max_facts)
