"""Pooling against PoolFormer's own, on images and on sequences."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from transformers.models.poolformer.modeling_poolformer import PoolFormerPooling

from contracts.choices import slow_twin
from headtohead.components.component import Context
from headtohead.components.mixers.convolution.pooling import Pooling
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.diagnostics.laws.attention_laws import explicit_attention
from headtohead.diagnostics.laws.cost_laws import declared_activations
from headtohead.diagnostics.laws.equivalence_laws import slow_twin as equals_slow_twin
from headtohead.diagnostics.laws.law_subject import LawSubject, alone
from headtohead.diagnostics.laws.masking_laws import packed_documents, padding_invariance

IMAGES = ("task=image_classification", "data=digits", "model=vision_transformer", "model/mixer=pooling")


@pytest.mark.parametrize("pool_size", [3, 5])
@pytest.mark.parametrize("grid", [(4, 5), (1, 7), (6, 1), (2, 2)])
@pytest.mark.parametrize("leading", [0, 1])
def test_patches_are_pooled_as_in_poolformer(grid: tuple[int, int], pool_size: int, leading: int) -> None:
    rows, columns = grid
    length = rows * columns + leading
    mixer = Pooling(6, num_heads=1, causal=False, max_length=length, grid=grid, pool_size=pool_size)
    x = torch.randn(2, length, 6, dtype=torch.float64, requires_grad=True)
    published = PoolFormerPooling(pool_size)(x[:, leading:].mT.unflatten(2, grid)).flatten(2).mT
    y = mixer(x, Context())
    torch.testing.assert_close(y[:, leading:], published, rtol=0, atol=1e-12)
    assert not y[:, :leading].any()
    weights = torch.randn_like(published)
    own, theirs = (torch.autograd.grad((part * weights).sum(), x)[0] for part in (y[:, leading:], published))
    torch.testing.assert_close(own, theirs, rtol=0, atol=1e-12)


def test_a_token_of_a_sequence_has_the_mean_of_its_neighbours() -> None:
    mixer = Pooling(1, num_heads=1, causal=False)
    x = torch.tensor([[[1.0], [2.0], [6.0], [10.0]]])
    assert mixer(x, Context()).flatten().tolist() == [0.5, 1.0, 0.0, -2.0]


@pytest.mark.parametrize("law", [explicit_attention, equals_slow_twin, padding_invariance, packed_documents])
@pytest.mark.parametrize("leading", [0, 1, 3])
def test_laws_hold_over_the_patches_of_an_image(law: object, leading: int) -> None:
    fast = partial(Pooling, pool_size=3)
    made, twin = (
        partial(alone(kind, causal=False, max_length=10 + leading), grid=(2, 5)) for kind in (fast, slow_twin(fast))
    )
    law(LawSubject(made, twin, length=11))


def test_images_declare_every_byte() -> None:
    made = partial(alone(partial(Pooling), causal=False, max_length=11), grid=(2, 5))
    declared_activations(LawSubject(made, dtype=torch.float32, length=11), tolerance=0.0)


@pytest.mark.parametrize("pool_size", [1, 2, 4])
def test_a_pool_without_a_middle_or_neighbours_is_refused(pool_size: int) -> None:
    with pytest.raises(ValueError, match="choose an odd number from 3 on"):
        Pooling(4, num_heads=1, causal=False, pool_size=pool_size)


@pytest.mark.slow
def test_a_class_token_that_would_see_no_patch_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"sees no patch through model/mixer=pooling: use model\.pooling=mean"):
        compose_checked("train", [*IMAGES])
    compose_checked("train", [*IMAGES, "model.pooling=mean"])
    compose_checked("train", [*IMAGES, "model.pattern=[pooling,softmax_attention]", "model.num_layers=2"])


def test_positions_that_pooling_would_not_read_and_causal_models_are_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="model/position=rotary_2d rotates queries and keys, and model/mixer=po"
    ):
        compose_checked("train", [*IMAGES, "model.pooling=mean", "model/position=rotary_2d"])
    with pytest.raises(ConfigurationError, match="model/mixer=pooling cannot be causal"):
        compose_checked("train", ["model/mixer=pooling"])
