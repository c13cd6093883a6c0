"""Measures of texts against the programs that papers report them with, on the same texts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer
from sklearn.metrics import accuracy_score, f1_score

from headtohead.data.data_source import DataSpec
from headtohead.data.row_formats.text_templates import entities_from_text, entities_to_text
from headtohead.tasks.metric_sums import Arrays
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.text_metric_selection import GeneratedEntities, GeneratedLabels, row_message, text_metrics_for
from headtohead.tasks.text_overlap import Bleu, Chrf, Rouge, TextMetric

TRUTHS = [
    "Two young, white males are outside near many bushes.",
    "A man in an orange hat starring at something.",
    "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.",
    "It's 3.5 km (about 2 miles) to O'Brien's house; isn't it?",
    "yes",
    "The man is at the door. The door is closed! Who has the key of the door?",
]
WRITTEN = [
    "Two young males are outside, near many many bushes.",
    "A man in an orange hat is starring at something",
    "Ein Boston Terrier läuft über grünes Gras vor einem Zaun.",
    "It's 3.5 km to O'Brien's house; isn't it ?",
    "",
    "The door is closed. At the door is the man. The key is the man's, the key of the door.",
]


WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "big", "red"]


def misspelt(seed: int, size: int = 40) -> tuple[list[str], list[str]]:
    """Return texts of a few words, and the same with words left out, doubled and exchanged."""
    draw = random.Random(seed)
    words = [
        *["the", "a", "cat", "dog", "sat", "sits", "on", "mat", ",", ".", "big", "red"],
        "U.S.",
        "don't",
        "42,000",
        "über",
    ]
    truths = [" ".join(draw.choices(words, k=draw.randint(1, 25))) for _ in range(size)]
    written = []
    for truth in truths:
        saved = [word for word in truth.split() for _ in range(draw.choice((0, 1, 1, 1, 1, 2)))]
        if len(saved) > 3 and draw.random() < 0.3:
            saved[0], saved[2] = saved[2], saved[0]
        written.append(" ".join(saved))
    return written, truths


CORPORA = [(WRITTEN, TRUTHS), misspelt(0), misspelt(1)]


def figures(measure: TextMetric, written: Sequence[str], truths: Sequence[str], parts: int = 1) -> dict[str, float]:
    """Return the metrics from sums over so many uneven batches."""
    sums = Arrays(measure.shapes)
    borders = [0, *sorted(random.Random(0).sample(range(1, len(truths)), parts - 1)), len(truths)]
    for start, stop in itertools.pairwise(borders):
        sums.update(**measure.sums(written[start:stop], truths[start:stop]))
    return measure.figures(sums.compute())


@pytest.mark.parametrize("corpus", range(len(CORPORA)))
@pytest.mark.parametrize("parts", [1, 4])
def test_bleu_is_that_of_sacrebleu(corpus: int, parts: int) -> None:
    written, truths = CORPORA[corpus]
    expected = sacrebleu.corpus_bleu(written, [truths], smooth_method="none", force=True).score / 100
    assert 0.1 < expected < 0.95
    assert figures(Bleu(), written, truths, parts)["bleu"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("corpus", range(len(CORPORA)))
@pytest.mark.parametrize("parts", [1, 4])
def test_chrf_is_that_of_sacrebleu(corpus: int, parts: int) -> None:
    written, truths = CORPORA[corpus]
    expected = sacrebleu.corpus_chrf(written, [truths]).score / 100
    assert figures(Chrf(), written, truths, parts)["chrf"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_texts_that_share_nothing_or_say_nothing_score_0(name: str) -> None:
    measure: TextMetric = {"bleu": Bleu(), "chrf": Chrf()}[name]
    for written in (["xyz xyz xyz xyz", "qq"], ["", ""]):
        truths = ["a b c d e f", "g h"]
        assert figures(measure, written, truths)[name] == 0.0
    assert figures(measure, ["a b c d e"], ["a b c d e"])[name] == pytest.approx(1.0)


@pytest.mark.parametrize("corpus", range(len(CORPORA)))
@pytest.mark.parametrize("parts", [1, 4])
def test_rouge_is_that_of_its_authors_at_google(corpus: int, parts: int) -> None:
    written, truths = CORPORA[corpus]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    scores = [scorer.score(truth, text) for text, truth in zip(written, truths, strict=True)]
    result = figures(Rouge(), written, truths, parts)
    for name in ("rouge1", "rouge2", "rougeL"):
        expected = sum(score[name].fmeasure for score in scores) / len(scores)
        assert result[name] == pytest.approx(expected, abs=1e-6)


def test_rouge_lsum_is_that_of_its_authors_given_one_sentence_a_line() -> None:
    """Sentences here end by themselves, in lines or with a full stop; those of the authors' program are lines alone."""
    draw, scorer = random.Random(3), RougeScorer(["rougeLsum"], use_stemmer=False)
    for case in range(60):
        sides = [
            [
                " ".join(
                    draw.choices(["the", "a", "cat", "dog", "sat", "on", "mat", "big", "red"], k=draw.randint(1, 9))
                )
                for _ in range(n)
            ]
            for n in (draw.randint(1, 5), draw.randint(1, 5))
        ]
        truth, text = (("\n" if case % 2 else ". ").join(side) for side in sides)
        expected = scorer.score(*("\n".join(side) for side in sides))["rougeLsum"].fmeasure
        assert figures(Rouge(), [text], [truth])["rougeLsum"] == pytest.approx(expected, abs=1e-12)


