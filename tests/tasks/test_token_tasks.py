"""Causal and masked language modelling and sequence to sequence: views, losses, metrics against plain computations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from headtohead.architectures.contracts import Architecture
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.contracts import Task
from headtohead.tasks.masked_lm import MaskedLanguageModelling
from headtohead.tasks.seq2seq import SequenceToSequence
from small_models import VOCAB_SIZE, redraw, small_model

LANGUAGE = DataSpec(kind="language", vocab_size=VOCAB_SIZE, max_length=17)
PAIRS = DataSpec(kind="pairs_of_text", vocab_size=VOCAB_SIZE, max_length=12, max_target_length=9)


def language_batch(num_rows: int = 6, length: int = 13, *, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(LANGUAGE.num_special_ids, VOCAB_SIZE, (num_rows, length), generator=generator)
    lengths = torch.randint(2, length + 1, (num_rows,), generator=generator)
    valid = torch.arange(length) < lengths[:, None]
    return Batch(rows=torch.arange(num_rows), tokens=tokens.masked_fill(~valid, 0), valid=valid)


def pair_batch(num_rows: int = 6, *, seed: int = 0) -> Batch:
    source = language_batch(num_rows, 11, seed=seed)
    target = language_batch(num_rows, 8, seed=seed + 1)
    assert target.tokens is not None and target.valid is not None
    bos = torch.full((num_rows, 1), PAIRS.bos_id)
    lengths = target.valid.sum(1)
    # <bos> + target is read, target + <eos> is written.
    valid = torch.cat([torch.ones(num_rows, 1, dtype=torch.bool), target.valid], dim=1)
    targets = torch.cat([target.tokens, torch.zeros(num_rows, 1, dtype=torch.long)], dim=1)
    targets[torch.arange(num_rows), lengths] = PAIRS.eos_id
    targets = targets.masked_fill(~valid, IGNORED)
    decoder_tokens = torch.cat([bos, target.tokens], dim=1)
    return replace(source, decoder_tokens=decoder_tokens, decoder_valid=valid, targets=targets)


def head(batch: Batch, num_rows: int) -> Batch:
    return batch.map(lambda tensor: tensor[:num_rows])


def tail(batch: Batch, num_rows: int) -> Batch:
    return batch.map(lambda tensor: tensor[num_rows:])


def cases() -> list[tuple[str, Task, DataSpec, Batch]]:
    causal, masked, pairs = CausalLanguageModelling(), MaskedLanguageModelling(mask_rate=0.4), SequenceToSequence()
    return [
        ("decoder_only", causal.bind(LANGUAGE), LANGUAGE, language_batch()),
        ("encoder_only", masked.bind(LANGUAGE), LANGUAGE, language_batch()),
        ("encoder_decoder", pairs.bind(PAIRS), PAIRS, pair_batch()),
    ]


def model_for(family: str) -> Architecture:
    model = redraw(small_model(family).double())
    assert isinstance(model, Architecture)
    return model


def plain_logits(model: Architecture, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and targets as rows, from the whole head at once."""
    assert batch.targets is not None
    return model(**batch.inputs()).flatten(0, 1), batch.targets.flatten()


@pytest.mark.parametrize("place", range(3))
def test_training_loss_and_gradients_equal_plain_cross_entropy(place: int) -> None:
    family, task, _, batch = cases()[place]
    model = model_for(family)
    seen = task.view(batch, seed=1, epoch=2)
    loss = task.loss(model, seen)
    logits, targets = plain_logits(model, seen)
    expected = F.cross_entropy(logits, targets, reduction="sum")
    assert abs(loss.total - expected) < 1e-10
    assert loss.count == (targets != IGNORED).sum()
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss.mean, parameters),
        torch.autograd.grad(F.cross_entropy(logits, targets), parameters),
        strict=True,
    ):
        assert (ours - theirs).abs().max() < 1e-10


@pytest.mark.parametrize("place", range(3))
def test_label_smoothing_acts_in_training_only(place: int) -> None:
    family, task, _, batch = cases()[place]
    task.label_smoothing = 0.2
    model = model_for(family)
    seen = task.view(batch, seed=1, epoch=2)
    logits, targets = plain_logits(model, seen)
    smooth = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=0.2)
    assert abs(task.loss(model, seen).total - smooth) < 1e-10
    model.eval()
    assert abs(task.loss(model, seen).total - F.cross_entropy(logits, targets, reduction="sum")) < 1e-10


