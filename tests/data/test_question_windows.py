"""Windows over long contexts: nothing is left out, each row fits, and every place is told as the context's own text."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from data.small_texts import GivenSamples
from headtohead.data.batches.batch import Batch
from headtohead.data.row_formats.questions import Question, QuestionFormat
from headtohead.data.tokenizers import EOS, TokenizerName

CONTEXT = "Zoë met Ann in Köln, Ann met Zoë in Rome; then “both” of them went home to naïve 東京 and stayed for good."
ANSWERS = ("Ann", "Zoë in Rome", "東京", "good.", None)
QUESTIONS = [Question(f"who or what {number}?", CONTEXT, answer) for number, answer in enumerate(ANSWERS)] + [
    Question("short?", "It is a cat.", "a cat", id="named", others=("cat", "a cat")),
]


def source_of(
    max_length: int | None,
    stride: int | None = None,
    tokenizer: TokenizerName = "bpe",
    samples: list[Question] = QUESTIONS,
) -> GivenSamples:
    return GivenSamples(QuestionFormat(max_length, stride), samples, tokenizer=tokenizer)


def batch_of(source: GivenSamples) -> Batch:
    split = source.split("train")
    return split.batch(np.arange(len(split)))


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize(("max_length", "stride"), [(None, None), (20, None), (24, 3), (24, 1000), (64, 24)])
def test_windows_fit_begin_a_stride_apart_and_leave_nothing_out(
    tokenizer: TokenizerName, max_length: int | None, stride: int | None
) -> None:
    source = source_of(max_length, stride, tokenizer)
    batch = batch_of(source)
    assert batch.questions is not None and batch.tokens is not None and batch.valid is not None
    begins: dict[int, list[int]] = {}
    texts: dict[int, list[tuple[int, int]]] = {}
    for options, tokens, valid in zip(batch.questions, batch.tokens, batch.valid, strict=True):
        length = int(valid.sum())
        assert (max_length is None or length <= max_length) and tokens[length - 1] == EOS
        assert len(options.edges) == length - 1 - options.first + 1 and tokens[options.first - 1] == EOS
        whole = source.tokenizer.encode([options.context])[0].tolist()
        window = tokens[options.first : length - 1].tolist()
        begin = (begins.get(options.number) or [0])[-1]
        while whole[begin : begin + len(window)] != window:
            begin += 1
        begins.setdefault(options.number, []).append(begin)
        texts.setdefault(options.number, []).append((begin, begin + len(window)))
        room = None if max_length is None else max_length - options.first - 1
        if len(begins[options.number]) > 1 and room is not None:
            apart = begins[options.number][-1] - begins[options.number][-2]
            assert apart == (room // 2 if stride is None else min(stride, room))
    for number, stretches in texts.items():
        whole = source.tokenizer.encode([QUESTIONS[number].context])[0]
        assert stretches[0][0] == 0 and stretches[-1][1] == len(whole)
        assert all(later[0] <= earlier[1] for earlier, later in pairwise(stretches))
        assert max_length is not None or len(stretches) == 1


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
@pytest.mark.parametrize("max_length", [None, 60])
def test_target_is_the_answer_where_a_window_holds_all_of_it_and_the_last_token_else(
    tokenizer: TokenizerName, max_length: int | None
) -> None:
    batch = batch_of(source_of(max_length, 5, tokenizer) if max_length else source_of(None, None, tokenizer))
    assert batch.questions is not None and batch.targets is not None and batch.valid is not None
    result = set()
    for options, (first, last), valid in zip(batch.questions, batch.targets.tolist(), batch.valid, strict=True):
        answer = QUESTIONS[options.number].answer
        end = int(valid.sum()) - 1
        begin, shown = int(options.edges[0]), options.context[int(options.edges[0]) : int(options.edges[-1])]
        index = -1 if answer is None else options.context.find(answer)
        is_whole = answer is not None and index >= begin and index + len(answer) <= begin + len(shown)
        if (first, last) == (end, end):
            # A token that holds the answer's first sign may begin before the window does.
            assert not is_whole or options.text(options.first, end - 1) != options.context
            assert not is_whole or index == begin or tokenizer == "byte"
        else:
            assert answer is not None and answer in options.text(first, last) and is_whole
            result.add(options.number)
    assert result == {number for number, question in enumerate(QUESTIONS) if question.answer is not None}


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_text_between_two_positions_is_the_contexts_own(tokenizer: TokenizerName) -> None:
    """Letters are whole even where a token is a byte: what several tokens share belongs to the first."""
    source = source_of(50, 9, tokenizer)
    batch = batch_of(source)
    assert batch.questions is not None and batch.valid is not None
    for options, valid in zip(batch.questions, batch.valid, strict=True):
        end = int(valid.sum()) - 1
        pieces = [options.context[a:b] for a, b in pairwise(options.edges)]
        assert "".join(pieces) == options.context[int(options.edges[0]) : int(options.edges[-1])]
        assert options.text(options.first, end - 1) == "".join(pieces).strip()
        for first in range(options.first, end, 5):
            assert options.text(first, first) == pieces[first - options.first].strip()


def test_ids_and_all_answers_come_with_each_window() -> None:
    batch = batch_of(source_of(24))
    assert batch.questions is not None
    assert [options.number for options in batch.questions] == sorted(options.number for options in batch.questions)
    assert len(batch.questions) > len(QUESTIONS) and {options.id for options in batch.questions} == {*"01234", "named"}
    assert batch.questions[-1].answers == ("a cat", "cat") and batch.questions[0].answers == ("Ann",)
    assert all(options.answers == () for options in batch.questions if options.number == 4)


def test_long_question_leaves_half_of_the_row_to_its_context() -> None:
    batch = batch_of(source_of(32, None, "char", [Question("why " * 40, CONTEXT, "Ann")]))
    assert batch.questions is not None and {options.first for options in batch.questions} == {(32 - 3) // 2 + 2}


def test_data_with_an_unanswerable_question_says_so_and_its_hash_knows_the_answers() -> None:
    answerable = source_of(40, samples=QUESTIONS[:1]).spec()
    assert source_of(40).spec().has_unanswerable and not answerable.has_unanswerable
    more = Question(QUESTIONS[0].question, CONTEXT, "Ann", others=("Anna",))
    assert source_of(40, samples=[more]).spec().data_hash != answerable.data_hash
