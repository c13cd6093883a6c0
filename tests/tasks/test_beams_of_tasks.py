"""Beams in tests alone; texts as long as the model makes them, whatever the targets at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headtohead.architectures.architecture import Architecture
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.tasks.seq2seq import SequenceToSequence
from headtohead.tasks.seq2seq_one_stack import SequenceToSequenceAtOnce, SequenceToSequenceInOneRow
from small_batches import PAIRS, decode, pair_batch
from small_models import exact_model, redraw

SPEC = replace(PAIRS, decode=decode)
WAYS: dict[str, tuple[type[SequenceToSequence], str]] = {
    "two sides": (SequenceToSequence, "encoder_decoder"),
    "one row": (SequenceToSequenceInOneRow, "decoder_only"),
    "at once": (SequenceToSequenceAtOnce, "encoder_only"),
}


def made(way: str, *, beams: int = 1, max_new_tokens: int | None = None) -> tuple[SequenceToSequence, Architecture]:
    make, family = WAYS[way]
    task = make(beams=beams, max_new_tokens=max_new_tokens)
    task.bind(SPEC)
    own = {} if family == "encoder_decoder" else {"max_length": 64}
    return task, exact_model(family, head=task.head, **own).eval()


def row_of(batch: Batch, row: int) -> Batch:
    return batch.map(lambda tensor: tensor[row : row + 1])


@torch.no_grad()
def log_probability(way: str, model: Architecture, batch: Batch, row: int, text: list[int]) -> float:
    """Return the log-probability of a text for the source of a row, from one pass over all of it."""
    source = batch.tokens[row][batch.valid[row]].tolist()
    if way == "two sides":
        read = torch.tensor([[PAIRS.bos_id, *text[:-1]]])
        logits = model(tokens=torch.tensor([source]), decoder_tokens=read)[0]
    else:
        logits = model(tokens=torch.tensor([[*source, PAIRS.bos_id, *text[:-1]]]))[0, len(source) :]
    return float(logits.log_softmax(-1).gather(1, torch.tensor(text)[:, None]).sum())


@pytest.mark.parametrize("way", ["two sides", "one row"])
def test_a_test_with_beams_writes_likelier_texts_and_validation_does_not_search(way: str) -> None:
    task, model = made(way, beams=6)
    redraw(model, std=0.6, seed=2)  # a model whose likeliest beginnings do not make the likeliest texts
    batch = pair_batch(5)
    view = task.view(batch, seed=0, epoch=0)
    sums = {}
    for stage in ("validation", "test"):
        task.measure(stage, model, view)  # type: ignore[arg-type]
        written = task.written(model, view)
        assert [sample["written"] for sample in task.samples(model, view, decode)] == [
            decode(ids) for ids in written.tolist()
        ], "samples are written as what was measured"
        texts = [ids[: ids.index(2) + 1] if 2 in ids else ids for ids in written.tolist()]
        sums[stage] = [log_probability(way, model, batch, row, text) / len(text) for row, text in enumerate(texts)]
    greedy_task = made(way)[0]
    greedy_task.measure("test", model, view)
    assert torch.equal(greedy_task.written(model, view), _validated(task, model, view))
    assert all(result >= one - 1e-9 for result, one in zip(sums["test"], sums["validation"], strict=True))
    assert sum(sums["test"]) > sum(sums["validation"]) + 0.1


def _validated(task: SequenceToSequence, model: Architecture, view: Batch) -> torch.Tensor:
    task.measure("validation", model, view)
    return task.written(model, view)


@pytest.mark.parametrize("seed", [0, 3, 6, 9])
def test_a_search_finds_the_same_whatever_the_targets_at_hand_where_no_texts_are_measured(seed: int) -> None:
    task, model = SequenceToSequence(beams=4), exact_model("encoder_decoder", head="language_model").eval()
    task.bind(PAIRS)
    redraw(model, std=0.6, seed=seed)
    batch = pair_batch(5)
    view = task.view(batch, seed=0, epoch=0)
    task.measure("test", model, view)
    whole = task.written(model, view)
    assert not task.measures and whole.shape[1] == PAIRS.max_target_length
    for row in range(5):
        one = row_of(batch, row)
        size = int((one.targets != IGNORED).sum())
        sides = {name: getattr(one, name)[:, :size] for name in ("targets", "decoder_tokens", "decoder_valid")}
        assert torch.equal(task.written(model, task.view(replace(one, **sides), seed=0, epoch=0))[0], whole[row])


@pytest.mark.parametrize("way", WAYS)
def test_no_text_tells_how_long_its_target_is(way: str) -> None:
    """A row measured alone with a target of one token writes what it writes beside others."""
    task, model = made(way)
    batch = pair_batch(5)
    whole = task.written(model, task.view(batch, seed=0, epoch=0))
    assert whole.shape[1] == SPEC.max_target_length
    for row in range(5):
        one = row_of(batch, row)
        cut = one.targets.masked_fill(torch.arange(one.targets.shape[1]) > 0, IGNORED)
        short = replace(
            one, targets=cut[:, :1], decoder_tokens=one.decoder_tokens[:, :1], decoder_valid=one.decoder_valid[:, :1]
        )
        assert torch.equal(task.written(model, task.view(short, seed=0, epoch=0))[0], whole[row])


@pytest.mark.parametrize("way", WAYS)
def test_texts_are_no_longer_than_requested(way: str) -> None:
    task, model = made(way, max_new_tokens=3)
    batch = task.view(pair_batch(5), seed=0, epoch=0)
    assert task.written(model, batch).shape[1] == 3
    task.measure("test", model, batch)
    assert task.results("test")["exact_match"] <= 1.0


@pytest.mark.parametrize(("field", "value"), [("beams", 0), ("max_new_tokens", 0)])
def test_no_beams_and_no_tokens_are_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"task\.{field}={value} must be at least 1"):
        SequenceToSequence(**{field: value})  # type: ignore[arg-type]
