"""Our decoder with the weights of a GPT-2 of `transformers`."""

from __future__ import annotations

from functools import partial

from transformers import GPT2LMHeadModel

from headtohead.architectures.decoder_only import DecoderOnly
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.softmax_attention import SoftmaxAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.learned import Learned
from headtohead.components.residuals import Pre
from headtohead.pretrained.gpt2 import Gpt2


def same_weights(theirs: GPT2LMHeadModel) -> DecoderOnly:
    """In the same number format, in evaluation mode."""
    config = theirs.config
    ours = DecoderOnly(
        config.n_embd,
        config.n_layer,
        config.n_head,
        mixer=SoftmaxAttention,
        position=Learned,
        norm=LayerNorm,
        residual=Pre,
        feedforward=partial(DenseFeedForward, activation="gelu_tanh"),
        initialisation=gpt2,
        vocab_size=config.vocab_size,
        max_length=config.n_positions,
    ).to(theirs.dtype)
    weights = theirs.state_dict()
    taken = {name: part for piece in Gpt2().pieces(config.to_dict()) for name, part in piece.take(weights).items()}
    ours.load_state_dict({**taken, "head.weight": taken["embedding.weight"]})
    return ours.eval()
