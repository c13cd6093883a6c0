"""Samples of the tasks that write or restore text show what the model does, and use no random generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import sacrebleu
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification
from headtohead.tasks.generated_text import LONGEST, until
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.similarity import Similarity
from headtohead.tasks.span_qa import SpanQuestionAnswering
from headtohead.tasks.tagging import Tagging
from headtohead.tasks.task import Task
from small_batches import (
    LANGUAGE,
    NEXT,
    PAIRS,
    QUESTIONS,
    SCORES,
    TAGS,
    decode,
    language_batch,
    pair_batch,
    question_batch,
    scored_batch,
    sentence_pair_batch,
    tagged_batch,
)
from small_models import exact_model

CASES: dict[str, tuple[Callable[[], Task], str, DataSpec, Callable[[], Batch]]] = {
    "causal": (CausalLanguageModelling, "decoder_only", LANGUAGE, language_batch),
    "masked": (MaskedLanguageModelling, "encoder_only", LANGUAGE, language_batch),
    "pairs": (MaskedLanguageModellingWithNextSentence, "encoder_only", NEXT, sentence_pair_batch),
    "seq2seq": (SequenceToSequence, "encoder_decoder", PAIRS, pair_batch),
    "tags": (Tagging, "encoder_only", TAGS, tagged_batch),
    "questions": (SpanQuestionAnswering, "decoder_only", QUESTIONS, question_batch),
    "scores": (Similarity, "decoder_only", SCORES, scored_batch),
    "labels": (Classification, "decoder_only", NEXT, sentence_pair_batch),
}


def made(name: str) -> tuple[Task, Architecture, Batch]:
    make, family, spec, batch = CASES[name]
    task = make().bind(spec)
    own = {} if family == "encoder_decoder" else {"num_classes": spec.num_classes}
    return task, exact_model(family, head=task.head, **own).eval(), task.view(batch(), seed=0, epoch=0)


@pytest.mark.parametrize("name", CASES)
def test_every_row_has_a_sample_of_texts_and_no_generator_is_touched(name: str) -> None:
    task, model, batch = made(name)
    before = torch.get_rng_state()
    samples = task.samples(model, batch, decode)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(samples) == batch.num_samples
    assert len({tuple(sample) for sample in samples}) == 1, "one set of columns"
    assert all(isinstance(text, str) for sample in samples for text in sample.values())
    assert task.samples(model, batch, decode) == samples


def ids(tokens: object) -> str:
    return " ".join(map(str, tokens))  # type: ignore[call-overload]


def continued(model: Architecture, prompt: list[int], length: int) -> list[int]:
    """Continue the prompt, reading the whole prefix again for each token."""
    text = list(prompt)
    while len(text) < len(prompt) + length:
        with torch.no_grad():
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
        if text[-1] == LANGUAGE.eos_id:
            break
    return text[len(prompt) :]


def test_a_text_is_continued_from_its_first_half_as_if_it_stood_alone() -> None:
    task, model, batch = made("causal")
    for row, sample in enumerate(task.samples(model, batch, ids)):
        document = batch.tokens[row][batch.valid[row]].tolist()
        half = (len(document) + 1) // 2
        assert sample["prompt"] == ids(document[:half])
        assert sample["truth"] == ids(document[half:])
        assert sample["written"] == ids(continued(model, document[:half], len(document) - half))


def test_of_a_packed_row_the_longest_document_is_continued() -> None:
    task, model, _ = made("causal")
    tokens = torch.tensor([[1, 7, 8, 2, 1, 10, 11, 12, 13, 2, 1, 9]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2]])
    batch = Batch(rows=torch.zeros(1, dtype=torch.long), tokens=tokens, segments=segments)
    (sample,) = task.samples(model, batch, ids)
    assert (sample["prompt"], sample["truth"]) == ("1 10 11", "12 13 2")
    assert sample["written"] == ids(continued(model, [1, 10, 11], 3))


def test_little_of_a_long_text_is_written() -> None:
    task, model, _ = made("causal")
    tokens = torch.randint(5, 29, (1, 6 * LONGEST), generator=torch.Generator().manual_seed(0))
    (sample,) = task.samples(model, Batch(rows=torch.zeros(1, dtype=torch.long), tokens=tokens), ids)
    assert len(sample["truth"].split()) == LONGEST >= len(sample["written"].split())


def test_nothing_is_shown_behind_the_end_of_a_text() -> None:
    assert until([7, 2, 2, 2], 2) == [7, 2] and until([7, 8], 2) == [7, 8] and until([], 2) == []


def test_hidden_tokens_are_shown_as_read_as_filled_and_as_they_were() -> None:
    task, model, batch = made("masked")
    original = language_batch()
    chosen = batch.targets != IGNORED
    with torch.no_grad():
        filled = torch.where(chosen, model(**batch.inputs()).argmax(-1), batch.tokens)
    assert chosen.any()
    for row, sample in enumerate(task.samples(model, batch, ids)):
        real = batch.valid[row]
        assert sample["read"] == ids(batch.tokens[row][real].tolist())
        assert sample["truth"] == ids(original.tokens[row][real].tolist())
        assert sample["filled"] == ids(filled[row][real].tolist())


def test_targets_are_shown_beside_what_is_written_without_them() -> None:
    task, model, batch = made("seq2seq")
    misled = replace(batch, decoder_tokens=torch.full_like(batch.decoder_tokens, 9))
    samples = task.samples(model, batch, ids)
    assert [s["written"] for s in samples] == [s["written"] for s in task.samples(model, misled, ids)]
    for row, sample in enumerate(samples):
        assert sample["source"] == ids(batch.tokens[row][batch.valid[row]].tolist())
        assert sample["truth"] == ids(batch.targets[row][batch.targets[row] != IGNORED].tolist())


def test_beside_what_is_written_stands_how_good_it_is() -> None:
    """The measures are per sentence; BLEU is a measure of many sentences."""
    task = SequenceToSequence(text_metrics=["bleu", "chrf"]).bind(replace(PAIRS, decode=decode))
    model = exact_model("encoder_decoder", head=task.head).eval()
    batch = task.view(pair_batch(), seed=0, epoch=0)
    written = task.written(model, batch)
    met = batch.targets.clone()
    room = min(met.shape[1], written.shape[1])
    met[0, :room] = written[0, :room]
    samples = task.samples(model, replace(batch, targets=met), decode)
    assert [*samples[0]] == ["source", "truth", "written", "chrf"]
    for sample, ids_written in zip(samples, written.tolist(), strict=True):
        text = decode([token for token in until(ids_written, PAIRS.eos_id) if token >= PAIRS.num_special_ids])
        expected = sacrebleu.sentence_chrf(text, [sample["truth"]]).score / 100
        assert float(sample["chrf"]) == pytest.approx(expected, abs=6e-4)
    assert float(samples[0]["chrf"]) > 0
