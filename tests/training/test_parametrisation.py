"""Maximal update: at the base width nothing changes, beyond it starts, rates and multipliers follow the paper."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from doctor_runs import DECODER, TRANSLATOR, patient
from headtohead.diagnostics.doctor.patient import Patient
from headtohead.diagnostics.doctor.training_steps import ShortTraining
from headtohead.training.optim.parametrisation import growths

MUP = "parametrisation=mup"
WIDE = ["model.d_model=256"]
OPTIMIZERS = ("adamw", "adam", "lion", "sgd", "muon")


def losses(of: Patient) -> list[float]:
    return list(ShortTraining(of, of.few).losses(4, lambda _: 1.0))


def rates(overrides: list[str], key: str = "lr") -> dict[int, set[float]]:
    """Return the rates by the number of dimensions that grow."""
    of = patient([*DECODER, "model.tie_weights=false", "model.head_bias=true", *overrides])
    optimizer = of.parts.optimizer(of.model)
    of.parts.parametrisation.scale_rates(optimizer, of.model)
    growth, result = growths(of.model), dict[int, set[float]]()
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(map(id, of.model.parameters())), "every parameter is in one group"
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            result.setdefault(growth[id(parameter)], set()).add(group[key])
    return result


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_at_the_base_width_weights_and_losses_are_those_of_the_standard_to_the_last_bit(optimizer: str) -> None:
    usual, mup = (patient([*DECODER, f"optimizer={optimizer}", *provided]) for provided in ([], [MUP]))
    for one, other in zip(usual.model.state_dict().values(), mup.model.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert losses(usual) == losses(mup)


def test_the_base_may_have_any_width_and_many_heads() -> None:
    small = ["model.d_model=32", "model.num_heads=4"]
    base = ["parametrisation.base_width=32", "parametrisation.base_head_width=8"]
    assert losses(patient([*DECODER, *small])) == losses(patient([*DECODER, *small, MUP, *base]))


def test_beyond_it_hidden_matrices_alone_start_smaller_by_the_root_of_the_width() -> None:
    usual, mup = (patient([*DECODER, *WIDE, *provided]).model for provided in ([], [MUP]))
    growth = growths(mup)
    for one, other in zip(usual.parameters(), mup.parameters(), strict=True):
        torch.testing.assert_close(other, one * 0.5 if growth[id(other)] == 2 else one, rtol=0, atol=0)


def test_logits_are_divided_by_the_width_and_scores_by_that_of_a_head() -> None:
    usual, mup = (patient([*DECODER, *WIDE, *provided]).model for provided in ([], [MUP]))
    features = torch.randn(2, 3, 256)
    torch.testing.assert_close(mup.head(features), usual.head(features) / 4)
    torch.testing.assert_close(mup.stack.layers[0].mixer.scale, 16**0.5 / 64)


def test_scores_keep_their_scale_where_heads_become_more() -> None:
    more = [*DECODER, *WIDE, "model.num_heads=16"]
    usual, mup = (patient([*more, *provided]).model.stack.layers[0].mixer.scale for provided in ([], [MUP]))
    assert usual == mup == 16**-0.5


def test_cross_attention_is_scaled_too() -> None:
    own = ["model.scale_embedding=false", "model/initialisation=gpt2", "model.d_model=128", MUP]
    block = patient([*TRANSLATOR, *own]).model.decoder.layers[0]
    assert block.cross.scale == block.mixer.scale == pytest.approx(16**0.5 / 32)


@pytest.mark.parametrize(
    ("overrides", "hidden", "wide"),
    [
        (["optimizer=adamw"], 0.25, 1.0),
        (["optimizer=adam"], 0.25, 1.0),
        (["optimizer=lion"], 0.25, 1.0),
        (["optimizer=sgd"], 1.0, 4.0),
        (["optimizer=muon"], 0.5, 1.0),
        (["optimizer=muon", "optimizer.scale=original"], 1.0, 1.0),
    ],
)
def test_each_optimizer_has_the_rates_of_its_rule(overrides: list[str], hidden: float, wide: float) -> None:
    result = rates([*overrides, *WIDE, MUP, "optimizer.lr=0.5"])
    expected = {2: hidden, 1: wide, 0: 1.0}
    assert {number: {rate / 0.5 for rate in rates} for number, rates in result.items()} == {
        number: {factor} for number, factor in expected.items()
    }


def test_weight_decay_takes_as_much_off_a_step_at_any_width_and_eps_follows_the_gradients() -> None:
    provided = ["optimizer=adamw", "optimizer.lr=0.5", "optimizer.weight_decay=0.1", "optimizer.eps=1e-8", *WIDE, MUP]
    assert rates(provided, "weight_decay")[2] == {0.4}
    assert rates(provided, "eps") == {2: {0.25e-8}, 1: {0.25e-8}, 0: {1e-8}}


def test_an_optimizer_without_a_rule_is_an_error() -> None:
    of = patient([*DECODER, *WIDE, MUP])
    with pytest.raises(ValueError, match="Adagrad has no published rule"):
        of.parts.parametrisation.scale_rates(torch.optim.Adagrad(of.model.parameters()), of.model)


def test_masked_features_reach_the_logits_through_the_multiplier() -> None:
    """The head of a masked language model has layers of its own before the product."""
    provided = ["model=encoder_only", "task=masked_lm", *DECODER, *WIDE]
    usual, mup = (patient([*provided, *own]).model.head for own in ([], [MUP]))
    with torch.no_grad():
        usual.dense.weight.copy_(mup.dense.weight)
    features: Tensor = torch.randn(2, 3, 256)
    torch.testing.assert_close(mup(features), usual(features) / 4)
