"""Our models in the sizes that are compared with known implementations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.encoder_decoder import EncoderDecoder, TwoSidedTokens
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import EncoderHeadFields, HeadFields
from headtohead.architectures.token_stack import DecoderOnly, EncoderOnly, TokenFields
from headtohead.architectures.vision_transformer import VisionTransformer
from headtohead.components.component import PositionFactory
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.initialisations import gpt2
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.components.norms import LayerNorm, RmsNorm
from headtohead.components.positions.absolute import Learned
from headtohead.components.positions.relative import T5Bias
from headtohead.components.positions.rotary import Rotary
from headtohead.components.residuals import PostNorm, PreNorm
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.tasks.chunked_cross_entropy import Workspace
from headtohead.tasks.vocabulary_loss import loss_of_rows, scored_rows, vocabulary_head
from headtohead.training.optim.optimizers import adamw

Loss = Callable[[], Tensor]
WIDTH, LAYERS, HEADS = 256, 4, 4
"""The size of most models here: minutes per run."""
RATE = 3e-4
POSITIONS: dict[str, PositionFactory] = {"rotary": Rotary, "learned": Learned}


def decoder(vocab_size: int, max_length: int, position: str = "rotary") -> DecoderOnly:
    """Return GPT-2 in small, with our default positions or its own."""
    return DecoderOnly(
        StackSize(WIDTH, LAYERS, HEADS),
        StackParts(
            mixer=SoftmaxAttention,
            position=POSITIONS[position],
            norm=LayerNorm,
            residual=PreNorm,
            feedforward=partial(DenseFeedForward, activation="gelu" if position == "rotary" else "gelu_tanh"),
        ),
        tokens=TokenFields(vocab_size=vocab_size, max_length=max_length),
        initialisation=gpt2,
    )


def encoder(vocab_size: int, max_length: int, head: HeadName) -> EncoderOnly:
    """Return BERT in small, for hidden tokens or for two classes."""
    return EncoderOnly(
        StackSize(WIDTH, LAYERS, HEADS),
        StackParts(
            mixer=SoftmaxAttention,
            position=Learned,
            norm=LayerNorm,
            residual=PostNorm,
            feedforward=DenseFeedForward,
        ),
        tokens=TokenFields(vocab_size=vocab_size, max_length=max_length),
        output=EncoderHeadFields(
            head=head,
            head_bias=True,
            tie_weights=head == "masked_language_model",
            num_classes=2,
            pooling="cls",
            pooler="tanh" if head == "classifier" else "none",
        ),
        options=StackOptions(embedding_norm=True),
        initialisation=gpt2,
    )


def encoder_decoder(vocab_size: int, max_length: int) -> EncoderDecoder:
    """Return T5 in small."""
    heads = AttentionHeads(bias=False, scale=1.0)
    cross = partial(SoftmaxCrossAttention, bias=False, scale=1.0)
    return EncoderDecoder(
        StackSize(WIDTH, LAYERS, HEADS),
        StackParts(
            mixer=partial(SoftmaxAttention, heads=heads),
            position=T5Bias,
            norm=RmsNorm,
            residual=PreNorm,
            feedforward=partial(DenseFeedForward, activation="relu", bias=False),
        ),
        cross=cross,
        tokens=TwoSidedTokens(vocab_size=vocab_size, max_length=max_length, max_target_length=max_length),
        output=HeadFields(),
        scale_logits=True,
        initialisation=gpt2,
    )


def vision_transformer(side: int, patch_size: int) -> VisionTransformer:
    """Return ViT in small, for ten classes."""
    return VisionTransformer(
        StackSize(WIDTH, LAYERS, HEADS),
        StackParts(
            mixer=SoftmaxAttention, position=Learned, norm=LayerNorm, residual=PreNorm, feedforward=DenseFeedForward
        ),
        image_shape=(3, side, side),
        num_classes=10,
        patch_size=patch_size,
        initialisation=gpt2,
    )


def token_loss(model: Architecture, inputs: dict[str, Tensor], targets: Tensor) -> Loss:
    """Return the mean loss of the scored tokens as our tasks compute it."""
    workspace = Workspace()
    head = vocabulary_head(model)

    def loss() -> Tensor:
        rows, flat = scored_rows(model.features(**inputs), targets, wait=True)
        return loss_of_rows(head, rows, flat, label_smoothing=0.0, workspace=workspace).mean

    return loss


def our_step(model: Architecture, loss: Loss, *, half: bool) -> Callable[[], None]:
    """Return a training step with our optimizer."""
    return training_step(model, loss, adamw(model, lr=RATE), half=half)


def training_step(
    model: torch.nn.Module, loss: Loss, optimizer: torch.optim.Optimizer, *, half: bool
) -> Callable[[], None]:
    """Return a training step: loss, gradients clipped to a norm of 1, update."""
    parameters = list(model.parameters())

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            value = loss()
        value.backward()
        clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def their_step(model: torch.nn.Module, loss: Loss, *, half: bool) -> Callable[[], None]:
    """Return a training step with torch's AdamW as its default on this device."""
    return training_step(model, loss, torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1), half=half)
