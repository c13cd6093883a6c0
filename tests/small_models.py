"""One small model of each family, made without configurations; every choice can be changed by name."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from from_fields import from_fields
from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.encoder_decoder import EncoderDecoder
from headtohead.architectures.token_stack import DecoderOnly, EncoderOnly
from headtohead.architectures.vision_transformer import VisionTransformer
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.residuals import PreNorm

VOCAB_SIZE = 29
SIZE = InputSize(length=11, decoder_length=7)
TEXT: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "max_length": 32}
FAMILIES: dict[str, tuple[type[Architecture], dict[str, Any]]] = {
    "decoder_only": (DecoderOnly, TEXT),
    "encoder_only": (EncoderOnly, TEXT),
    "encoder_decoder": (EncoderDecoder, {**TEXT, "max_target_length": 16, "cross": SoftmaxCrossAttention}),
    "vision_transformer": (VisionTransformer, {"image_shape": (3, 8, 8), "num_classes": 5, "patch_size": 2}),
}

Model = TypeVar("Model", bound=torch.nn.Module)


def small_model(family: str, *, seed: int = 0, **changes: Any) -> Architecture:
    make, own = FAMILIES[family]
    shared = {
        "mixer": SoftmaxAttention,
        "position": NoPosition,
        "norm": LayerNorm,
        "residual": PreNorm,
        "feedforward": DenseFeedForward,
        "initialisation": gpt2,
    }
    torch.manual_seed(seed)
    sizes = {"d_model": 16, "num_layers": 2, "num_heads": 2}
    return from_fields(make, **{**sizes, **shared, **own, **changes})


def redraw(model: Model, *, std: float = 0.3, seed: int = 1) -> Model:
    """Every parameter redrawn, so that no zero bias or unit gain hides a mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * std)
    return model


def exact_model(family: str, **changes: Any) -> Architecture:
    """Build the model in float64, every parameter redrawn."""
    model = redraw(small_model(family, **changes).double())
    assert isinstance(model, Architecture)
    return model
