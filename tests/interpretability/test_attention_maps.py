"""Maps show what a model does, and looking at them changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from contracts.choices import factory
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.norms import BatchNorm
from headtohead.components.positions.relative import Alibi, Shaw, T5Bias
from headtohead.components.stack import Stack
from headtohead.interpretability.receptive_field import all_maps
from headtohead.interpretability.recorded_attention import AttentionMaps, attention_maps, mixers_with_maps
from silent_mixer import RunningMean
from small_batches import language_batch, pair_batch
from small_models import FAMILIES, SIZE, exact_model, small_model


def padded_inputs(family: str) -> dict[str, torch.Tensor]:
    if family == "vision_transformer":
        return exact_model(family).example_inputs(SIZE, 3, torch.device("cpu"))
    return (pair_batch(3) if family == "encoder_decoder" else language_batch(3)).inputs()


def named(maps: list[AttentionMaps]) -> dict[str, AttentionMaps]:
    return {one.name: one for one in maps}


def test_every_mixer_is_shown_once_under_the_name_of_its_path() -> None:
    result = attention_maps(exact_model("encoder_decoder"), padded_inputs("encoder_decoder"))
    assert [one.name for one in result] == [
        "encoder.0.mixer", "encoder.1.mixer",
        "decoder.0.mixer", "decoder.0.cross", "decoder.1.mixer", "decoder.1.cross",
    ]  # fmt: skip
    assert [(one.kind, one.causal) for one in result[1:4]] == [("self", False), ("self", True), ("cross", False)]
    assert [(one.queries, one.keys) for one in result[1:4]] == [
        ("tokens", "tokens"), ("decoder_tokens", "decoder_tokens"), ("decoder_tokens", "tokens"),
    ]  # fmt: skip
    assert {tuple(one.weights.shape) for one in result} == {(3, 2, 11, 11), (3, 2, 9, 9), (3, 2, 9, 11)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("causal", [None, True, False])
def test_weights_sum_to_one_over_what_is_allowed_and_are_zero_elsewhere(family: str, causal: bool | None) -> None:
    for one in attention_maps(exact_model(family), padded_inputs(family), causal=causal):
        allowed = one.allowed[:, None]
        assert one.weights.dtype == torch.float32 and one.weights.device.type == "cpu"
        assert (one.weights * ~allowed == 0).all(), one.name
        sums = (one.weights * allowed).sum(-1)
        assert torch.allclose(sums, allowed.any(-1).float().expand_as(sums), atol=1e-6), one.name
        assert (one.weights.amax((1, 2, 3)) > 0).all()


def test_a_decoder_never_attends_ahead_nor_to_padding_and_a_cross_mixer_not_to_the_padding_of_its_memory() -> None:
    """The expectation does not use the maps' own account of what is allowed."""
    inputs = padded_inputs("encoder_decoder")
    maps = named(attention_maps(exact_model("encoder_decoder"), inputs))
    decoder, cross, encoder = (
        maps[f"{name}"].weights for name in ("decoder.1.mixer", "decoder.1.cross", "encoder.0.mixer")
    )
    assert (decoder.triu(1) == 0).all()
    source, target = ~inputs["valid"], ~inputs["decoder_valid"]
    assert source.any() and target.any()
    for weights, queries, keys in ((decoder, target, target), (cross, target, source), (encoder, source, source)):
        assert (weights.permute(0, 2, 1, 3)[queries] == 0).all()
        assert (weights.permute(0, 3, 1, 2)[keys] == 0).all()


def test_packed_documents_do_not_attend_to_each_other() -> None:
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2]])
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 0]])
    inputs = {"tokens": torch.arange(5, 13)[None], "segments": segments, "positions": positions}
    [first, _] = attention_maps(exact_model("decoder_only"), inputs)
    same = segments[:, :, None] == segments[:, None, :]
    assert torch.equal(first.allowed, same.tril())
    assert ((first.weights[0] > 0) == first.allowed).all()


@pytest.mark.parametrize("position", [None, Alibi, Shaw, T5Bias])
def test_the_same_head_is_shown_with_its_causal_mask_on_and_off(position: Any) -> None:
    changes = {} if position is None else {"position": position}
    model = exact_model("decoder_only", **changes)
    inputs = padded_inputs("decoder_only")
    usual, masked, free = (attention_maps(model, inputs, causal=causal) for causal in (None, True, False))
    for own, on, off in zip(usual, masked, free, strict=True):
        assert own.causal and on.causal and not off.causal
        assert torch.equal(own.weights, on.weights)
        assert (off.weights.triu(1) > 0).any()
        left = off.weights.tril()
        assert torch.allclose(on.weights, left / left.sum(-1, keepdim=True).clamp(min=1e-30), atol=1e-6)


def test_a_mask_turned_off_for_the_maps_stays_on_in_the_model() -> None:
    """The second layer's inputs, and so its maps under its own mask, are those of the causal model."""
    model = exact_model("decoder_only")
    seen: list[torch.Tensor] = []
    hook = model.get_submodule("stack.blocks.1.mixer").register_forward_pre_hook(
        lambda _, provided: seen.append(provided[0])
    )
    for causal in (None, False):
        attention_maps(model, padded_inputs("decoder_only"), causal=causal)
    hook.remove()
    assert torch.equal(seen[0], seen[1])