@pytest.mark.parametrize("place", range(3))
def test_results_do_not_depend_on_how_rows_fall_into_batches(place: int) -> None:
    family, task, _, batch = cases()[place]
    model = model_for(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("validation", model, seen)
    whole = task.results("validation")
    task.measure("validation", model, head(seen, 5))
    task.measure("validation", model, tail(seen, 5))
    ragged = task.results("validation")
    assert whole.keys() == ragged.keys()
    assert all(abs(whole[name] - ragged[name]) < 1e-12 for name in whole)


@pytest.mark.parametrize("place", range(3))
def test_samples_whose_targets_are_all_ignored_count_in_no_metric(place: int) -> None:
    family, task, _, batch = cases()[place]
    model = model_for(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    assert seen.targets is not None
    padded = replace(seen, targets=torch.cat([seen.targets[:4], torch.full_like(seen.targets[4:], IGNORED)]))
    task.measure("validation", model, head(seen, 4))
    expected = task.results("validation")
    task.measure("validation", model, padded)
    results = task.results("validation")
    assert all(abs(results[name] - expected[name]) < 1e-12 for name in expected)


@pytest.mark.parametrize("place", range(3))
def test_loss_and_accuracy_equal_a_plain_reimplementation(place: int) -> None:
    family, task, _, batch = cases()[place]
    model = model_for(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("test", model, seen)
    results = task.results("test")
    logits, targets = plain_logits(model, seen)
    probabilities = logits.softmax(-1)
    losses, hits = [], []
    for row, target in enumerate(targets.tolist()):
        if target != IGNORED:
            losses.append(-math.log(probabilities[row, target].item()))
            hits.append(probabilities[row].argmax().item() == target)
    assert abs(results["loss"] - sum(losses) / len(losses)) < 1e-10
    accuracy = results["masked_accuracy" if family == "encoder_only" else "token_accuracy"]
    assert abs(accuracy - sum(hits) / len(hits)) < 1e-12
    if "perplexity" in results:
        assert abs(results["perplexity"] - math.exp(sum(losses) / len(losses))) < 1e-6


@pytest.mark.parametrize("place", range(3))
def test_stages_are_measured_apart_and_start_afresh(place: int) -> None:
    family, task, _, batch = cases()[place]
    model = model_for(family).eval()
    seen = task.view(batch, seed=1, epoch=2)
    task.measure("validation", model, head(seen, 3))
    task.measure("test", model, tail(seen, 3))
    first = task.results("validation")
    with pytest.raises(ValueError, match="was scored"):
        task.results("validation")
    assert task.results("test")["loss"] != first["loss"]


@pytest.mark.parametrize("place", range(3))
def test_an_untrained_model_is_near_the_baseline_loss(place: int) -> None:
    family, task, spec, batch = cases()[place]
    model = small_model(family)
    loss = task.loss(model, task.view(batch, seed=0, epoch=0)).mean.item()
    assert abs(loss - task.baseline(spec)["loss"]) < 0.3
    assert task.baseline(spec)["loss"] == math.log(VOCAB_SIZE)


@pytest.mark.parametrize("place", range(3))
def test_results_hold_the_metrics_that_the_task_names(place: int) -> None:
    family, task, spec, batch = cases()[place]
    model = model_for(family).eval()
    task.measure("validation", model, task.view(batch, seed=1, epoch=2))
    names = set(task.results("validation"))
    assert names | {"bits_per_byte"} >= set(task.metrics) >= names
    assert task.monitor in names
    assert set(task.baseline(spec)) <= names


def test_sums_survive_a_cast_of_the_model_to_bf16() -> None:
    task = CausalLanguageModelling().bind(LANGUAGE).to(torch.bfloat16)
    model = model_for("decoder_only").eval()
    seen = task.view(language_batch(), seed=0, epoch=0)
    for _ in range(300):
        task.measure("validation", model, seen)
    many = task.results("validation")["loss"]
    task.measure("validation", model, seen)
    assert abs(many - task.results("validation")["loss"]) < 1e-9


class TestCausalView:
    def test_targets_are_the_next_tokens(self) -> None:
        batch = Batch(rows=torch.arange(1), tokens=torch.tensor([[7, 8, 9, 10]]))
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.tokens.tolist() == [[7, 8, 9]]
        assert seen.targets.tolist() == [[8, 9, 10]]

    def test_padding_is_never_a_target(self) -> None:
        valid = torch.tensor([[True, True, False, False]])
        batch = Batch(rows=torch.arange(1), tokens=torch.tensor([[7, 8, 0, 0]]), valid=valid)
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.targets.tolist() == [[8, IGNORED, IGNORED]]
        assert seen.valid.tolist() == [[True, True, False]]

    def test_no_document_predicts_the_next_one(self) -> None:
        segments, positions = torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0, 1, 0, 1]])
        batch = Batch(
            rows=torch.arange(1), tokens=torch.tensor([[7, 8, 9, 10]]), segments=segments, positions=positions
        )
        seen = CausalLanguageModelling().view(batch, seed=0, epoch=0)
        assert seen.targets.tolist() == [[8, IGNORED, 10]]
        assert seen.positions.tolist() == [[0, 1, 0]]

    def test_given_targets_are_left_alone(self) -> None:
        tokens, targets = torch.tensor([[7, 8, 9]]), torch.tensor([[IGNORED, IGNORED, 4]])
        batch = Batch(rows=torch.arange(1), tokens=tokens, targets=targets)
        assert CausalLanguageModelling().view(batch, seed=0, epoch=0) is batch

    def test_bits_per_byte_divide_the_loss_by_the_text_behind_the_targets(self) -> None:
        task, model = CausalLanguageModelling().bind(LANGUAGE), model_for("decoder_only").eval()
        seen = task.view(replace(language_batch(), num_bytes=torch.tensor(123)), seed=0, epoch=0)
        task.measure("validation", model, seen)
        results = task.results("validation")
        num_tokens = int((seen.targets != IGNORED).sum())
        assert abs(results["bits_per_byte"] - results["loss"] * num_tokens / math.log(2) / 123) < 1e-12

    def test_bits_per_byte_are_left_out_where_bytes_are_unknown(self) -> None:
        task, model = CausalLanguageModelling().bind(LANGUAGE), model_for("decoder_only").eval()
        task.measure("validation", model, task.view(language_batch(), seed=0, epoch=0))
        assert "bits_per_byte" not in task.results("validation")


