"""Frozen layers stay as they are, and every depth has the learning rate that its decay gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import Optimizer

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.norms import BatchNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.positions.relative import Shaw
from headtohead.training.checkpoints import load_best
from headtohead.training.optim.finetuning import Finetuning, Freeze, depths_of
from headtohead.training.optim.optimizers import adam, adamw, ademamix, lion, muon, schedule_free, sgd, soap
from headtohead.training.run import train
from small_models import FAMILIES, SIZE, small_model
from training.interruptions import interrupted
from training.programs import records_of
from training.runs import curve, losses, parts

OPTIMIZERS = (adam, adamw, ademamix, sgd, lion, muon, schedule_free, soap)
CPU = torch.device("cpu")


def frozen_model(freeze: Freeze | int, family: str = "decoder_only", **changes: object) -> Architecture:
    model = small_model(family, **changes)
    Finetuning(freeze).apply(model)
    return model


def names(model: nn.Module, *, learn: bool) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad is learn}


def drawn(freeze: Freeze | int) -> Callable[[], Architecture]:
    """Build the model as a run does: from the global generator."""
    return partial(_drawn, freeze)


def _drawn(freeze: Freeze | int) -> Architecture:
    return frozen_model(freeze, seed=int(torch.initial_seed() % 2**31), tie_weights=False)


def test_depths_run_from_what_comes_before_the_layers_to_the_head() -> None:
    model = small_model("encoder_decoder", position=Shaw, tie_weights=False)
    depths = depths_of(model)
    result = {name: depths[id(parameter)] for name, parameter in model.named_parameters()}
    expected = {
        "embedding.weight": 0,
        "encoder.blocks.0.mixer.query.weight": 1,
        "encoder.positions.1.table": 2,
        "encoder.blocks.1.feedforward.up.bias": 2,
        "encoder.final_norm.weight": 2,
        "decoder.blocks.0.cross.value.weight": 3,
        "decoder.blocks.1.wiring.norms.0.weight": 4,
        "head.weight": 5,
    }
    assert set(result.values()) == set(range(6))
    assert {name: result.get(name) for name in expected} == expected


@pytest.mark.parametrize("family", FAMILIES)
def test_body_leaves_the_head_alone_to_learn(family: str) -> None:
    untied = {} if family == "vision_transformer" else {"tie_weights": False}
    learning = names(frozen_model("body", family, **untied), learn=True)
    assert learning and all(name.startswith("head.") for name in learning)


def test_a_number_freezes_the_embedding_and_the_first_layers() -> None:
    model = frozen_model(1, "encoder_only", position=Learned)
    frozen = names(model, learn=False)
    assert {"embedding.weight", "segment_embedding.weight", "stack.positions.0.table.weight"} < frozen
    assert all(name in frozen for name, _ in model.named_parameters() if name.startswith("stack.blocks.0."))
    assert not any(name.startswith(("stack.blocks.1.", "stack.final_norm", "head.dense")) for name in frozen)


def test_embedding_freezes_a_head_that_is_tied_to_it() -> None:
    assert frozen_model("embedding").head.weight.requires_grad is False
    assert frozen_model("embedding", tie_weights=False).head.weight.requires_grad is True


@pytest.mark.parametrize(
    ("freeze", "changes", "sentence"),
    [
        (3, {}, r"freeze=3: the model has 2 layers, so give a number from 1 to 2, or nothing, embedding or body"),
        (0, {}, r"freeze=0: the model has 2 layers"),
        ("body", {}, r"leaves nothing to train.*model\.tie_weights=false"),
        (1, {"norm": BatchNorm}, r"cannot freeze model/norm=batch_norm"),
    ],
)
def test_what_cannot_be_frozen_is_refused_with_the_way_out(
    freeze: Freeze | int, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        frozen_model(freeze, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_frozen_weights_are_bit_equal_after_training_and_the_others_are_not(
    tmp_path: Path, optimizer: Callable[[nn.Module], Optimizer]
) -> None:
    changes = {"make_model": drawn(1), "optimizer": optimizer, "max_steps": 4, "validate_every": 4}
    before = load_best(train(parts(tmp_path, **{**changes, "optimizer": partial(sgd, lr=0.0)})).path)["model"]
    record = train(parts(tmp_path, **changes))
    after = load_best(record.path)["model"]
    stayed = {name for name in before if torch.equal(before[name], after[name])}
    assert stayed == names(drawn(1)(), learn=False)
    assert not any(name.startswith("update_norm/stack.blocks.0") for name in curves(record.path))


def curves(path: Path | None) -> set[str]:
    from headtohead.records.run_folder import RunFolder

    assert path is not None
    return set(RunFolder.open(path).metrics())


def test_layer_decay_gives_the_rates_that_one_computes_by_hand() -> None:
    model = small_model("decoder_only", tie_weights=False)
    optimizer = adamw(model, lr=0.5)
    Finetuning(layer_decay=0.1).scale_rates(optimizer, model)
    rates = {id(held): group["lr"] for group in optimizer.param_groups for held in group["params"]}
    expected = {"embedding": 0.0005, "stack.blocks.0": 0.005, "stack.blocks.1": 0.05, "head": 0.5}
    for name, parameter in model.named_parameters():
        rate = next((rate for start, rate in expected.items() if name.startswith(start)), 0.05)  # the final norm's
        assert rates[id(parameter)] == pytest.approx(rate), name


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_splitting_groups_by_depth_keeps_every_parameter_and_its_decay(
    optimizer: Callable[[nn.Module], Optimizer],
) -> None:
    model = frozen_model("embedding", "encoder_decoder", tie_weights=False)
    plain, split = optimizer(model), optimizer(model)
    Finetuning(layer_decay=0.5).scale_rates(split, model)

    def decays(result: Optimizer) -> dict[int, float]:
        return {id(held): group["weight_decay"] for group in result.param_groups for held in group["params"]}

    assert decays(split) == decays(plain)
    assert sum(len(group["params"]) for group in split.param_groups) == len(decays(plain))


@pytest.mark.slow
def test_the_rates_of_all_depths_follow_the_schedule(tmp_path: Path) -> None:
    """Only the head's first steps are seen, with a decay to next to nothing."""
    changes = {"make_model": drawn("nothing"), "max_steps": 3, "validate_every": 3}
    before = load_best(train(parts(tmp_path, **{**changes, "optimizer": partial(sgd, lr=0.0)})).path)["model"]
    after = load_best(train(parts(tmp_path, finetuning=Finetuning(layer_decay=1e-12), **changes)).path)["model"]
    moved = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-9, rtol=0)}
    assert moved == {"head.weight"}


