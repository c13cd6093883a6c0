"""The model sees what the task makes of the data, token by token, and counted over splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from fresh_runs import ROWS, SMALL
from headtohead.config.build import build_task
from headtohead.config.compose.composition import compose_checked
from headtohead.config.origins.from_weights import build_data
from headtohead.data.batches.batch import IGNORED
from headtohead.data.batches.row_order import order_of
from headtohead.data.data_source import DataSource
from headtohead.data.splits.sample_splits import fewer_rows
from headtohead.finished_runs.probe.data_page import data_as_dict, data_content, edges_of, show_data
from headtohead.finished_runs.probe.data_seen import ProbedData, TokenSeen, see
from headtohead.finished_runs.probe.probe_files import write_data
from headtohead.tasks.prompt_templates import drawn_examples, texts_of
from headtohead.tasks.task import Task
from headtohead.training.loop.seeds import seeds_of

ENCODER = "model=encoder_only"
CHOICES = {
    "language": ["data.context_length=24"],
    "masked": [ENCODER, "task=masked_lm", "data.context_length=24"],
    "pairs": ["model=encoder_decoder", "task=seq2seq", "data=number_words"],
    "labels": [ENCODER, "task=classification", "data=sentence_grammar"],
    "label pairs": [ENCODER, "task=classification", "data=pair_grammar"],
    "next sentence": [ENCODER, "task=masked_lm_next_sentence", "data=pair_grammar", "data.relation=next"],
    "tags": [ENCODER, "task=tagging", "data=tagging_grammar"],
    "questions": [ENCODER, "task=span_qa", "data=qa_grammar"],
    "answers": ["data=associative_recall", "data.length=16", "data.num_pairs=2"],
    "prompts": ["task=multiple_choice", "task.shots=4", "data=sentence_grammar", "data.tokenizer=byte"],
    "copies": ["data=copy"],
    "images": ["model=vision_transformer", "task=image_classification", "data=digits", "data.num_train=60"],
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def parts(name: str) -> tuple[DataSource, Task, Mapping[str, Any]]:
    sizes = [] if name == "images" else ROWS
    config = compose_checked("train", [*SMALL, *sizes, *CHOICES[name]])
    data = build_data(config)
    return data, build_task(config, data.spec()), config


def tokens(seen: ProbedData) -> list[TokenSeen]:
    return [token for sample in seen.samples for side in sample.sides.values() for token in side]


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", CHOICES)
def test_every_kind_of_data_can_be_seen(name: str, tmp_path: Path) -> None:
    data, task, config = parts(name)
    seen = see(data, task, 0)
    split = data.split("train")
    assert [own.rows for own in seen.splits] == [len(data.split(own.name)) for own in seen.splits]
    assert seen.splits[0].looked_at <= len(split) and seen.splits[2].looked_at == len(data.split("test"))
    files = write_data(seen, config, tmp_path)
    assert files[-1].name == "data.html" and all(file.stat().st_size > 500 for file in files)
    assert data_content(seen, config)["samples"] and data_as_dict(seen)["splits"] and show_data(seen)


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("lacking", range(3))
def test_lengths_that_a_split_does_not_have_are_left_out_of_its_part(lacking: int, tmp_path: Path) -> None:
    data, task, config = parts("language")
    seen = see(data, task, 0)
    of_documents = "tokens of a document within a row"
    assert all(of_documents in split.lengths for split in seen.splits)
    splits = list(seen.splits)
    remaining = {what: own for what, own in splits[lacking].lengths.items() if what != of_documents}
    splits[lacking] = replace(splits[lacking], lengths=remaining)
    seen = replace(seen, splits=tuple(splits))
    assert all(file.stat().st_size > 500 for file in write_data(seen, config, tmp_path))
    shown = [split["lengths"].keys() for split in data_content(seen, config)["splits"]]
    assert [of_documents in own for own in shown] == [number != lacking for number in range(3)]
    assert data_as_dict(seen)["splits"] and show_data(seen)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", [name for name in CHOICES if name != "images"])
def test_tokens_and_targets_are_those_of_the_batch(name: str) -> None:
    data, task, _ = parts(name)
    seen = see(data, task, 0, split="test", rows=[1, 4])
    batch = task.view(data.split("test").batch(np.array([1, 4])), seed=0, epoch=0)
    assert batch.tokens is not None and batch.targets is not None
    for position, sample in enumerate(seen.samples):
        assert len(sample.sides["tokens"]) == batch.tokens.shape[1]
        if batch.valid is not None:
            assert [not token.padding for token in sample.sides["tokens"]] == batch.valid[position].tolist()
        scored = [token.target is not None for token in list(sample.sides.values())[-1]]
        if batch.targets.dim() == 2 and task.head != "span":
            assert scored == (batch.targets[position] != IGNORED).tolist()
        else:
            assert not any(scored)


@pytest.mark.usefixtures("cache")
def test_masking_is_told_apart_as_the_paper_does_it() -> None:
    data, task, _ = parts("masked")
    seen = see(data, task, 0, rows=range(40))
    chosen = [token for token in tokens(seen) if token.change is not None]
    assert all(token.target is not None for token in chosen)
    assert {token.text for token in chosen if token.change == "masked"} == {"<mask>"}
    assert all(token.text == token.target for token in chosen if token.change == "kept")
    assert all(token.text != token.target for token in chosen if token.change == "replaced")
    shares = {how: np.mean([token.change == how for token in chosen]) for how in ("masked", "replaced", "kept")}
    assert shares["masked"] == pytest.approx(0.8, abs=0.1) and shares["replaced"] == pytest.approx(0.1, abs=0.08)
    scored = seen.splits[0].scored
    assert scored is not None and scored == pytest.approx(0.15, abs=0.03)


@pytest.mark.usefixtures("cache")
def test_borders_of_packed_documents_are_where_positions_start_again() -> None:
    data, task, _ = parts("language")
    [sample] = see(data, task, 0, rows=[7]).samples
    batch = data.split("train").batch(np.array([7]))
    assert batch.positions is not None
    documents = [token.document for token in sample.sides["tokens"]]
    borders = [position for position in range(1, len(documents)) if documents[position] != documents[position - 1]]
    assert borders == (batch.positions[0, 1:-1] == 0).nonzero().flatten().add(1).tolist()


@pytest.mark.usefixtures("cache")
def test_answer_of_a_question_is_marked_and_sentences_are_told_apart() -> None:
    data, task, _ = parts("questions")
    [sample] = see(data, task, 0, rows=[0]).samples
    batch = data.split("train").batch(np.array([0]))
    assert batch.targets is not None
    first, last = batch.targets[0].tolist()
    row = sample.sides["tokens"]
    assert [position for position, token in enumerate(row) if token.answer] == list(range(first, last + 1))
    assert all(token.sentence == 1 for token in row if token.answer) and row[0].sentence == 0


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["labels", "tags", "images", "label pairs"])
def test_class_shares_of_the_train_split_are_the_datas_own(name: str) -> None:
    """All rows count, since the batch size leaves none over."""
    data, task, _ = parts(name)
    data.batch_size = 10
    seen = see(data, task, 0)
    train = seen.splits[0]
    assert train.classes is not None and train.looked_at == train.rows
    if data.spec().class_shares:
        assert (train.classes / train.classes.sum()).tolist() == pytest.approx(data.spec().class_shares)


@pytest.mark.usefixtures("cache")
def test_lengths_and_padding_are_those_of_the_batches_read() -> None:
    data, task, _ = parts("pairs")
    test = see(data, task, 0).splits[2]
    batch = data.split("test").batch(np.arange(8))
    assert batch.valid is not None and batch.decoder_valid is not None
    assert test.lengths["tokens of a row"].tolist() == batch.valid.sum(1).tolist()
    assert test.lengths["tokens of a target"].tolist() == batch.decoder_valid.sum(1).tolist()
    positions = torch.cat((batch.valid, batch.decoder_valid), dim=1)
    assert test.padding == pytest.approx(1 - positions.float().mean().item())


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("name", "sign"), [("masked", "<mask>["), ("tags", "/B-"), ("language", " ¶ ")])
def test_terminal_shows_masks_tags_and_borders(name: str, sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    data, task, _ = parts(name)
    Console(width=200).print(show_data(see(data, task, 0)))
    assert sign in capsys.readouterr().out


@pytest.mark.usefixtures("cache")
def test_of_fewer_rows_to_learn_from_those_are_seen_in_the_order_of_training() -> None:
    data, task, _ = parts("language")
    seed = seeds_of(3).data_order
    learned = fewer_rows(data.split("train"), 6, seed)
    order = order_of(learned, batch_size=data.batch_size, seed=seed)
    seen = see(data, task, 3, train_rows=6)
    assert [sample.row for sample in seen.samples] == learned.batch(order.step(0)[1]).rows.tolist()
    assert seen.splits[0].name == "train" and seen.splits[0].rows == 6
    assert see(data, task, 3).splits[0].rows == len(data.split("train")) > 6


@pytest.mark.usefixtures("cache")
def test_no_row_that_is_learned_from_is_seen_as_an_example_to_itself() -> None:
    data, task, _ = parts("prompts")
    shown = [example.row for example in drawn_examples(task.spec, 4, 0).shown]
    seen = see(data, task, 0, rows=shown)
    batch = data.split("train").batch(np.array(shown))
    for sample, (text,) in zip(seen.samples, texts_of(batch, task.spec), strict=True):
        prompt = "".join(token.text for token in sample.sides["tokens"] if not token.special)
        assert prompt.count(text.replace(" ", "␣")) == 1, prompt


@pytest.mark.parametrize(("low", "high"), [(1, 128), (3, 3), (2, 61), (5, 1000)])
def test_bars_over_lengths_begin_and_end_with_what_is_there(low: int, high: int) -> None:
    edges = edges_of([np.array([low, high]), np.array([high])])
    assert (edges[0], edges[-1]) == (low, high + 1) and (np.diff(edges) > 0).all()
    assert np.histogram([low, high], edges)[0].sum() == 2
