"""The models before transformers treat their inputs as documented, and cost what they declare."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from classic_models import IMAGE, MAKERS, SIZE, VOCAB_SIZE, classic_model, exact_classic
from headtohead.architectures.architecture import Architecture, DecodingModel, InputSize
from headtohead.architectures.ledger import ledger
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.mixers.attention.memory_attention import LuongAttention
from headtohead.components.mixers.recurrent.torch_recurrence import Gru, Lstm, TanhRnn
from headtohead.components.mixers.reference.recurrent import ReferenceGru as SlowGru
from headtohead.components.norms import BatchNorm, LayerNorm
from headtohead.components.residuals import NoResidual, PreNorm
from headtohead.generation.decoding_loop import greedy
from headtohead.interpretability.recorded_attention import attention_maps

CPU = torch.device("cpu")


def tokens(num_rows: int, length: int, *, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB_SIZE, (num_rows, length), generator=torch.Generator().manual_seed(seed))


def distance(a: Tensor, b: Tensor) -> float:
    return (a - b).detach().abs().max().item()


def inputs_of(model: Architecture, num_rows: int = 2) -> dict[str, Tensor]:
    torch.manual_seed(1)
    exact = next(model.parameters()).dtype
    made = model.example_inputs(SIZE, num_rows, CPU)
    return {name: value.to(exact) if value.is_floating_point() else value for name, value in made.items()}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("recurrent", (3, 11, VOCAB_SIZE)),
        ("recurrent_both_ways", (3, 5)),
        ("recurrent_encoder_decoder", (3, 7, VOCAB_SIZE)),
        ("cnn", (3, 5)),
        ("resnet", (3, 5)),
        ("convnext", (3, 5)),
        ("swin", (3, 5)),
        ("mlp_of_words", (3, 5)),
        ("mlp_of_pixels", (3, 5)),
        ("text_cnn", (3, 5)),
    ],
)
def test_logits_have_the_shape_of_the_head(name: str, shape: tuple[int, ...]) -> None:
    model = classic_model(name)
    assert model(**inputs_of(model, 3)).shape == shape


@pytest.mark.parametrize("name", MAKERS)
def test_the_first_positional_argument_is_what_is_read(name: str) -> None:
    model = exact_classic(name)
    first, *others = inputs_of(model).items()
    assert distance(model(first[1], **dict(others)), model(**dict([first, *others]))) == 0


@pytest.mark.parametrize("name", MAKERS)
def test_every_parameter_gets_a_finite_gradient(name: str) -> None:
    model = classic_model(name)
    model(**inputs_of(model)).square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize("name", MAKERS)
def test_models_are_made_on_the_meta_device_without_memory(name: str) -> None:
    with torch.device("meta"):
        model = classic_model(name)
    assert all(parameter.is_meta for parameter in model.parameters())
    ledger(model, SIZE)


@pytest.mark.parametrize("name", MAKERS)
def test_declared_costs_are_what_is_counted(name: str) -> None:
    """The slow twin of a cell is counted where a kernel of torch hides its products."""
    changes: dict[str, Any] = {"mixer": SlowGru} if name.startswith("recurrent") else {}
    model = classic_model(name, **changes)
    totals = ledger(model, SIZE).totals
    assert totals.parameters == sum(parameter.numel() for parameter in model.parameters())
    with counting() as forward:
        logits = model(**inputs_of(model, 1))
    with counting() as backward:
        logits.sum().backward()
    assert totals.forward_flops_per_sample == forward.products
    assert totals.training_flops_per_sample == forward.products + backward.products


@pytest.mark.parametrize("name", MAKERS)
def test_declared_activations_are_what_autograd_saves(name: str) -> None:
    model = classic_model(name)
    inputs = inputs_of(model, 1)
    with saved_bytes(model) as saved:
        logits = model(**inputs)
    assert ledger(model, SIZE).totals.activation_bytes == pytest.approx(saved(), rel=0.05)
    del logits


@pytest.mark.parametrize("residual", [NoResidual, PreNorm])
@pytest.mark.parametrize("cell", [Gru, Lstm, TanhRnn])
def test_a_state_that_the_next_layer_reads_is_declared_once(cell: Any, residual: Any) -> None:
    for changes in ({}, {"norm": LayerNorm}, {"dropout": 0.1}, {"num_layers": 3}):
        model = classic_model("recurrent", mixer=cell, residual=residual, **changes)
        with saved_bytes(model) as saved:
            logits = model(**inputs_of(model, 1))
        assert ledger(model, SIZE).totals.activation_bytes == saved()
        del logits


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
@pytest.mark.parametrize("name", ["cnn", "resnet", "mlp_of_pixels"])
def test_declared_activations_follow_the_activation(name: str, activation: str) -> None:
    changes: dict[str, Any] = {"dropout": 0.2} if name.startswith("mlp") else {"norm": LayerNorm}
    model = classic_model(name, activation=activation, **changes)
    with saved_bytes(model) as saved:
        logits = model(**inputs_of(model, 1))
    assert ledger(model, SIZE).totals.activation_bytes == pytest.approx(saved(), rel=0.05)
    del logits


@pytest.mark.parametrize("name", ["recurrent_both_ways", "mlp_of_words", "text_cnn"])
def test_padding_changes_no_class(name: str) -> None:
    model, row = exact_classic(name), tokens(1, 7)
    padded, valid = torch.cat([row, tokens(1, 4, seed=5)], 1), torch.arange(11)[None] < 7
    assert distance(model(row), model(padded, valid=valid)) < 1e-12


def test_a_text_shorter_than_every_window_has_a_class() -> None:
    model = exact_classic("text_cnn", widths=(5, 9))
    assert model(tokens(2, 1)).isfinite().all()


def test_a_window_sees_as_many_words_as_it_is_wide() -> None:
    model, row = exact_classic("text_cnn", widths=(3,)), tokens(1, 9)
    result = F.conv1d(
        F.pad(model.embedding(row).mT, (0, 2)),
        model.convolutions.convolutions[0].weight,
        model.convolutions.convolutions[0].bias,
    )
    assert distance(model.features(row)[0, 0], result[0].max(-1).values.relu()) < 1e-12


def test_a_text_longer_than_a_perceptron_is_wide_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a text of 12 tokens is longer than model\.max_length=11"):
        classic_model("mlp_of_words")(tokens(1, 12))


@pytest.mark.parametrize("name", ["cnn", "resnet", "convnext", "mlp_of_pixels"])
def test_images_of_another_shape_are_refused_with_both_shapes(name: str) -> None:
    with pytest.raises(ValueError, match=r"images have shape \(3, 6, 8\), the model was built for \(3, 8, 6\)"):
        classic_model(name)(torch.rand(1, 3, 6, 8))


@pytest.mark.parametrize("name", ["cnn", "resnet"])
def test_stages_halve_the_image_and_double_the_channels(name: str) -> None:
    model = classic_model(name, num_layers=5, num_stages=3, d_model=32)
    widths = [width for width in model.modules() if isinstance(width, BatchNorm)]
    assert {norm.d_model for norm in widths} == {8, 16, 32}
    assert model.features(torch.rand(1, *IMAGE)).shape == (1, 2 * 2, 32)


def test_a_residual_block_whose_convolutions_are_silent_gives_its_stream() -> None:
    model = exact_classic("resnet", num_layers=1, num_stages=1)
    block = model.layers[1]
    with torch.no_grad():
        block.second.norm.weight.zero_()
        block.second.norm.bias.zero_()
    x = torch.rand(1, 16, 8, 6, dtype=torch.float64)
    assert block.shortcut is None
    assert torch.equal(block(x), x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_stages": 4}, r"model\.num_stages=4 must be at least 1 and at most model\.num_layers=3"),
        ({"num_stages": 3, "d_model": 18}, r"model\.num_stages=3 halves model\.d_model=18"),
        ({"kernel": 4}, "kernel=4 is not odd"),
    ],
)
def test_what_no_network_can_be_built_of_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        classic_model("cnn", **changes)


class TestRecurrent:
    def test_one_way_it_ignores_later_tokens_and_both_ways_it_sees_them(self) -> None:
        row = tokens(1, 11)
        changed = row.clone()
        changed[0, 6] = (row[0, 6] + 1) % VOCAB_SIZE
        one, both = (exact_classic("recurrent", bidirectional=b) for b in (False, True))
        assert distance(one(row)[:, :6], one(changed)[:, :6]) == 0
        assert distance(both(row)[:, :6], both(changed)[:, :6]) > 1e-6

    def test_packed_documents_give_what_they_give_apart(self) -> None:
        for both in (False, True):
            model = exact_classic("recurrent", bidirectional=both)
            first, second = tokens(1, 5), tokens(1, 6, seed=1)
            packed = model(torch.cat([first, second], 1), segments=torch.tensor([[0] * 5 + [1] * 6]))
            assert distance(packed, torch.cat([model(first), model(second)], 1)) < 1e-12

    @pytest.mark.parametrize("cell", [Lstm, partial(Lstm, bias=False)])
    def test_it_writes_what_rerunning_the_whole_prefix_writes(self, cell: Any) -> None:
        model, prompt = exact_classic("recurrent", mixer=cell), tokens(3, 4)
        assert isinstance(model, DecodingModel)
        prefix = prompt
        for _ in range(8):
            prefix = torch.cat([prefix, model(prefix)[:, -1].argmax(-1, keepdim=True)], 1)
        assert torch.equal(greedy(model, prompt, max_length=8), prefix[:, 4:])

    def test_prompts_of_unequal_length_are_continued_as_each_is_alone(self) -> None:
        model, prompts = exact_classic("recurrent", mixer=Lstm), tokens(2, 5)
        assert isinstance(model, DecodingModel)
        valid = torch.tensor([[True] * 5, [False, False, True, True, True]])
        together = greedy(model, prompts, valid, max_length=6)
        assert torch.equal(together[1:], greedy(model, prompts[1:, 2:], max_length=6))

    def test_both_ways_it_refuses_to_write(self) -> None:
        model = exact_classic("recurrent", bidirectional=True)
        assert isinstance(model, DecodingModel)
        with pytest.raises(ValueError, match="cannot decode step by step"):
            greedy(model, tokens(1, 4), max_length=2)

    def test_decoding_carries_as_much_after_many_tokens_as_after_one(self) -> None:
        states = [
            ledger(classic_model("recurrent"), InputSize(length=length)).totals.state_elements for length in (1, 100)
        ]
        assert states == [2 * 16, 2 * 16]

    def test_cells_may_stand_in_a_residual_stream(self) -> None:
        model = exact_classic("recurrent", residual=PreNorm, norm=LayerNorm, num_layers=3)
        assert model(tokens(2, 5)).isfinite().all()


class TestRecurrentEncoderDecoder:
    @pytest.mark.parametrize("cross", [None, *(partial(LuongAttention, score=s) for s in ("dot", "general", "concat"))])
    def test_it_writes_what_rerunning_the_whole_prefix_writes(self, cross: Any) -> None:
        model = exact_classic("recurrent_encoder_decoder", **({} if cross is None else {"cross": cross}))
        assert isinstance(model, DecodingModel)
        source, valid = tokens(4, 9), torch.arange(9) < torch.tensor([9, 4, 7, 1])[:, None]
        prefix = torch.ones(4, 1, dtype=torch.long)
        for _ in range(6):
            logits = model(source, valid=valid, decoder_tokens=prefix)
            prefix = torch.cat([prefix, logits[:, -1].argmax(-1, keepdim=True)], 1)
        assert torch.equal(greedy(model, source, valid, max_length=6, bos_id=1), prefix[:, 1:])

    def test_its_attention_is_shown_like_any_other(self) -> None:
        model = exact_classic("recurrent_encoder_decoder")
        source, target = tokens(2, 9), tokens(2, 5, seed=1)
        valid = torch.arange(9) < torch.tensor([9, 4])[:, None]
        maps = attention_maps(model, {"tokens": source, "valid": valid, "decoder_tokens": target})
        assert [(result.name, result.kind) for result in maps] == [
            ("decoder.0.cross", "cross"),
            ("decoder.1.cross", "cross"),
        ]
        for result in maps:
            assert result.weights.shape == (2, 1, 5, 9)
            assert (result.weights[1, ..., 4:] == 0).all()
            torch.testing.assert_close(result.weights.sum(-1), torch.ones(2, 1, 5))

    def test_source_and_target_are_billed_apart(self) -> None:
        model = classic_model("recurrent_encoder_decoder", num_layers=1)
        d, source, target = 16, SIZE.length, SIZE.decoder_length
        encoder, memory = 2 * 12 * d**2, 2 * d**2
        decoder = 12 * d**2 + 2 * d**2 + 2 * source * d + 2 * source * d + 4 * d**2 + 2 * d * VOCAB_SIZE
        assert ledger(model, SIZE).flops_by_side() == {"source": 3 * (encoder + memory), "target": 3 * decoder}
        assert target > 0


def test_the_memory_alone_tells_the_decoder_of_the_source() -> None:
    model, target = exact_classic("recurrent_encoder_decoder"), tokens(1, 5, seed=3)
    sources = [tokens(1, 6, seed=seed) for seed in range(3)]
    logits = [model(source, decoder_tokens=target) for source in sources]
    assert all(distance(a, b) > 1e-6 for a, b in pairwise(logits))
