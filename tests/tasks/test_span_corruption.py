"""Span corruption: how much is hidden and where, rows that come back whole, and sentinels that a tokenizer has."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers

import headtohead as h2h
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataSpec
from headtohead.data.tokenizers.published_tokenizer import published_tokenizer
from headtohead.records.run_folder import RunFolder
from headtohead.tasks.corrupted_spans import Denoiser, draw_spans
from headtohead.tasks.span_corruption import UL2, SpanCorruption, SpanCorruptionInOneRow
from small_batches import LANGUAGE

LONG = replace(LANGUAGE, max_length=300)
SENTINELS = range(29, 129)
QUIET = (
    *("data.num_train=60", "data.num_validation=12", "data.num_test=12", "data.context_length=24"),
    *("data.tokenizer=char", "data.batch_size=4", "data.packing=stream", "model.d_model=16", "model.num_layers=1"),
    *("model.num_heads=2", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.accelerator=cpu"),
    *("trainer.threads=1", "tracking=none", "probe=none"),
)


def rows_of_random_length(num_rows: int, longest: int, *, seed: int, shortest: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(shortest, longest + 1, (num_rows,), generator=generator)
    tokens = torch.randint(5, 29, (num_rows, longest), generator=generator)
    valid = torch.arange(longest) < lengths[:, None]
    return Batch(rows=torch.arange(num_rows), tokens=tokens.masked_fill(~valid, 0), valid=valid)


def real(tokens: torch.Tensor | None, valid: torch.Tensor | None) -> list[list[int]]:
    assert tokens is not None and valid is not None
    return [row[mask].tolist() for row, mask in zip(tokens, valid, strict=True)]


def restored(source: list[int], target: list[int]) -> list[int]:
    """Put the spans back in place of their sentinels; both end with an end token."""
    assert source[-1] == target[-1] == LANGUAGE.eos_id
    spans: dict[int, list[int]] = {}
    sentinel = -1
    for token in target[:-1]:
        if token in SENTINELS:
            sentinel = token
            assert sentinel not in spans
            spans[sentinel] = []
        else:
            spans[sentinel].append(token)
    assert [token for token in source if token in SENTINELS] == list(spans) == list(SENTINELS[: len(spans)])
    assert all(spans.values())
    return [token for own in source[:-1] for token in spans.get(own, [own])]


@pytest.mark.parametrize("mixture", ["none", "ul2"])
@pytest.mark.parametrize("seed", range(5))
def test_putting_the_spans_back_gives_the_row(mixture: str, seed: int) -> None:
    batch = rows_of_random_length(40, 150, seed=seed)
    task = SpanCorruption(mixture=mixture).bind(LONG)  # type: ignore[arg-type]
    assert isinstance(task, SpanCorruption)
    view = task.view(batch, seed=seed, epoch=seed)
    assert view.targets is not None and view.decoder_tokens is not None and view.decoder_valid is not None
    targets = [[token for token in row if token != IGNORED] for row in view.targets.tolist()]
    sources = real(view.tokens, view.valid)
    if mixture == "ul2":
        assert {source[0] for source in sources} == set(task.modes.values())
        sources = [source[1:] for source in sources]
    for row, source, target in zip(real(batch.tokens, batch.valid), sources, targets, strict=True):
        assert restored(source, target) == row
    read = real(view.decoder_tokens, view.decoder_valid)
    assert read == [[LANGUAGE.bos_id, *target[:-1]] for target in targets]


@pytest.mark.parametrize(("density", "mean"), [(0.15, 3.0), (0.5, 8.0), (0.3, 1.0)])
def test_as_much_is_hidden_in_as_many_spans_as_published(density: float, mean: float) -> None:
    """The numbers of random_spans_noise_mask: rounded to even halves, at least one, at most all but one."""
    batch = rows_of_random_length(100, 200, seed=1, shortest=2)
    task = SpanCorruption(noise_density=density, mean_span_length=mean, num_sentinels=200).bind(LONG)
    view = task.view(batch, seed=0, epoch=0)
    assert view.targets is not None and batch.valid is not None
    for row, length in enumerate(batch.valid.sum(1).tolist()):
        hidden = min(max(round(length * density), 1), length - 1)
        spans = min(max(round(hidden / mean), 1), length - hidden)
        assert int((view.targets[row] != IGNORED).sum()) == hidden + spans + 1
        assert view.valid is not None and int(view.valid[row].sum()) == length - hidden + spans + 1


def test_every_way_to_place_the_spans_is_as_likely() -> None:
    """Seven tokens, four of them hidden in two spans: 3 ways to divide four, 2 ways to divide three."""
    number = 12000
    lengths = torch.full((number,), 7)
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(2, number, 7, generator=generator, dtype=torch.float64)
    spans = draw_spans(lengths, torch.full((number,), 4), torch.full((number,), 2), (draws[0], draws[1]))
    counts = Counter(map(tuple, spans.hidden.tolist()))
    assert len(counts) == 6 and all(not mask[0] and mask[-1] for mask in counts)
    assert all(abs(count - number / 6) < 5 * math.sqrt(number / 6) for count in counts.values())


def test_spans_follow_from_seed_epoch_and_row_alone() -> None:
    batch = rows_of_random_length(8, 60, seed=3, shortest=30)
    task = SpanCorruption().bind(LONG)
    whole = task.view(batch, seed=1, epoch=2)
    part = task.view(batch.chosen(torch.tensor([5, 2])), seed=1, epoch=2)
    assert real(part.tokens, part.valid) == [real(whole.tokens, whole.valid)[row] for row in (5, 2)]
    assert real(task.view(batch, seed=1, epoch=3).tokens, whole.valid) != real(whole.tokens, whole.valid)


@pytest.mark.slow
@pytest.mark.parametrize("mixture", ["none", "ul2"])
@pytest.mark.parametrize("make", [SpanCorruption, SpanCorruptionInOneRow])
def test_the_model_is_as_long_as_the_longest_row_that_it_reads(make: type[SpanCorruption], mixture: str) -> None:
    for length in range(2, 90):
        spec = replace(LANGUAGE, max_length=length)
        task = make(mixture=mixture).bind(spec)  # type: ignore[arg-type]
        rows = torch.arange(24)
        view = task.view(Batch(rows=rows, tokens=torch.full((24, length), 7)), seed=0, epoch=0)
        predicted = task.rows_read(spec)
        assert predicted is not None and view.tokens is not None
        decoder = 0 if view.decoder_tokens is None else view.decoder_tokens.shape[1]
        if mixture == "none":
            assert (view.tokens.shape[1], decoder) == (predicted.max_length, predicted.max_target_length)
        assert view.tokens.shape[1] <= predicted.max_length and decoder <= predicted.max_target_length


def test_shorter_rows_read_no_more_than_longer_ones() -> None:
    lengths = torch.arange(1, 2000)
    for _, denoiser in (*UL2, ("", Denoiser(0.15, 3.0))):
        hidden, spans = denoiser.sizes(lengths)
        for size in (lengths - hidden + spans, hidden + spans):
            assert (size.diff() >= 0).all()


def test_one_row_holds_the_source_and_behind_it_the_target() -> None:
    batch = rows_of_random_length(6, 50, seed=4, shortest=5)
    two, one = (make().bind(LONG).view(batch, seed=0, epoch=0) for make in (SpanCorruption, SpanCorruptionInOneRow))
    assert one.decoder_tokens is None and one.targets is not None and two.targets is not None
    sources, written = real(two.tokens, two.valid), real(two.decoder_tokens, two.decoder_valid)
    assert real(one.tokens, one.valid) == [source + target for source, target in zip(sources, written, strict=True)]
    assert one.targets[one.targets != IGNORED].tolist() == two.targets[two.targets != IGNORED].tolist()


def test_more_spans_than_sentinels_are_refused_by_field() -> None:
    with pytest.raises(ValueError, match=r"task.num_sentinels=4 .* up to 15"):
        SpanCorruption(num_sentinels=4).bind(LONG)
    with pytest.raises(ValueError, match=r"task.mixture=ul3"):
        SpanCorruption(mixture="ul3")  # type: ignore[arg-type]


def test_a_published_tokenizers_sentinels_are_used_in_their_order() -> None:
    known = {f"<extra_id_{number}>": 28 - number for number in range(4)}

    def encode(text: str) -> list[int]:
        return [known.get(text, 6)]

    spec = DataSpec(kind="language", vocab_size=29, max_length=12, special_ids=(25, 26, 27, 28), encode=encode)
    task = SpanCorruption().bind(spec)
    assert isinstance(task, SpanCorruption)
    assert task.sentinels == (28, 27, 26, 25) and task.spec.vocab_size == 29
    beyond = SpanCorruption().bind(replace(spec, special_ids=()))
    assert isinstance(beyond, SpanCorruption)
    assert beyond.sentinels[:2] == (29, 30) and beyond.spec.vocab_size == 129


@pytest.mark.parametrize("task", ["span_corruption", "span_corruption_one_row"])
def test_documents_that_share_a_row_apart_are_refused_with_what_to_choose(task: str) -> None:
    model = "encoder_decoder" if task == "span_corruption" else "decoder_only"
    with pytest.raises(ValueError, match=r"data.packing=stream"):
        h2h.compose("train", [f"task={task}", f"model={model}"])
    packed = Batch(rows=torch.arange(1), tokens=torch.full((1, 6), 7), segments=torch.tensor([[0, 0, 0, 1, 1, 1]]))
    with pytest.raises(ValueError, match=r"data.packing=stream"):
        SpanCorruption().bind(LANGUAGE).view(packed, seed=0, epoch=0)


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["stream", "none"])
def test_both_models_are_trained_and_measured_alike(packing: str, tmp_path: Path) -> None:
    comparable = []
    for task, model in (("span_corruption", "encoder_decoder"), ("span_corruption_one_row", "decoder_only")):
        own = [f"task={task}", f"model={model}", f"data.packing={packing}", f"output_dir={tmp_path}"]
        record = h2h.train(h2h.compose("train", [*QUIET, *own]))
        assert record.status == "finished" and record.path is not None
        comparable.append(RunFolder.open(record.path).read_record().comparability)
        assert h2h.evaluate(record.path).points
        run = h2h.load_run(record.path)
        assert run.generate("the <1> sat on <2>.", max_new_tokens=4)
        for unmarked in ("the", "a <2> b <1>", "a <1> b <1>"):
            with pytest.raises(ValueError, match=r"write <1> for the first span"):
                run.generate(unmarked)
    assert comparable[0] == comparable[1]


@pytest.mark.parametrize("mixture", ["none", "ul2"])
@pytest.mark.parametrize("kind", [SpanCorruption, SpanCorruptionInOneRow])
def test_a_prompt_is_framed_as_the_rows_that_the_model_learned_from(kind: type[SpanCorruption], mixture: Any) -> None:
    """The source of each row, shown as text and given as a prompt, is the source again."""
    letters = replace(LONG, encode=lambda text: [ord(letter) - ord("a") + 5 for letter in text])
    task = kind(mixture=mixture, num_sentinels=200).bind(letters)
    assert isinstance(task, SpanCorruption)
    for source in task.sources(task.view(rows_of_random_length(14, 40, seed=0, shortest=8), seed=0, epoch=0)):
        text = task.text_of(source[:-1], lambda ids: "".join(chr(token - 5 + ord("a")) for token in ids))
        assert task.prompt(text) == [*source, *([letters.bos_id] if kind is SpanCorruptionInOneRow else [])]


def test_answers_of_the_data_say_nothing_of_which_tokens_count() -> None:
    answered = replace(LONG, num_scored=2)
    two, one = SpanCorruption().bind(answered), SpanCorruptionInOneRow().bind(answered)
    assert two.num_scored(300) is None
    assert one.num_scored(300) == 45 + 15 + 1


def test_a_tokenizer_file_with_sentinels_names_them_in_its_own_order() -> None:
    library = Library(models.WordLevel(vocab={"<unk>": 0, "</s>": 1, "cat": 2, "mat": 3}, unk_token="<unk>"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.add_special_tokens(["</s>", "<unk>", *(f"<extra_id_{number}>" for number in reversed(range(3)))])
    tokenizer = published_tokenizer(library.to_str(), named={"eos_token": "</s>"}, origin="a test")
    special = tokenizer.special
    spec = DataSpec(
        kind="language",
        vocab_size=tokenizer.vocab_size,
        max_length=16,
        bos_id=special.bos,
        eos_id=special.eos,
        special_ids=special.others,
        num_special_ids=0,
        encode=tokenizer.encode_one,
    )
    task = SpanCorruption().bind(spec)
    assert isinstance(task, SpanCorruption)
    assert task.sentinels == (6, 5, 4) and task.spec.vocab_size == tokenizer.vocab_size == 7
    view = task.view(Batch(rows=torch.arange(1), tokens=torch.tensor([[2, 3] * 8])), seed=0, epoch=0)
    assert view.targets is not None and view.targets[0, 0] == 6
