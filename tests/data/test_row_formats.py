"""Samples as rows: labels and pairs, tags on words, spans of answers; and what cannot be a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from data.small_texts import GivenSamples
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataError
from headtohead.data.row_formats import text_source
from headtohead.data.row_formats.labelled_text import ClassFormat, ScoreFormat
from headtohead.data.row_formats.questions import Question, QuestionFormat
from headtohead.data.row_formats.tagged import TagFormat
from headtohead.data.row_formats.text_pairs import PairFormat
from headtohead.data.tokenizers import BOS, EOS, TokenizerName

every_tokenizer = pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])


def batch_of(source: GivenSamples) -> Batch:
    split = source.split("train")
    return split.batch(np.arange(len(split)))


def refusal(source: GivenSamples) -> str:
    with pytest.raises(DataError) as refused:
        source.prepare()
    return str(refused.value)


# Labels.

PAIRS = [("it rained", "it was wet", "yes"), ("no", "it was a very wet day", "no"), ("the sun shone", "dry", "yes")]


def test_each_text_of_a_pair_has_an_end_and_token_types_tell_them_apart() -> None:
    batch = batch_of(GivenSamples(ClassFormat(), PAIRS))
    assert batch.tokens is not None and batch.token_types is not None and batch.valid is not None
    for tokens, types, valid, (first, second, _) in zip(
        batch.tokens, batch.token_types, batch.valid, PAIRS, strict=True
    ):
        length = len(first) + len(second) + 3
        assert tokens[0] == BOS and (tokens == EOS).nonzero().flatten().tolist() == [len(first) + 1, length - 1]
        assert types.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1) + [0] * (len(types) - length)
        assert int(valid.sum()) == length


def test_pairs_are_described_side_by_side() -> None:
    source = GivenSamples(ClassFormat(), PAIRS)
    assert source.describe(batch_of(source))[0] == {
        "row": 0,
        "text": "it rained",
        "second text": "it was wet",
        "label": "yes",
    }


def test_classes_are_those_of_the_train_split_in_order_with_their_shares() -> None:
    spec = GivenSamples(ClassFormat(), PAIRS).spec()
    assert spec.class_names == ("no", "yes") and np.allclose(spec.class_shares, [1 / 3, 2 / 3])
    numbered = GivenSamples(ClassFormat(), [("a", str(label)) for label in (10, 9, 2)]).spec()
    assert numbered.class_names == ("2", "9", "10")


@pytest.mark.parametrize("label", ["yes", "1", 1])
def test_label_of_a_named_class_may_be_its_name_or_its_number(label: str | int) -> None:
    batch = batch_of(GivenSamples(ClassFormat(["no", "yes"]), [("a", label), ("b", "no")]))
    assert batch.targets is not None and batch.targets.tolist() == [1, 0]


@pytest.mark.parametrize("max_length", [8, 11, 16, 50])
def test_pairs_are_cut_to_the_length_requested_the_longer_text_first(max_length: int) -> None:
    batch = batch_of(GivenSamples(ClassFormat(max_length=max_length), PAIRS))
    assert batch.valid is not None and batch.tokens is not None
    room = max_length - 3
    for tokens, valid, (first, second, _) in zip(batch.tokens, batch.valid, PAIRS, strict=True):
        ends = (tokens == EOS).nonzero().flatten()
        saved = int(ends[0]) - 1, int(ends[1] - ends[0]) - 1
        assert sum(saved) == min(room, len(first) + len(second)) == int(valid.sum()) - 3
        assert saved[0] == len(first) or (
            saved[0] >= room // 2 and saved[1] <= max(room - room // 2, room - len(first))
        )
        assert saved[1] == len(second) or saved[1] >= room - max(room // 2, room - len(second))


@pytest.mark.parametrize(
    ("form", "samples", "message"),
    [
        (ClassFormat(["a", "b"]), [("x", 2)], "row 0 of the train split .* has label 2, .* numbered from 0 to 1"),
        (ClassFormat(["a", "b"]), [("x", "c")], "has label 'c', which is not in data.class_names"),
        (ClassFormat(["a", "b"]), [("x", "a"), ("  ", "b")], "row 1 of the train split .*: its text is empty"),
        (ClassFormat(), [], "the train split of data=given_samples is empty"),
        (PairFormat(), [("a", "b"), ("c", "")], "row 1 of the train split .*: its target is empty"),
        (TagFormat(), [((), ())], "row 0 of the train split .* has no words"),
        (TagFormat(), [(("a", "b"), ("O",))], "row 0 of the train split .* has 2 words and 1 tags"),
        (TagFormat(), [(("a", " "), ("O", "O"))], "row 0 of the train split .*: its word is empty"),
        (TagFormat(), [(("a", "b"), ("0", "1"))], "tags are numbers .*data.class_names=\\[O,B-PER,I-PER\\]"),
        (TagFormat(["O", "B-X"]), [(("a",), (7,))], "row 0 of the train split .* has tag 7, .* from 0 to 1"),
        (QuestionFormat(), [Question("q", "a b", "c")], "its answer 'c' is not in its context: answers must be parts"),
        (QuestionFormat(), [Question("q", "a b", "b", 1)], "its answer 'b' is not in its context at character 1"),
        (QuestionFormat(), [Question("", "a b", "b")], "row 0 of the train split .*: its question is empty"),
    ],
)
def test_what_cannot_be_a_row_is_named_with_its_row(form: Any, samples: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        GivenSamples(form, samples).prepare()


@pytest.mark.parametrize(
    ("form", "train", "held"),
    [
        (ClassFormat(), [("x", "good"), ("y", "bad")], [("z", "ugly")]),
        (TagFormat(), [(("x",), ("good",)), (("y",), ("bad",))], [(("z",), ("ugly",))]),
    ],
)
def test_label_that_training_does_not_have_is_refused_in_validation(form: Any, train: Any, held: Any) -> None:
    message = refusal(GivenSamples(form, train, validation=held))
    assert (
        "row 0 of the validation split" in message
        and "'ugly', which the train split does not have (bad, good)" in message
    )


# Tags.

SENTENCES = [
    (("Zoë", "lives", "in", "New", "York", "."), ("B-PER", "O", "O", "B-LOC", "I-LOC", "O")),
    (("Rome", "!"), ("B-LOC", "O")),
]


@every_tokenizer
def test_first_piece_of_each_word_has_its_tag_and_nothing_else_has(tokenizer: TokenizerName) -> None:
    source = GivenSamples(TagFormat(), SENTENCES, tokenizer=tokenizer)
    batch, names = batch_of(source), source.spec().class_names
    assert batch.tokens is not None and batch.targets is not None
    for tokens, targets, (words, tags) in zip(batch.tokens, batch.targets, SENTENCES, strict=True):
        tagged = (targets != IGNORED).nonzero().flatten().tolist()
        assert [names[targets[index]] for index in tagged] == list(tags)
        for index, word in zip(tagged, words, strict=True):
            assert source.decode(tokens[index:].tolist()).strip().startswith(word)
            assert source.decode(tokens[index : index + 1].tolist()).strip()
        assert source.decode(tokens.tolist()) == " ".join(words)


def test_words_of_which_a_tokenizer_leaves_nothing_keep_their_tags() -> None:
    """Lone variation selectors occur in the rows of WNUT-17."""
    sentences = [(("in", "\ufe0f", "Rome"), ("O", "O", "B-LOC")), (("by", "\ufe0f"), ("O", "B-PER"))]
    source = GivenSamples(TagFormat(), sentences, tokenizer="wordpiece")
    batch, names = batch_of(source), source.spec().class_names
    assert batch.targets is not None
    result = [[names[tag] for tag in row if tag != IGNORED] for row in batch.targets.tolist()]
    assert result == [["O", "O", "B-LOC"], ["O", "B-PER"]]


def test_tags_come_with_o_first_and_entity_by_entity() -> None:
    assert GivenSamples(TagFormat(), SENTENCES).spec().class_names == ("O", "B-LOC", "I-LOC", "B-PER")


def test_tags_are_counted_by_word() -> None:
    shares = GivenSamples(TagFormat(), SENTENCES, tokenizer="byte").spec().class_shares
    assert np.allclose(shares, [4 / 8, 2 / 8, 1 / 8, 1 / 8])


def test_words_of_entities_are_described_with_their_tags() -> None:
    source = GivenSamples(TagFormat(), SENTENCES)
    assert [sample["tags"] for sample in source.describe(batch_of(source))] == [
        "Zoë/B-PER lives in New/B-LOC York/I-LOC .",
        "Rome/B-LOC !",
    ]


def test_long_sentences_are_cut_with_their_tags() -> None:
    batch = batch_of(GivenSamples(TagFormat(max_length=12), SENTENCES))
    assert batch.tokens is not None and batch.targets is not None and batch.tokens.shape == (2, 12)
    assert (batch.targets[0] != IGNORED).sum() == 2 and batch.targets[0, -1] == IGNORED


@every_tokenizer
@pytest.mark.parametrize("max_length", [None, 8, 9, 12, 24, 100])
def test_tags_of_the_words_that_were_cut_off_are_kept_beside_the_row(
    tokenizer: TokenizerName, max_length: int | None
) -> None:
    source = GivenSamples(TagFormat(max_length=max_length), SENTENCES, tokenizer=tokenizer)
    batch, names = batch_of(source), source.spec().class_names
    assert batch.targets is not None
    for row, (_, tags) in enumerate(SENTENCES):
        lost = [] if batch.lost_tags is None else batch.lost_tags[row].tolist()
        result = [names[tag] for tag in (*batch.targets[row].tolist(), *lost) if tag != IGNORED]
        assert result == list(tags)
    assert (batch.lost_tags is None) == (int((batch.targets != IGNORED).sum()) == 8)


# Questions.

QUESTIONS = [
    Question("who?", "Zoë met Ann, and Ann met Zoë.", "Ann"),
    Question("who last?", "Zoë met Ann, and Ann met Zoë.", "Zoë", 25),
    Question("what?", "ab", "ab"),
]


@every_tokenizer
def test_span_holds_the_answer_at_its_position(tokenizer: TokenizerName) -> None:
    source = GivenSamples(QuestionFormat(), QUESTIONS, tokenizer=tokenizer)
    batch = batch_of(source)
    assert batch.tokens is not None and batch.targets is not None and batch.token_types is not None
    for tokens, types, (start, end), options in zip(
        batch.tokens, batch.token_types, batch.targets.tolist(), QUESTIONS, strict=True
    ):
        context = int((tokens == EOS).nonzero()[0]) + 1
        before = source.decode(tokens[context:start].tolist())
        answer = source.decode(tokens[start : end + 1].tolist())
        assert answer.strip() == options.answer and types[start : end + 1].tolist() == [1] * (end + 1 - start)
        assert (before + answer).rstrip().endswith(options.answer) and options.context.startswith(before + answer)
        assert len((before + answer).rstrip()) == len(options.answer) + (
            options.context.find(options.answer) if options.start is None else options.start
        )


def test_answer_that_ends_within_a_token_takes_the_whole_token() -> None:
    source = GivenSamples(QuestionFormat(), [Question("who?", "lower lower lower lower", "low", 6)], tokenizer="bpe")
    batch = batch_of(source)
    assert batch.targets is not None and source.describe(batch)[0]["answer"].startswith("low")


def test_questions_are_described_in_three_parts() -> None:
    source = GivenSamples(QuestionFormat(), QUESTIONS)
    assert source.describe(batch_of(source))[1] == {
        "row": 1,
        "question": "who last?",
        "context": "Zoë met Ann, and Ann met Zoë.",
        "answer": "Zoë",
    }


def test_stride_needs_rows_that_end() -> None:
    with pytest.raises(DataError, match=r"data\.stride=4 .* give data\.max_length too"):
        QuestionFormat(stride=4)
    with pytest.raises(DataError, match=r"data\.stride=0 must be at least 1"):
        QuestionFormat(max_length=24, stride=0)


@pytest.mark.parametrize(
    ("form", "samples"), [(ClassFormat(), PAIRS), (TagFormat(), SENTENCES), (QuestionFormat(), QUESTIONS)]
)
def test_batches_of_like_length_can_be_switched_off(form: Any, samples: list[Any]) -> None:
    lengths = GivenSamples(form, samples).split("train").lengths()
    batch = batch_of(GivenSamples(form, samples))
    assert lengths is not None and batch.valid is not None and lengths.tolist() == batch.valid.sum(1).tolist()
    assert GivenSamples(form, samples, bucket_by_length=False).split("train").lengths() is None


def test_tokenizer_is_trained_once_and_then_read(monkeypatch: pytest.MonkeyPatch) -> None:
    first = GivenSamples(ClassFormat(), PAIRS, tokenizer="bpe").tokenizer
    monkeypatch.setattr(text_source, "trained_tokenizer", None)
    assert GivenSamples(ClassFormat(), PAIRS, tokenizer="bpe").tokenizer == first


# How much of the texts is read.

REPORTED = ["it rained", "it rained all day", "no", "yes , it did rain", "dry"]


def tagged_words(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(text.split()), ("O",) * len(text.split())


@pytest.mark.parametrize(
    ("make", "samples", "lengths"),
    [
        (ClassFormat, [(text, "a") for text in REPORTED], [len(text) + 2 for text in REPORTED]),
        (ClassFormat, [(text, "so", "a") for text in REPORTED], [len(text) + 5 for text in REPORTED]),
        (ScoreFormat, [(text, 0.5) for text in REPORTED], [len(text) + 2 for text in REPORTED]),
        (PairFormat, [("so", text) for text in REPORTED], [len(text) + 2 for text in REPORTED]),
        (
            TagFormat,
            [tagged_words(text) for text in REPORTED],
            [text.rindex(" ") + 2 + 2 if " " in text else 5 for text in REPORTED],
        ),
    ],
)
def test_share_of_rows_that_are_cut_is_reported(make: Any, samples: list[Any], lengths: list[int]) -> None:
    """The `lengths` of untruncated rows are in letters; those of tagged words up to where the last one begins."""
    for max_length in (8, 12, 19, 40):
        source = GivenSamples(make(max_length=max_length), samples, validation=samples[:1])
        message = source.reading()
        assert message["max_length"] == max_length
        assert message["cut_share"]["train"] == sum(length > max_length for length in lengths) / len(lengths)
        assert message["cut_share"]["validation"] == float(lengths[0] > max_length)
    assert "cut_share" not in GivenSamples(make(), samples).reading()
