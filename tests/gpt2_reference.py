"""Our decoder with the weights of a GPT-2 of `transformers`."""

from __future__ import annotations

from functools import partial

from transformers import GPT2LMHeadModel

from from_fields import from_fields
from headtohead.architectures.token_stack import DecoderOnly
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.residuals import PreNorm
from headtohead.pretrained.gpt2 import Gpt2Family


def same_weights(theirs: GPT2LMHeadModel) -> DecoderOnly:
    """Build our model with the same weights and number format, in evaluation mode."""
    config = theirs.config
    ours = from_fields(
        DecoderOnly,
        d_model=config.n_embd,
        num_layers=config.n_layer,
        num_heads=config.n_head,
        mixer=SoftmaxAttention,
        position=Learned,
        norm=LayerNorm,
        residual=PreNorm,
        feedforward=partial(DenseFeedForward, activation="gelu_tanh"),
        initialisation=gpt2,
        vocab_size=config.vocab_size,
        max_length=config.n_positions,
    ).to(theirs.dtype)
    weights = theirs.state_dict()
    taken = {
        name: part for piece in Gpt2Family().pieces(config.to_dict()) for name, part in piece.take(weights).items()
    }
    ours.load_state_dict({**taken, "head.weight": taken["embedding.weight"]})
    return ours.eval()