def test_rouge_of_nothing_is_0() -> None:
    assert set(figures(Rouge(), ["", "?!"], ["the cat", "the cat"]).values()) == {0.0}


def test_labels_in_words_are_counted_as_classes() -> None:
    words, draw = ["bad", "so so", "good"], random.Random(0)
    truths = draw.choices(words, k=60)
    written = [draw.choice([truth, truth, *words, "god", ""]) for truth in truths]
    result = figures(GeneratedLabels(words), [f" {text} " for text in written], truths, parts=3)
    assert result["accuracy"] == pytest.approx(accuracy_score(truths, written))
    assert result["f1_macro"] == pytest.approx(f1_score(truths, written, labels=words, average="macro"))
    assert result["readable"] == pytest.approx(sum(text in words for text in written) / 60)


@pytest.mark.parametrize(
    ("words", "tags", "text"),
    [
        ("Anna Smith left Oslo", "B-PER I-PER O B-LOC", "PER: Anna Smith ; LOC: Oslo"),
        ("Rome Oslo Anna", "B-LOC B-LOC I-PER", "LOC: Rome ; LOC: Oslo ; PER: Anna"),
        ("it rains", "O O", "none"),
    ],
)
def test_entities_are_written_and_read_back(words: str, tags: str, text: str) -> None:
    assert entities_to_text(words.split(), tags.split()) == text
    parts = [] if text == "none" else [tuple(part.split(": ")) for part in text.split(" ; ")]
    assert entities_from_text(text) == parts


def test_written_entities_are_right_by_type_and_words_each_as_often_as_there() -> None:
    truths = ["PER: Anna ; LOC: Oslo ; LOC: Oslo", "none", "ORG: A B"]
    written = ["LOC: Oslo ; PER: Anna ; ORG: Oslo", "LOC: Rome", "ORG: A B C ;; ORG : A  B"]
    # Right: Oslo once, Anna, A B. Written: three, one, two. There: three, none, one.
    result = figures(GeneratedEntities(), written, truths, parts=2)
    assert result == pytest.approx({"entity_precision": 3 / 6, "entity_recall": 3 / 4, "entity_f1": 6 / 10})


@pytest.mark.parametrize(
    ("written", "truth", "f1"),
    [
        ("none", "none", "1.000"),
        ("none", "LOC: Oslo", "0.000"),
        ("LOC: Oslo", "none", "0.000"),
        ("LOC: Oslo ; LOC: Rome", "LOC: Oslo", "0.667"),
    ],
)
def test_a_text_without_entities_is_right_where_none_is_written(written: str, truth: str, f1: str) -> None:
    assert row_message([GeneratedEntities()], written, truth) == {"entity_f1": f1}


def test_what_is_measured_is_what_is_named_or_what_the_data_calls_for() -> None:
    texts = DataSpec(kind="pairs_of_text", decode=str)
    assert [type(one) for one in text_metrics_for(None, texts)] == [Bleu, Chrf]
    assert [type(one) for one in text_metrics_for(["rouge"], texts)] == [Rouge]
    assert text_metrics_for([], texts) == text_metrics_for(None, DataSpec(kind="pairs_of_text")) == []
    entities = DataSpec(kind="pairs_of_text", decode=str, written_as="entities")
    assert [type(one) for one in text_metrics_for(None, entities)] == [GeneratedEntities]


class LowerCase:
    """Spells in small letters, one token each, as wordpieces without case do."""

    @staticmethod
    def encode(text: str) -> list[int]:
        return [ord(letter) for letter in text.lower()]

    @staticmethod
    def decode(tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


def labels_written_in_lower_case(words: Sequence[str], max_target_length: int) -> DataSpec:
    return DataSpec(
        kind="pairs_of_text",
        encode=LowerCase.encode,
        decode=LowerCase.decode,
        written_as="label",
        label_words=tuple(words),
        max_target_length=max_target_length,
    )


def test_labels_are_known_as_the_tokenizer_spells_and_cuts_them() -> None:
    [measure] = text_metrics_for(None, labels_written_in_lower_case(["Good", "Terrible"], max_target_length=6))
    written, truths = ["good", "good", "terri"], ["good", "terri", "terri"]
    result = figures(measure, written, truths, parts=2)
    assert result["accuracy"] == pytest.approx(accuracy_score(truths, written))
    assert result["readable"] == 1.0


def test_labels_that_a_tokenizer_spells_alike_are_refused() -> None:
    with pytest.raises(ValueError, match=r"label_words=\['US', 'us'\] are \['us', 'us'\] .*give words that stay diff"):
        text_metrics_for(None, labels_written_in_lower_case(["US", "us"], max_target_length=6))


def test_a_measure_that_is_unknown_or_cannot_choose_the_best_is_refused() -> None:
    with pytest.raises(ValueError, match=r"text_metrics=meteor is unknown: choose from bleu, chrf, rouge"):
        SequenceToSequence(text_metrics=["meteor"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"monitor=rouge1 is not measured on this data: .*bleu, chrf, or name it"):
        SequenceToSequence(monitor="rouge1").bind(DataSpec(kind="pairs_of_text", decode=str))
    with pytest.raises(ValueError, match=r"text_metrics=\[bleu\] compares texts, and this data has no decode"):
        SequenceToSequence(text_metrics=["bleu"]).bind(DataSpec(kind="pairs_of_text"))