def test_maps_are_those_of_evaluation_whatever_the_dropout() -> None:
    inputs = padded_inputs("encoder_only")
    with_dropout, without = (small_model("encoder_only", dropout=rate).train() for rate in (0.5, 0.0))
    for noisy, still in zip(attention_maps(with_dropout, inputs), attention_maps(without, inputs), strict=True):
        assert torch.equal(noisy.weights, still.weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_looking_leaves_logits_modes_generators_statistics_gradients_and_hooks_as_they_were(family: str) -> None:
    model = small_model(family, dropout=0.3, norm=BatchNorm).train()
    model.get_submodule("head").eval()
    inputs = padded_inputs(family)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    torch.manual_seed(3)
    expected = model(**inputs)
    model.load_state_dict(state)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    attention_maps(model, inputs)
    assert torch.equal(torch.get_rng_state(), before)
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert torch.equal(model(**inputs), expected)


def test_a_probe_that_fails_leaves_no_hook_and_no_mode_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model("decoder_only").train()

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no attention today")

    monkeypatch.setattr(type(model.get_submodule("stack.blocks.0.mixer")), "attention", fail)
    with pytest.raises(RuntimeError, match="no attention today"):
        attention_maps(model, padded_inputs("decoder_only"))
    assert model.training and not any(part._forward_pre_hooks for part in model.modules())


@pytest.mark.parametrize("kind", ["full", "attention"])
def test_checkpointing_changes_no_map(kind: Any) -> None:
    model, inputs = exact_model("decoder_only"), padded_inputs("decoder_only")
    plain = attention_maps(model, inputs)
    for part in model.modules():
        if isinstance(part, Stack):
            part.checkpointing = Checkpointing(kind)
    for one, other in zip(plain, attention_maps(model.train(), inputs), strict=True):
        assert torch.equal(one.weights, other.weights)


class Wrapped(nn.Module):
    """A module that wraps a model as DDP and torch.compile do."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_a_wrapped_model_is_found_and_what_holds_none_is_refused() -> None:
    model, inputs = exact_model("decoder_only"), padded_inputs("decoder_only")
    plain, wrapped = attention_maps(model, inputs), attention_maps(Wrapped(Wrapped(model)), inputs)
    assert [one.name for one in wrapped] == [one.name for one in plain] == list(mixers_with_maps(Wrapped(model)))
    assert all(torch.equal(one.weights, other.weights) for one, other in zip(plain, wrapped, strict=True))
    with pytest.raises(ValueError, match="Linear holds no Architecture"):
        attention_maps(nn.Linear(2, 2), {})


@pytest.mark.parametrize("how", ["autocast", "cast"])
def test_bfloat16_models_give_maps_near_those_of_float32(how: str) -> None:
    model, inputs = small_model("encoder_decoder"), padded_inputs("encoder_decoder")
    exact = attention_maps(model, inputs)
    if how == "cast":
        model = model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        rounded = attention_maps(model, inputs)
    for one, other in zip(exact, rounded, strict=True):
        assert torch.allclose(one.weights, other.weights, atol=0.02)
        assert torch.allclose(other.weights.sum(-1), one.weights.sum(-1), atol=1e-5)


def test_images_of_another_number_format_are_taken() -> None:
    model = exact_model("vision_transformer")
    maps = attention_maps(model, {"images": torch.rand(2, 3, 8, 8)})
    assert [one.grid for one in maps] == [(4, 4)] * 2
    assert {(one.queries, one.keys) for one in maps} == {("images", "images")}
    assert maps[0].weights.shape == (2, 2, 17, 17)


def test_a_model_without_attention_has_no_maps() -> None:
    model = exact_model("decoder_only", mixer=RunningMean)
    assert mixers_with_maps(model) == {}
    assert attention_maps(model, padded_inputs("decoder_only")) == []


@pytest.mark.slow
@pytest.mark.process
def test_a_compiled_model_is_seen_through_and_stays_compiled() -> None:
    """The test runs in a program of its own, since the compiler cannot look through the tests' checks of shapes."""
    program = """
import torch
from headtohead.interpretability.recorded_attention import attention_maps
from small_models import small_model
model, plain = small_model("decoder_only"), small_model("decoder_only")
model.features = torch.compile(model.features, backend="aot_eager")
inputs = {"tokens": torch.arange(5, 15)[None]}
before = model(**inputs)
compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
for one, other in zip(attention_maps(model, inputs), attention_maps(plain, inputs), strict=True):
    assert torch.allclose(one.weights, other.weights, atol=1e-6)
assert torch.allclose(model(**inputs), before, atol=1e-6), "up to how sums are rounded where memory lies otherwise"
assert compiled > 0 and torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled, "nothing was compiled again"
whole = torch.compile(small_model("decoder_only"), backend="aot_eager")
assert len(attention_maps(whole, inputs)) == 2
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mixer", ["softmax_attention", "lstm"])
def test_maps_of_loops_are_numbered_by_the_layers_that_a_token_passed(mixer: str) -> None:
    model = exact_model("decoder_only", loops=3, mixer=factory("mixer", mixer))
    maps = all_maps(model, padded_inputs("decoder_only"))
    assert [one.name.split(".")[1] for one in maps] == list("012345")
    assert not torch.equal(maps[0].weights, maps[2].weights), "the same layer, which read something else"
