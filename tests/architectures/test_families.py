"""Every family handles order, padding, packing, tying, pooling and decoding."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.encoder_decoder import EncoderOrDecoder
from headtohead.components.embeddings import PatchEmbedding
from headtohead.components.positions.absolute import Learned, NoPosition
from headtohead.components.positions.image_positions import Rotary2d, Sinusoidal2d
from headtohead.components.positions.rotary import Rotary
from headtohead.generation.decoding_loop import greedy
from small_models import SIZE, VOCAB_SIZE, exact_model, redraw, small_model

CPU = torch.device("cpu")
TEXT_FAMILIES = ("decoder_only", "encoder_only", "encoder_decoder")
ALL_FAMILIES = (*TEXT_FAMILIES, "vision_transformer")


def exact(family: str, **changes: Any) -> Architecture:
    return exact_model(family, **changes).eval()


def tokens(num_rows: int, length: int, *, seed: int = 0) -> Tensor:
    return torch.randint(0, VOCAB_SIZE, (num_rows, length), generator=torch.Generator().manual_seed(seed))


def distance(a: Tensor, b: Tensor) -> float:
    return (a - b).detach().abs().max().item()


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("decoder_only", (3, 11, VOCAB_SIZE)),
        ("encoder_only", (3, 11, VOCAB_SIZE)),
        ("encoder_decoder", (3, 7, VOCAB_SIZE)),
        ("vision_transformer", (3, 5)),
    ],
)
def test_logits_have_the_shape_of_the_head(family: str, shape: tuple[int, ...]) -> None:
    model = small_model(family)
    assert model(**model.example_inputs(SIZE, 3, CPU)).shape == shape


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_a_classifier_gives_one_row_of_logits_per_sample(family: str) -> None:
    model = small_model(family, head="classifier", num_classes=4)
    assert model(**model.example_inputs(SIZE, 3, CPU)).shape == (3, 4)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_the_first_positional_argument_is_what_is_read(family: str) -> None:
    model = exact(family)
    inputs = model.example_inputs(SIZE, 2, CPU)
    inputs = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
    first, *others = inputs.items()
    assert distance(model(first[1], **dict(others)), model(**inputs)) == 0


def test_a_decoder_never_sees_the_future() -> None:
    model, row = exact("decoder_only", position=Rotary), tokens(1, 11)
    changed = row.clone()
    changed[0, 6] = (row[0, 6] + 1) % VOCAB_SIZE
    before, after = model(row), model(changed)
    assert distance(before[:, :6], after[:, :6]) == 0
    assert distance(before[:, 6:], after[:, 6:]) > 1e-3


def test_an_encoder_sees_everything() -> None:
    model, row = exact("encoder_only", position=Rotary), tokens(1, 11)
    changed = row.clone()
    changed[0, -1] = (row[0, -1] + 1) % VOCAB_SIZE
    assert distance(model(row)[:, 0], model(changed)[:, 0]) > 1e-3


def test_a_decoder_with_a_memory_sees_all_of_the_source_and_none_of_its_own_future() -> None:
    model, source, target = exact("encoder_decoder"), tokens(1, 9), tokens(1, 6, seed=1)
    other_source, other_target = source.clone(), target.clone()
    other_source[0, -1] = (source[0, -1] + 1) % VOCAB_SIZE
    other_target[0, 3] = (target[0, 3] + 1) % VOCAB_SIZE
    logits = model(source, decoder_tokens=target)
    assert distance(logits[:, 0], model(other_source, decoder_tokens=target)[:, 0]) > 1e-4
    moved = model(source, decoder_tokens=other_target)
    assert distance(logits[:, :3], moved[:, :3]) == 0
    assert distance(logits[:, 3:], moved[:, 3:]) > 1e-4


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_padding_changes_nothing(family: str) -> None:
    model = exact(family)
    row = tokens(1, 8)
    padded, valid = torch.cat([row, tokens(1, 3, seed=5)], 1), torch.arange(11)[None] < 8
    extra = {}
    if family == "encoder_decoder":
        target = tokens(1, 5, seed=2)
        extra = {"decoder_tokens": target}
        padded_extra = {
            "decoder_tokens": torch.cat([target, tokens(1, 2, seed=6)], 1),
            "decoder_valid": torch.arange(7)[None] < 5,
        }
        alone, beside = model(row, **extra), model(padded, valid=valid, **padded_extra)[:, :5]
    else:
        alone, beside = model(row), model(padded, valid=valid)[:, :8]
    assert distance(alone, beside) < 1e-12


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_padding_changes_no_class(family: str, pooling: str) -> None:
    model = exact(family, head="classifier", num_classes=4, pooling=pooling)
    row = tokens(1, 8)
    padded, valid = torch.cat([row, tokens(1, 3, seed=5)], 1), torch.arange(11)[None] < 8
    assert distance(model(row), model(padded, valid=valid)) < 1e-12


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_packed_documents_give_what_they_give_apart(family: str) -> None:
    model = exact(family, position=Rotary)
    first, second = tokens(1, 5), tokens(1, 6, seed=1)
    packed = model(
        torch.cat([first, second], 1),
        segments=torch.tensor([[0] * 5 + [1] * 6]),
        positions=torch.tensor([[*range(5), *range(6)]]),
    )
    assert distance(packed, torch.cat([model(first), model(second)], 1)) < 1e-12


def test_without_positions_an_encoder_is_permutation_equivariant_and_rotary_breaks_it() -> None:
    row, order = tokens(1, 9), torch.tensor([4, 2, 8, 0, 1, 7, 3, 6, 5])
    without, rotary = exact("encoder_only"), exact("encoder_only", position=Rotary)
    assert distance(without(row)[:, order], without(row[:, order])) < 1e-12
    assert distance(rotary(row)[:, order], rotary(row[:, order])) > 1e-3


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_tied_weights_are_one_parameter_and_untied_ones_two(family: str) -> None:
    tied, untied = (small_model(family, tie_weights=tie) for tie in (True, False))
    count = [sum(parameter.numel() for parameter in model.parameters()) for model in (tied, untied)]
    assert count[1] - count[0] == VOCAB_SIZE * 16
    assert tied.head.weight is tied.embedding.weight
    assert untied.head.weight is not untied.embedding.weight


def test_source_and_target_may_have_tables_of_their_own() -> None:
    shared, apart = (small_model("encoder_decoder", share_embeddings=share) for share in (True, False))
    assert shared.decoder_embedding is shared.embedding
    assert apart.head.weight is apart.decoder_embedding.weight is not apart.embedding.weight


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_embeddings_are_scaled_by_the_root_of_the_width_on_request(family: str) -> None:
    plain, scaled = (small_model(family, scale_embedding=scale) for scale in (False, True))
    row = tokens(1, 4)
    torch.testing.assert_close(scaled.embedding(row), plain.embedding(row) * math.sqrt(16))


def test_token_types_are_added_and_their_absence_means_the_first() -> None:
    model, row = exact("encoder_only"), tokens(1, 6)
    zeros = torch.zeros_like(row)
    assert distance(model(row), model(row, token_types=zeros)) == 0
    assert distance(model(row), model(row, token_types=zeros + 1)) > 1e-4
    without = exact("encoder_only", num_segments=0)
    assert distance(without(row), without(row, token_types=zeros + 1)) == 0


def test_sides_may_differ() -> None:
    model = small_model(
        "encoder_decoder",
        encoder=EncoderOrDecoder(num_layers=3),
        decoder=EncoderOrDecoder(num_layers=1, position=Rotary),
    )
    assert (model.encoder.num_layers, model.decoder.num_layers) == (3, 1)
    assert isinstance(model.decoder.position, Rotary) and not isinstance(model.encoder.position, Rotary)
    assert not model.encoder.causal and model.decoder.causal


class TestGreedy:
    def test_a_decoder_writes_what_rerunning_the_whole_prefix_writes(self) -> None:
        model, prompt = exact("decoder_only", position=Rotary), tokens(3, 4)
        prefix = prompt
        for _ in range(8):
            prefix = torch.cat([prefix, model(prefix)[:, -1].argmax(-1, keepdim=True)], 1)
        assert torch.equal(greedy(model, prompt, max_length=8), prefix[:, 4:])

    @pytest.mark.slow
    def test_an_encoder_decoder_writes_what_rerunning_the_whole_prefix_writes(self) -> None:
        model, source = exact("encoder_decoder", position=Rotary), tokens(4, 9)
        valid = torch.arange(9) < torch.tensor([9, 4, 7, 1])[:, None]
        prefix = torch.ones(4, 1, dtype=torch.long)
        for _ in range(8):
            logits = model(source, valid=valid, decoder_tokens=prefix)
            prefix = torch.cat([prefix, logits[:, -1].argmax(-1, keepdim=True)], 1)
        assert torch.equal(greedy(model, source, valid, max_length=8, bos_id=1, eos_id=None), prefix[:, 1:])

    def test_a_row_repeats_its_end_while_others_go_on(self) -> None:
        model, source = exact("encoder_decoder"), tokens(6, 9)
        free = greedy(model, source, None, max_length=7, bos_id=1, eos_id=None)
        eos = int(free[0, 2])
        written = greedy(model, source, None, max_length=7, bos_id=1, eos_id=eos)
        for row, unbounded in zip(written.tolist(), free.tolist(), strict=True):
            end = unbounded.index(eos) if eos in unbounded else 7
            assert row == unbounded[:end] + [eos] * (7 - end)


class TestVisionTransformer:
    def test_patch_embedding_is_a_strided_convolution(self) -> None:
        patches = redraw(PatchEmbedding(16, (3, 8, 12), 4).double())
        images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
        kernel = rearrange(patches.projection.weight, "d (c p q) -> d c p q", c=3, p=4)
        expected = F.conv2d(images, kernel, patches.projection.bias, stride=4)
        assert distance(patches(images), rearrange(expected, "b d h w -> b (h w) d")) < 1e-12

    def test_class_pooling_adds_one_token_and_mean_pooling_none(self) -> None:
        images = torch.rand(2, 3, 8, 8)
        assert small_model("vision_transformer", pooling="cls").features(images).shape == (2, 17, 16)
        assert small_model("vision_transformer", pooling="mean").features(images).shape == (2, 16, 16)

    def test_class_pooling_reads_the_class_token(self) -> None:
        model = exact("vision_transformer")
        images = torch.rand(2, 3, 8, 8, dtype=torch.float64)
        expected = model.head.linear(model.features(images)[:, 0])
        assert distance(model(images), expected) == 0

    @pytest.mark.parametrize("position", [Learned, Sinusoidal2d, Rotary2d])
    @pytest.mark.parametrize("pooling", ["cls", "mean"])
    def test_patches_that_change_places_change_the_answer_unless_there_are_no_positions(
        self, position: type, pooling: str
    ) -> None:
        images = torch.rand(1, 3, 8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        swapped = images.clone()
        swapped[..., 0:2, 0:2], swapped[..., 4:6, 8:10] = images[..., 4:6, 8:10], images[..., 0:2, 0:2]
        changes = {"image_shape": (3, 8, 12), "pooling": pooling}
        without, placed = (exact("vision_transformer", position=p, **changes) for p in (NoPosition, position))
        assert distance(without(images), without(swapped)) < 1e-12
        assert distance(placed(images), placed(swapped)) > 1e-4

    def test_images_of_another_shape_are_refused_with_both_shapes(self) -> None:
        with pytest.raises(ValueError, match=r"images have shape \(3, 8, 4\), the model was built for \(3, 8, 8\)"):
            small_model("vision_transformer")(torch.rand(1, 3, 8, 4))

    def test_a_patch_that_does_not_divide_the_image_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"patch_size=3 does not divide images of 8 x 8: choose a divisor of 8"):
            small_model("vision_transformer", patch_size=3)

    def test_no_image_shape_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"model\.image_shape=None must be channels, height and width"):
            small_model("vision_transformer", image_shape=None)


@pytest.mark.parametrize("family", TEXT_FAMILIES)
def test_a_missing_vocabulary_is_refused_by_name(family: str) -> None:
    with pytest.raises(ValueError, match=r"model\.vocab_size is missing"):
        small_model(family, vocab_size=None)


@pytest.mark.parametrize("field", ["d_model", "num_layers", "num_heads"])
@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_a_size_below_one_is_refused_by_name(family: str, field: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.{field}=0 must be at least 1"):
        small_model(family, **{field: 0})


def test_a_classifier_without_classes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.num_classes is missing"):
        small_model("encoder_only", head="classifier")


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_every_parameter_gets_a_finite_gradient(family: str) -> None:
    model = small_model(family)
    model(**model.example_inputs(SIZE, 2, CPU)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_a_state_dict_makes_another_model_the_same(family: str) -> None:
    first, second = exact(family), exact(family)
    redraw(second, seed=9)
    second.load_state_dict(first.state_dict())
    inputs = {n: v.double() if v.is_floating_point() else v for n, v in first.example_inputs(SIZE, 2, CPU).items()}
    assert distance(first(**inputs), second(**inputs)) == 0


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_models_are_made_on_the_meta_device_without_memory(family: str) -> None:
    with torch.device("meta"):
        model = small_model(family)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert model(**model.example_inputs(InputSize(4, 4), 2, torch.device("meta"))).is_meta


def test_dropout_reaches_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    real = F.dropout

    def watched(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        seen.append(p)
        return real(x, p, training, inplace)

    monkeypatch.setattr(F, "dropout", watched)
    model = small_model("encoder_only", head="classifier", num_classes=3, dropout=0.25)
    model(tokens(2, 5))
    assert set(seen) == {0.25}
    assert isinstance(model.head.dropout, nn.Dropout) and model.head.dropout.p == 0.25
