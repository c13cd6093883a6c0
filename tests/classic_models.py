"""One small model of each family that is not a transformer, made without configurations."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from from_fields import from_fields
from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.encoder_decoder import RecurrentEncoderDecoder
from headtohead.architectures.image_convolution import Cnn, ConvNext, ResNet
from headtohead.architectures.mlp import Mlp
from headtohead.architectures.swin import Swin
from headtohead.architectures.text_cnn import TextCnn
from headtohead.architectures.token_stack import DecoderOnly
from headtohead.components.feedforwards import NoFeedForward
from headtohead.components.initialisations import gpt2, he, xavier
from headtohead.components.mixers.attention.memory_attention import BahdanauAttention
from headtohead.components.mixers.recurrent.torch_recurrence import Gru
from headtohead.components.norms import BatchNorm, LayerNorm, NoNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.residuals import NoResidual
from small_models import redraw

VOCAB_SIZE = 29
SIZE = InputSize(length=11, decoder_length=7)
IMAGE = (3, 8, 6)
CELLS: dict[str, Any] = {
    "d_model": 16,
    "num_layers": 2,
    "num_heads": 1,
    "mixer": Gru,
    "position": NoPosition,
    "norm": NoNorm,
    "residual": NoResidual,
    "feedforward": NoFeedForward,
    "initialisation": xavier,
    "vocab_size": VOCAB_SIZE,
    "max_length": 32,
}
CONVOLUTIONS: dict[str, Any] = {
    "d_model": 16,
    "num_layers": 3,
    "norm": BatchNorm,
    "initialisation": he,
    "image_shape": IMAGE,
    "num_classes": 5,
}
DENSE: dict[str, Any] = {"d_model": 16, "num_layers": 2, "initialisation": he, "num_classes": 5}
WORDS: dict[str, Any] = {"vocab_size": VOCAB_SIZE, "max_length": 11, "image_shape": None}
PIXELS: dict[str, Any] = {"vocab_size": None, "max_length": None, "image_shape": IMAGE}
MAKERS: dict[str, Any] = {
    "recurrent": partial(from_fields, DecoderOnly, **CELLS),
    "recurrent_both_ways": partial(
        from_fields, DecoderOnly, **CELLS, bidirectional=True, head="classifier", num_classes=5
    ),
    "recurrent_encoder_decoder": partial(
        from_fields, RecurrentEncoderDecoder, **CELLS, cross=BahdanauAttention, max_target_length=16
    ),
    "cnn": partial(from_fields, Cnn, **CONVOLUTIONS),
    "resnet": partial(from_fields, ResNet, **CONVOLUTIONS),
    "convnext": partial(from_fields, ConvNext, **{**CONVOLUTIONS, "norm": LayerNorm, "initialisation": gpt2}),
    "swin": partial(
        from_fields,
        Swin,
        **{**CONVOLUTIONS, "norm": LayerNorm, "initialisation": gpt2, "image_shape": (3, 8, 12)},
        depths=[2, 1],
        num_heads=4,
        patch_size=1,
        window=2,
    ),
    "mlp_of_words": partial(from_fields, Mlp, **DENSE, **WORDS),
    "mlp_of_pixels": partial(from_fields, Mlp, **DENSE, **PIXELS),
    "text_cnn": partial(
        from_fields,
        TextCnn,
        d_model=16,
        initialisation=he,
        vocab_size=VOCAB_SIZE,
        num_classes=5,
        widths=(2, 3, 12),
        num_filters=6,
        dropout=0.0,
    ),
}


def classic_model(name: str, **changes: Any) -> Architecture:
    torch.manual_seed(0)
    made: Architecture = MAKERS[name](**changes)
    return made


def exact_classic(name: str, **changes: Any) -> Architecture:
    """Build the model in float64 and evaluation mode, every parameter redrawn."""
    model = redraw(classic_model(name, **changes).double())
    assert isinstance(model, Architecture)
    return model.eval()
