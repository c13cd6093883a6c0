"""Entities against a plain writing of conlleval, over every short sequence of tags; metrics over ragged batches."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.bio_entities import Scheme, rates
from headtohead.tasks.tagging import Tagging
from small_batches import TAG_NAMES, TAGS, decode, head, language_batch, tagged_batch, tail
from small_models import redraw, small_model

Chunk = tuple[str, int, int]
"""Type, first and last place."""


def chunks(tags: list[str]) -> list[Chunk]:
    """Find chunks by the rules of CoNLL-2000's conlleval.txt for where a chunk ends and where one starts, tag by
    tag."""
    result, begin = [], 0
    before_tag, before_type = "O", ""
    for index, tag in enumerate([*tags, "O"]):
        now, _, type_ = tag.partition("-")
        ends = (
            (before_tag == "B" and now in "BO")
            or (before_tag == "I" and now in "BO")
            or (before_tag != "O" and before_type != type_)
        )
        starts = now == "B" or (now == "I" and before_tag == "O") or (now != "O" and before_type != type_)
        if ends and before_tag != "O":
            result.append((before_type, begin, index - 1))
        if starts:
            begin = index
        before_tag, before_type = now, type_
    return result


def plain_scores(truth: list[list[str]], message: list[list[str]]) -> dict[str, tuple[float, float, float]]:
    """Return precision, recall and F1 of each type and of all."""
    right, result, there = Counter[str](), Counter[str](), Counter[str]()
    for true_row, said_row in zip(truth, message, strict=True):
        true_chunks, said_chunks = chunks(true_row), chunks(said_row)
        for counter, these in (
            (there, true_chunks),
            (result, said_chunks),
            (right, set(true_chunks) & set(said_chunks)),
        ):
            counter.update(chunk[0] for chunk in these)
            counter.update("all" for _ in these)
    scores = {}
    for type_ in ("PER", "LOC", "all"):
        precision = right[type_] / result[type_] if result[type_] else 0.0
        recall = right[type_] / there[type_] if there[type_] else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        scores[type_] = (precision, recall, f1)
    return scores


def ours(scheme: Scheme, rows: list[list[int]]) -> list[list[Chunk]]:
    tags = torch.tensor(list(itertools.chain(*rows)))
    numbers = torch.tensor([number for number, row in enumerate(rows) for _ in row])
    entities = scheme.entities(tags, numbers)
    first_ones = np.cumsum([0, *map(len, rows)])
    result: list[list[Chunk]] = [[] for _ in rows]
    for index in entities.starts.nonzero().squeeze(1).tolist():
        row = int(numbers[index])
        last = int(entities.ends[index]) - 1 - first_ones[row]
        result[row].append((scheme.types[entities.types[index]], index - first_ones[row], last))
    return result


class TestEntities:
    def test_those_of_every_sequence_of_up_to_five_tags_are_conllevals(self) -> None:
        rows = [list(row) for length in range(1, 6) for row in itertools.product(range(5), repeat=length)]
        expected = [chunks([TAG_NAMES[tag] for tag in row]) for row in rows]
        assert ours(Scheme(TAG_NAMES), rows) == expected

    @pytest.mark.parametrize(
        ("tags", "expected"),
        [
            ("I-PER I-PER O", [("PER", 0, 1)]),  # inside without a beginning
            ("B-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),  # the type changes inside
            ("B-PER B-PER I-PER", [("PER", 0, 0), ("PER", 1, 2)]),  # two entities side by side
            ("I-PER B-PER", [("PER", 0, 0), ("PER", 1, 1)]),
            ("O O", []),
        ],
    )
    def test_what_is_read_into_tags_that_are_not_well_formed(self, tags: str, expected: list[Chunk]) -> None:
        assert chunks(tags.split()) == expected, "the plain writing agrees"
        assert ours(Scheme(TAG_NAMES), [[TAG_NAMES.index(tag) for tag in tags.split()]]) == [expected]

    def test_none_reaches_over_the_end_of_a_row(self) -> None:
        assert ours(Scheme(TAG_NAMES), [[1, 2], [2, 0], [2]]) == [[("PER", 0, 1)], [("PER", 0, 0)], [("PER", 0, 0)]]

    def test_rates_of_nothing_are_zero(self) -> None:
        assert rates(0, 0, 0) == rates(0, 3, 0) == rates(0, 0, 3) == (0.0, 0.0, 0.0)
        assert rates(2, 4, 3) == pytest.approx((0.5, 2 / 3, 4 / 7))

    @pytest.mark.parametrize("names", [("O", "B-PER", "PER"), ("O", "b-PER"), ("NOUN", "VERB"), ("O", "B-"), ()])
    def test_tags_that_mark_no_entities_are_refused_by_name(self, names: tuple[str, ...]) -> None:
        with pytest.raises(ValueError, match="name them O, B-TYPE and I-TYPE"):
            Tagging().bind(replace(TAGS, class_names=names))


def case(family: str) -> tuple[Tagging, Architecture, Batch]:
    model = redraw(small_model(family, head="tagger", num_classes=5).double(), std=0.5).eval()
    batch = tagged_batch(40)
    with torch.no_grad():
        # A random model says nearly the same of all tokens: what they have in common is taken out.
        model.head.linear.bias -= model(**batch.inputs())[batch.valid].mean(0)
    task = Tagging().bind(TAGS)
    assert isinstance(task, Tagging)
    return task, model, half_right(model, batch)


def half_right(model: Architecture, batch: Batch) -> Batch:
    """Replace every other row's tags by the model's predictions."""
    with torch.no_grad():
        predicted = model(**batch.inputs()).argmax(-1)
    even = (torch.arange(batch.num_samples) % 2 == 0)[:, None]
    return replace(batch, targets=torch.where(even & (batch.targets != IGNORED), predicted, batch.targets))


def names_of(tags: Tensor, saved: Tensor) -> list[list[str]]:
    return [[TAG_NAMES[tag] for tag in row[here].tolist()] for row, here in zip(tags, saved, strict=True)]


@pytest.mark.parametrize("family", ["encoder_only", "decoder_only"])
def test_metrics_and_table_equal_a_plain_conlleval_over_ragged_batches(family: str) -> None:
    task, model, batch = case(family)
    task.measure("test", model, head(batch, 23))
    task.measure("test", model, tail(batch, 23))
    results = task.results("test")
    with torch.no_grad():
        probabilities = model(**batch.inputs()).softmax(-1)
    saved = batch.targets != IGNORED
    predicted, truth = names_of(probabilities.argmax(-1), saved), names_of(batch.targets, saved)
    expected = plain_scores(truth, predicted)
    assert 0.1 < expected["all"][2] < 0.9, "a model that is always right or wrong would test little"
    flat = batch.targets[saved].numpy()
    assert results == pytest.approx(
        {
            "loss": log_loss(flat, probabilities[saved].numpy(), labels=range(5)),
            "token_accuracy": accuracy_score(flat, probabilities[saved].argmax(-1).numpy()),
            **dict(zip(("entity_precision", "entity_recall", "entity_f1"), expected["all"], strict=True)),
        },
        abs=1e-9,
    )
    assert set(results) == {metric.name for metric in task.metrics} == set(task.baseline(TAGS))
    table = task.tables("test")["entities"]
    assert table.columns[:4] == ("type", "precision", "recall", "f1")
    for name, *figures in table.rows:
        assert tuple(figures[:3]) == pytest.approx(expected[name], abs=1e-12)
        count = sum(chunk[0] == name for row in truth for chunk in chunks(row))
        assert figures[3:] == [count, sum(chunk[0] == name for row in predicted for chunk in chunks(row))]


def test_a_words_further_pieces_neither_count_nor_part_an_entity() -> None:
    task, model, batch = case("encoder_only")
    expected = [[TAG_NAMES[tag] for tag in row[row != IGNORED].tolist()] for row in batch.targets]
    assert any(IGNORED in row[1 : len(names)].tolist() for row, names in zip(batch.targets, expected, strict=True))
    task.measure("test", model, batch)
    task.results("test")
    there = sum(int(row[4]) for row in task.tables("test")["entities"].rows)
    assert there == sum(len(chunks(names)) for names in expected)


@pytest.mark.parametrize("family", ["encoder_only", "decoder_only"])
def test_words_that_were_cut_off_count_as_missed(family: str) -> None:
    """They count as if O had been predicted, in the entities and in the share of right tags."""
    task, model, whole = case(family)
    generator = torch.Generator().manual_seed(5)
    lost = torch.randint(0, 5, (40, 4), generator=generator)
    lost = lost.masked_fill(torch.arange(4) >= torch.randint(0, 5, (40, 1), generator=generator), IGNORED)
    batch = replace(whole, lost_tags=lost)
    task.measure("test", model, head(batch, 23))
    task.measure("test", model, tail(batch, 23))
    results = task.results("test")
    with torch.no_grad():
        predicted = model(**whole.inputs()).argmax(-1)
    saved = whole.targets != IGNORED
    truth, guessed = names_of(whole.targets, saved), names_of(predicted, saved)
    right = int((predicted == whole.targets)[saved].sum())
    for row in range(40):
        beyond = [TAG_NAMES[tag] for tag in lost[row].tolist() if tag != IGNORED]
        truth[row] += beyond
        guessed[row] += ["O"] * len(beyond)
    expected = plain_scores(truth, guessed)
    result = tuple(results[f"entity_{name}"] for name in ("precision", "recall", "f1"))
    assert result == pytest.approx(expected["all"], abs=1e-12)
    assert results["token_accuracy"] == pytest.approx(right / sum(map(len, truth)))
    for name, *figures in task.tables("test")["entities"].rows:
        assert tuple(figures[:3]) == pytest.approx(expected[name], abs=1e-12)
    task.measure("test", model, whole)
    uncut = task.results("test")
    assert uncut["loss"] == pytest.approx(results["loss"]) and uncut["entity_recall"] > results["entity_recall"]


def test_training_loss_is_plain_cross_entropy_of_the_words_and_smoothing_acts_in_training_only() -> None:
    task, model, batch = case("encoder_only")
    task.label_smoothing = 0.2
    logits, tags = model(**batch.inputs()).flatten(0, 1), batch.targets.flatten()
    loss = task.loss(model, batch)
    assert loss.count == (tags != IGNORED).sum()
    assert abs(loss.mean - torch.nn.functional.cross_entropy(logits, tags)) < 1e-12
    model.train()
    smooth = torch.nn.functional.cross_entropy(logits, tags, label_smoothing=0.2)
    assert abs(task.loss(model, batch).mean - smooth) < 1e-12


def test_the_baseline_is_the_most_frequent_tag_everywhere() -> None:
    baseline = Tagging().baseline(TAGS)
    assert baseline["token_accuracy"] == 0.5 and baseline["entity_f1"] == 0.0
    assert baseline["loss"] == pytest.approx(-sum(share * np.log(share) for share in TAGS.class_shares))
    assert Tagging().baseline(replace(TAGS, class_shares=()))["token_accuracy"] == 0.2


def test_samples_show_words_with_their_tags() -> None:
    task, model, _ = case("encoder_only")
    tokens, tags = torch.tensor([[1, 9, 10, 13, 14, 2]]), torch.tensor([[-100, 1, -100, 0, 4, -100]])
    one = Batch(rows=torch.zeros(1, dtype=torch.long), tokens=tokens, targets=tags)
    (sample,) = task.samples(model, one, decode)
    assert sample["truth"] == "cat Cat,/B-PER on mat/I-LOC"
    with torch.no_grad():
        predicted = [TAG_NAMES[tag] for tag in model(tokens)[0, [1, 3, 4]].argmax(-1).tolist()]
    words = ("cat Cat,", "on", "mat")
    expected = [word if tag == "O" else f"{word}/{tag}" for word, tag in zip(words, predicted, strict=True)]
    assert sample["predicted"] == " ".join(expected)
    wordless = replace(one, targets=torch.full_like(tags, IGNORED))
    assert task.samples(model, wordless, decode) == [{"truth": "", "predicted": ""}]


def test_data_of_a_single_tag_teach_nothing_and_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 tag \(O\): tagging needs at least 2; give rows with another, or"):
        Tagging().bind(DataSpec(kind="tagged_text", num_classes=1, class_names=("O",)))


def test_data_without_tags_or_a_head_that_makes_none_is_refused() -> None:
    task = Tagging().bind(TAGS)
    with pytest.raises(ValueError, match="task=tagging reads a tag for every token: choose data of kind tagged_text"):
        task.view(language_batch(), seed=0, epoch=0)
    with pytest.raises(ValueError, match="head=MaskedLanguageModel makes no tags"):
        task.loss(small_model("encoder_only"), tagged_batch())
    with pytest.raises(ValueError, match=r"task\.monitor='f1'.*entity_f1"):
        Tagging(monitor="f1")
    assert task.tables("test") == {}, "nothing is measured yet"


def test_an_untrained_model_is_near_the_loss_of_tags_alike() -> None:
    spec = DataSpec(kind="tagged_text", num_classes=5, class_names=TAG_NAMES)
    task = Tagging().bind(spec)
    loss = task.loss(small_model("encoder_only", head="tagger", num_classes=5), tagged_batch(40)).mean.item()
    assert abs(loss - task.baseline(spec)["loss"]) < 0.2