class TestMaskedView:
    spec = DataSpec(kind="language", vocab_size=1000)

    def batch(self, num_rows: int = 400, length: int = 128) -> Batch:
        tokens = torch.randint(0, 1000, (num_rows, length), generator=torch.Generator().manual_seed(0))
        valid = torch.arange(length).expand(num_rows, -1) < length - 8
        return Batch(rows=torch.arange(num_rows), tokens=tokens, valid=valid)

    def test_shares_are_those_of_bert(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling().bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        open_to_choice = batch.valid & (batch.tokens >= self.spec.num_special_ids)
        assert abs(chosen.sum() / open_to_choice.sum() - 0.15) < 0.005
        became, was = seen.tokens[chosen], batch.tokens[chosen]
        assert abs((became == self.spec.mask_id).float().mean() - 0.8) < 0.015
        assert abs((became == was).float().mean() - 0.1) < 0.015
        replaced = became[(became != self.spec.mask_id) & (became != was)]
        assert replaced.min() >= self.spec.num_special_ids and replaced.max() < 1000
        assert len(replaced.unique()) > 300

    def test_only_chosen_tokens_change_and_targets_are_what_they_were(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling().bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        assert torch.equal(seen.tokens[~chosen], batch.tokens[~chosen])
        assert torch.equal(seen.targets[chosen], batch.tokens[chosen])

    def test_special_tokens_and_padding_are_never_chosen(self) -> None:
        batch = self.batch()
        seen = MaskedLanguageModelling(mask_rate=1.0).bind(self.spec).view(batch, seed=3, epoch=1)
        chosen = seen.targets != IGNORED
        assert torch.equal(chosen, batch.valid & (batch.tokens >= self.spec.num_special_ids))

    def test_masks_follow_the_row_and_not_its_place_in_a_batch(self) -> None:
        task, batch = MaskedLanguageModelling().bind(self.spec), self.batch(8)
        whole = task.view(batch, seed=3, epoch=1)
        order = torch.tensor([5, 2, 7])
        part = task.view(batch.map(lambda tensor: tensor[order]), seed=3, epoch=1)
        assert torch.equal(part.tokens, whole.tokens[order])

    def test_another_epoch_or_seed_masks_other_tokens(self) -> None:
        task, batch = MaskedLanguageModelling().bind(self.spec), self.batch(8)
        views = [task.view(batch, seed=seed, epoch=epoch).targets for seed, epoch in ((3, 1), (3, 2), (4, 1))]
        assert not torch.equal(views[0], views[1]) and not torch.equal(views[0], views[2])

    def test_the_head_runs_on_masked_rows_only(self) -> None:
        task, model = MaskedLanguageModelling().bind(LANGUAGE), small_model("encoder_only")
        seen = task.view(language_batch(64), seed=3, epoch=1)
        rows = []
        model.head.dense.register_forward_hook(lambda *call: rows.append(len(call[-1])))
        task.loss(model, seen)
        assert rows == [int((seen.targets != IGNORED).sum())]

    def test_a_task_without_data_says_what_to_call(self) -> None:
        with pytest.raises(ValueError, match=r"call bind\(spec\)"):
            MaskedLanguageModelling().view(language_batch(), seed=0, epoch=0)


class TestExactMatch:
    def measured(self, model: Architecture, batch: Batch) -> dict[str, float]:
        task = SequenceToSequence().bind(PAIRS)
        task.measure("test", model.eval(), batch)
        return task.results("test")

    def written(self, model: Architecture, batch: Batch, length: int) -> list[list[int]]:
        """Greedy decoding by running the whole prefix anew for each token, one sample at a time."""
        rows = []
        for row in range(batch.num_samples):
            source, valid = batch.tokens[row : row + 1], batch.valid[row : row + 1]
            prefix = [PAIRS.bos_id]
            while len(prefix) <= length:
                logits = model(tokens=source, valid=valid, decoder_tokens=torch.tensor([prefix]))
                prefix.append(int(logits[0, -1].argmax()))
                if prefix[-1] == PAIRS.eos_id:
                    break
            rows.append(prefix[1:])
        return rows

    def test_counts_the_samples_that_the_model_writes_by_itself(self) -> None:
        model, batch = model_for("encoder_decoder").eval(), pair_batch(8)
        outputs = self.written(model, batch, 6)
        targets = torch.full((8, 7), IGNORED)
        for row, output in enumerate(outputs):
            # What it writes, right for the even rows and wrong in the first token for the odd.
            right = output if row % 2 == 0 else [output[0] ^ 1, *output[1:]]
            targets[row, : len(right)] = torch.tensor(right)
        read = torch.cat([torch.full((8, 1), PAIRS.bos_id), targets[:, :-1]], dim=1).clamp(min=0)
        results = self.measured(model, replace(batch, targets=targets, decoder_tokens=read, decoder_valid=None))
        assert results["exact_match"] == 0.5

    def test_a_missing_or_early_end_of_sequence_is_no_match(self) -> None:
        model, batch = model_for("encoder_decoder").eval(), pair_batch(4)
        outputs = self.written(model, batch, 5)
        assert all(PAIRS.eos_id not in output for output in outputs), "the random model should run on"
        targets = torch.full((4, 4), IGNORED)
        for row, output in enumerate(outputs):
            targets[row, :3] = torch.tensor(output[:3])
            targets[row, 3] = PAIRS.eos_id
        read = torch.cat([torch.full((4, 1), PAIRS.bos_id), targets[:, :-1]], dim=1)
        results = self.measured(model, replace(batch, targets=targets, decoder_tokens=read, decoder_valid=None))
        assert results["exact_match"] == 0.0
        assert results["token_accuracy"] == 0.75

    def test_the_true_prefix_is_never_given(self) -> None:
        model, batch = model_for("encoder_decoder").eval(), pair_batch(6)
        misled = replace(batch, decoder_tokens=torch.full_like(batch.decoder_tokens, 9))
        assert self.measured(model, batch)["exact_match"] == self.measured(model, misled)["exact_match"]
        assert self.measured(model, batch)["loss"] != self.measured(model, misled)["loss"]


def test_a_monitor_that_is_no_metric_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"task\.monitor='acuracy'.*token_accuracy"):
        CausalLanguageModelling(monitor="acuracy")
    assert CausalLanguageModelling(monitor="token_accuracy").direction == "max"
    assert CausalLanguageModelling().direction == "min"


@pytest.mark.parametrize("make", [CausalLanguageModelling, MaskedLanguageModelling, SequenceToSequence])
def test_label_smoothing_out_of_range_is_refused(make: type[Task]) -> None:
    with pytest.raises(ValueError, match=r"task\.label_smoothing=1\.0"):
        make(label_smoothing=1.0)


def test_a_classifier_head_is_refused_by_name() -> None:
    model = small_model("decoder_only", head="classifier", num_classes=3)
    task = CausalLanguageModelling().bind(LANGUAGE)
    with pytest.raises(ValueError, match="head=Classifier makes no logits over a vocabulary"):
        task.loss(model, task.view(language_batch(), seed=0, epoch=0))
