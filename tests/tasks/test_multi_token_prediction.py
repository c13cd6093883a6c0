"""Several tokens ahead: what each head predicts, the summed loss, and that only the next token's head is measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import headtohead as h2h
from headtohead.architectures.architecture import InputSize
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting
from headtohead.architectures.vocabulary_heads import MultiTokenLanguageModel
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.finished_runs.export_run import export
from headtohead.finished_runs.finished_run import open_run
from headtohead.records.run_folder import RunFolder
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.multi_token_prediction import MultiTokenPrediction, targets_ahead
from headtohead.training.initial_weights import start_from
from small_batches import LANGUAGE, answered_batch, language_batch
from small_models import exact_model, small_model

NUMBER = 3
HEAD = {"head": "multi_token_language_model", "num_future_tokens": NUMBER}
QUIET = (
    "data.num_train=40",
    "data.num_validation=8",
    "data.num_test=8",
    "data.context_length=16",
    "data.tokenizer=char",
    "data.batch_size=4",
    "model.d_model=16",
    "model.num_layers=1",
    "model.num_heads=2",
    "trainer.max_steps=2",
    "trainer.validate_every=2",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
    "tracking=none",
    "probe=none",
)


def packed_batch() -> Batch:
    """Rows of two documents."""
    batch = language_batch(5, 12)
    segments = (torch.arange(12) >= torch.tensor([[3], [5], [7], [11], [1]])).long()
    return replace(batch, valid=None, segments=segments)


@pytest.mark.parametrize("batch", [language_batch(), packed_batch()], ids=["padded", "packed"])
def test_every_head_predicts_a_later_token_of_the_same_document(batch: Batch) -> None:
    view = CausalLanguageModelling().view(batch, seed=0, epoch=0)
    assert view.targets is not None and batch.tokens is not None
    ahead = targets_ahead(view.targets, NUMBER)
    rows, length = view.targets.shape
    for distance in range(NUMBER):
        for row in range(rows):
            for index in range(length):
                later = index + 1 + distance
                there = later < length + 1
                if there and batch.valid is not None:
                    there = bool(batch.valid[row, later])
                if there and batch.segments is not None:
                    there = bool(batch.segments[row, later] == batch.segments[row, index])
                expected = int(batch.tokens[row, later]) if there else IGNORED
                assert ahead[distance, row, index] == expected, (distance, row, index)


@pytest.mark.parametrize(("smoothing", "cap"), [(0.0, None), (0.2, None), (0.2, 0.5)])
@pytest.mark.parametrize("batch", [language_batch(), packed_batch(), answered_batch()], ids=["padded", "packed", "few"])
def test_the_loss_and_its_gradients_are_those_of_the_sum_over_heads(
    batch: Batch, smoothing: float, cap: float | None
) -> None:
    model = exact_model("decoder_only", **HEAD, logit_cap=cap)
    task = MultiTokenPrediction(NUMBER, label_smoothing=smoothing).bind(LANGUAGE)
    view = task.view(batch, seed=0, epoch=0)
    loss = task.loss(model, view)
    head, features = model.head, model.features(**view.inputs())
    assert isinstance(head, MultiTokenLanguageModel) and view.targets is not None
    losses = []
    for distance, targets in enumerate(targets_ahead(view.targets, NUMBER)):
        mixed = features
        if distance:
            linear = head.further[distance - 1]
            hidden = features @ linear.weight.T + linear.bias
            mixed = features + hidden * hidden.sigmoid()
        logits = mixed @ head.weight.T
        logits = logits if cap is None else cap * (logits / cap).tanh()
        losses.append(
            F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum", label_smoothing=smoothing)
        )
    assert abs(loss.total - sum(losses)) < 1e-9 and loss.count == (view.targets != IGNORED).sum()
    parameters = list(model.parameters())
    ours = torch.autograd.grad(loss.total, parameters)
    theirs = torch.autograd.grad(sum(losses), parameters)
    assert max(float((one - other).abs().max()) for one, other in zip(ours, theirs, strict=True)) < 1e-9


def test_a_single_future_token_is_causal_language_modelling() -> None:
    several = exact_model("decoder_only", head="multi_token_language_model", num_future_tokens=1)
    one = exact_model("decoder_only")
    view = CausalLanguageModelling().view(language_batch(), seed=0, epoch=0)
    losses = [
        task.bind(LANGUAGE).loss(model, view).mean
        for task, model in ((MultiTokenPrediction(1), several), (CausalLanguageModelling(), one))
    ]
    assert abs(losses[0] - losses[1]) < 1e-12


def test_what_is_measured_is_the_next_token_as_causal_language_modelling_measures_it() -> None:
    several, one = exact_model("decoder_only", **HEAD).eval(), exact_model("decoder_only").eval()
    one.load_state_dict(several.state_dict(), strict=False)
    results = []
    for task, model in ((MultiTokenPrediction(NUMBER), several), (CausalLanguageModelling(), one)):
        task.bind(LANGUAGE)
        view = task.view(language_batch(), seed=0, epoch=0)
        assert (model(**view.inputs()) == one(**view.inputs())).all()
        task.measure("test", model, view)
        results.append(task.results("test"))
    assert results[0] == results[1]
    assert MultiTokenPrediction().measured_how() == CausalLanguageModelling().measured_how()


def test_training_costs_what_is_computed_and_the_forward_pass_no_further_head() -> None:
    batch = Batch(rows=torch.arange(1), tokens=torch.randint(5, 29, (1, 12)))
    costs = {}
    for name, task, fields in (
        ("several", MultiTokenPrediction(NUMBER), HEAD),
        ("one", CausalLanguageModelling(), {"head": "language_model"}),
    ):
        model = small_model("decoder_only", **fields)
        task.bind(LANGUAGE)
        view = task.view(batch, seed=0, epoch=0)
        with counting() as counts:
            task.loss(model, view).total.backward()
        assert view.tokens is not None
        totals = ledger(model, InputSize(length=view.tokens.shape[1])).totals
        costs[name] = (totals, counts.products)
        assert totals.parameters == sum(held.numel() for held in model.parameters())
    (several, ran), (one, ran_once) = costs["several"], costs["one"]
    assert several.forward_flops_per_sample == one.forward_flops_per_sample
    assert several.training_flops_per_sample - one.training_flops_per_sample == ran - ran_once


def trained(folder: Path, *overrides: str) -> Path:
    record = h2h.train(h2h.compose("train", [*QUIET, *overrides, f"output_dir={folder}"]))
    assert record.status == "finished" and record.path is not None
    return record.path


@pytest.mark.slow
def test_weights_of_one_token_begin_those_of_several_and_back(tmp_path: Path) -> None:
    untied = "model.tie_weights=false"
    one = trained(tmp_path, untied)
    several = open_run(trained(tmp_path, untied, "task=multi_token_prediction", "trainer.max_steps=3")).model
    here = {name: held.clone() for name, held in several.state_dict().items()}
    report = start_from(several, one)
    assert report.fresh == tuple(name for name in here if name.startswith("head.further."))
    assert not torch.equal(several.head.weight, here["head.weight"])
    assert torch.equal(several.head.weight, open_run(one).model.head.weight)
    back = open_run(one).model
    report = start_from(back, trained(tmp_path, untied, "task=multi_token_prediction"))
    assert not report.fresh and all(name.startswith("head.further.") for name in report.left_aside)


@pytest.mark.slow
def test_a_run_writes_is_evaluated_and_compares_with_causal_language_modelling(tmp_path: Path) -> None:
    several, one = trained(tmp_path, "task=multi_token_prediction"), trained(tmp_path, "task=causal_lm")
    comparable = [RunFolder.open(folder).read_record().comparability for folder in (several, one)]
    assert comparable[0] == comparable[1]
    assert h2h.evaluate(several, stride=4).points
    assert h2h.load_run(several).generate("the", max_new_tokens=4)


@pytest.mark.slow
def test_the_hub_gets_the_next_tokens_head_by_a_run_that_leaves_out_the_others(tmp_path: Path) -> None:
    several = trained(tmp_path, "task=multi_token_prediction")
    with pytest.raises(ValueError, match=r"task=causal_lm init_from=run:.* trainer\.max_steps=0") as refusal:
        export(open_run(several), "hub")
    words = str(refusal.value).partition("h2h train ")[2].split()
    origin, overrides = Path(words[1]), words[2:]
    assert words[0] == "--from-run" and origin == several
    one = h2h.train(h2h.compose("train", [*QUIET, *overrides, f"output_dir={tmp_path}"]))
    assert one.path is not None
    assert one.metrics["test"] == RunFolder.open(several).read_record().metrics["test"]


@pytest.mark.slow
def test_a_run_is_asked_by_prompts_like_any_language_model(tmp_path: Path) -> None:
    folder = trained(tmp_path, "task=multi_token_prediction")
    other = ["data=sentence_grammar", "data.num_train=100", "data.num_test=8"]
    result = h2h.evaluate(folder, shots=[0], overrides=other)
    assert "accuracy" in result.points[0].metrics


def test_models_that_see_the_next_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="bidirectional"):
        h2h.compose("train", [*QUIET, "task=multi_token_prediction", "model=recurrent", "model.bidirectional=true"])
    with pytest.raises(ValueError, match="cannot be done by"):
        h2h.compose("train", ["task=multi_token_prediction", "model=encoder_only"])