@pytest.mark.slow
def test_a_resumed_run_is_bit_equal(tmp_path: Path) -> None:
    changes = {"make_model": drawn(1), "finetuning": Finetuning(1, layer_decay=0.5), "validate_every": 4}
    undisturbed = losses(tmp_path, **changes)
    first = interrupted(tmp_path, 7, **changes)
    assert curve(train(parts(tmp_path, resume_from=first.path, **changes)).path) == undisturbed


@pytest.mark.slow
@pytest.mark.process
def test_two_processes_train_what_is_not_frozen_as_one_does(tmp_path: Path) -> None:
    """The model with its last layer alone, which two processes exchange gradients of."""
    program = """
from headtohead.training.optim.finetuning import Finetuning
from training.test_finetuning import drawn
tell(train(parts(folder, make_model=drawn(1), finetuning=Finetuning(1), strategy="ddp", devices=2)))
"""
    (two,) = records_of(program, tmp_path)
    one = train(parts(tmp_path, make_model=drawn(1), finetuning=Finetuning(1)))
    assert curve(two.path) == pytest.approx(curve(one.path), rel=1e-6)


COSTED: dict[str, tuple[Freeze | int, str, dict[str, object]]] = {
    "nothing": ("nothing", "decoder_only", {}),
    "the embedding, tied": ("embedding", "decoder_only", {}),
    "the embedding, untied": ("embedding", "decoder_only", {"tie_weights": False}),
    "a layer": (1, "encoder_only", {}),
    "an encoder": (2, "encoder_decoder", {"tie_weights": False}),
    "an encoder and a layer": (3, "encoder_decoder", {"tie_weights": False}),
    "all but a classifier": ("body", "vision_transformer", {}),
    "all but a vocabulary": ("body", "decoder_only", {"tie_weights": False}),
}


@pytest.mark.parametrize("case", COSTED)
def test_the_ledger_bills_the_backward_pass_that_is_left(case: str) -> None:
    freeze, family, changes = COSTED[case]
    model = frozen_model(freeze, family, **changes)
    inputs = model.example_inputs(SIZE, 2, CPU)
    with saved_bytes(model) as saved:
        logits = model(**inputs)
        num_bytes = saved()
    with counting() as training:
        model(**inputs).backward(torch.ones_like(logits))
    totals = ledger(model, SIZE).totals
    assert training.products == 2 * totals.training_flops_per_sample
    assert num_bytes == 2 * totals.activation_bytes
    assert totals.trained_parameters == sum(p.numel() for p in model.parameters() if p.requires_grad)
