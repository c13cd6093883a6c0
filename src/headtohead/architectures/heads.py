"""Heads turn features into what a task asks for, by name: classes, tags, spans, a number, logits of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.architectures.head_names import HEADS, HeadName
from headtohead.architectures.pooling import PoolerName, Pooling, known_pooling, make_pooler, pool
from headtohead.components.block_parts import Norm
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import Activation
from headtohead.components.linear_maps import ReadoutLinear, linear_costs
from headtohead.components.soft_cap import LogitRange
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Count, Positive, Vocabulary


@dataclass(frozen=True)
class HeadFields(FieldGroup):
    """The head of a model over tokens, and where the weights of its logits come from."""

    head: HeadName = "language_model"
    tie_weights: bool = True
    head_bias: bool = False
    """Whether the logits over the vocabulary have a bias each."""
    logit_cap: Positive | None = None
    """The bound c of logits over a vocabulary, which become c tanh(logit / c), as in Gemma 2."""
    logit_scale: Positive | None = None
    """The factor of logits over a vocabulary, before their biases and their bound, as in Cohere 2."""
    num_future_tokens: Count = 1
    """The tokens that a head of several predicts from every position; the task gives it."""

    def tied_to(self, embedding: nn.Parameter) -> nn.Parameter | None:
        """Return the embedding where the head shares its weights."""
        return embedding if self.tie_weights else None


@dataclass(frozen=True)
class SequenceHeadFields(HeadFields):
    """The same of a model that may also classify: how many classes, and what it pools."""

    num_classes: Vocabulary | None = None
    pooling: Pooling = "last"


@dataclass(frozen=True)
class EncoderHeadFields(SequenceHeadFields):
    """The same of an encoder, whose head may have layers of its own."""

    pooler: PoolerName = "none"
    head_activation: Activation = "gelu"
    head_dense_bias: bool = True


@dataclass(frozen=True)
class ClassHeadFields(FieldGroup):
    """The head of a model that classifies whole samples: how many classes, and what it pools."""

    num_classes: Vocabulary | None
    head: HeadName = "classifier"
    pooling: Literal["mean"] = "mean"
    """The vector that the classes are read from: the mean over all positions."""

    def make(self, d_model: int, *, norm: Callable[[int], Norm], dropout: float) -> Head:
        """Return the head for features of this width."""
        return make_head(
            self.head,
            d_model,
            vocab_size=None,
            num_classes=self.num_classes,
            norm=norm,
            tied_to=None,
            bias=True,
            pooling=self.pooling,
            dropout=dropout,
        )


_CLASSES = {"classifier": "labels", "tagger": "tags"}


def _noise(dropout: nn.Dropout, d_model: int, query: CostContext) -> Costs:
    """Return the costs of the mask that dropout saves."""
    return Costs(activation_bytes=d_model * query.length * query.bytes_per_element if dropout.p > 0 else 0)


class IdentityHead(Head):
    """No head: the model's features are the logits."""

    needs_all_logits = True

    def forward(
        self,
        features: Tensor,
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Tensor:
        del valid, token_types
        return features

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        del query
        return iter(())


class Classifier(Head):
    """One vector per sequence, then logits of the classes; `pooler` is a layer between the two."""

    def __init__(
        self, d_model: int, num_classes: int, *, pooling: str, pooler: str = "none", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.pooling = known_pooling(pooling)
        self.pooler = make_pooler(pooler, d_model)
        self.dropout = nn.Dropout(dropout)
        self.linear = ReadoutLinear(d_model, num_classes)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B C"]:
        del token_types
        pooled = pool(features, valid, self.pooling)
        y: Tensor = self.linear(self.dropout(pooled if self.pooler is None else self.pooler(pooled)))
        return y

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs once per sequence, however long."""
        num_classes, d_model = self.linear.weight.shape
        once = replace(query, length=1)
        if self.pooler is not None:
            saved = Costs(activation_bytes=self.pooler.saved_elements * query.bytes_per_element)
            yield "head.pooler", "head", linear_costs(d_model, d_model, d_model * d_model + d_model, once) + saved
        linear = linear_costs(d_model, num_classes, d_model * num_classes + num_classes, once)
        yield "head", "head", linear + _noise(self.dropout, d_model, once)


class Regressor(Classifier):
    """One vector per sequence, then one number."""

    def __init__(self, d_model: int, *, pooling: str, pooler: str = "none", dropout: float = 0.0) -> None:
        super().__init__(d_model, 1, pooling=pooling, pooler=pooler, dropout=dropout)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, " B"]:
        return super().forward(features, valid, token_types).squeeze(1)


class Tagger(Head):
    """Logits of a tag for every token."""

    def __init__(self, d_model: int, num_classes: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = ReadoutLinear(d_model, num_classes)

    def forward(
        self,
        features: Float[Tensor, "... D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "... C"]:
        del valid, token_types
        y: Tensor = self.linear(self.dropout(features))
        return y

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        num_classes, d_model = self.linear.weight.shape
        linear = linear_costs(d_model, num_classes, d_model * num_classes + num_classes, query)
        yield "head", "head", linear + _noise(self.dropout, d_model, query)


class Span(Head):
    """Two logits for every token, of being the first and the last of an answer; where there are token types, an answer
    is in the second text (Devlin et al. 2019, https://arxiv.org/abs/1810.04805, section 4.2)."""

    needs_all_logits = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = ReadoutLinear(d_model, 2)

    def forward(
        self,
        features: Float[Tensor, "B L D"],
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B L 2"]:
        logits: Tensor = self.linear(features)
        for allowed in (valid, None if token_types is None else token_types == 1):
            if allowed is not None:
                # Finite, so that a row without any position for an answer makes no NaN.
                logits = logits.masked_fill(~allowed.unsqueeze(-1), torch.finfo(logits.dtype).min)
        return logits

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        d_model = self.linear.weight.shape[1]
        yield "head", "head", linear_costs(d_model, 2, 2 * d_model + 2, query)


def name_of(head: Head) -> HeadName:
    """Return the task's name for a head of this class."""
    own = f"{type(head).__module__}.{type(head).__qualname__}"
    return next(name for name, target in HEADS.items() if target == own)


def make_head(
    name: str,
    d_model: int,
    *,
    vocab_size: int | None,
    num_classes: int | None,
    norm: Callable[[int], Norm],
    tied_to: nn.Parameter | None,
    bias: bool,
    pooling: str,
    dropout: float,
    pooler: str = "none",
    activation: Activation = "gelu",
    scale_logits: bool = False,
    num_future_tokens: int = 1,
    dense_bias: bool = True,
    logit_cap: float | None = None,
    logit_scale: float | None = None,
    width: int | None = None,
) -> Head:
    """Build the head that a task asks for, from those of the options that its constructor names."""
    if name not in HEADS:
        raise UsageError(f"head={name!r} is unknown: choose one of {', '.join(HEADS)}.")
    if name == "pixel_decoder":
        raise UsageError("head=pixel_decoder restores patches of images: choose model=vision_transformer.")
    if name == "replaced_token_detector":
        raise UsageError("head=replaced_token_detector has a generator beside an encoder: choose model=encoder_only.")
    options = {
        "vocab_size": vocab_size,
        "num_classes": num_classes,
        "norm": norm,
        "tied_to": tied_to,
        "bias": bias,
        "pooling": pooling,
        "dropout": dropout,
        "pooler": pooler,
        "activation": activation,
        "scale": scale_logits,
        "num_future_tokens": num_future_tokens,
        "dense_bias": dense_bias,
        "logits": LogitRange(factor=1.0 if logit_scale is None else logit_scale, cap=logit_cap),
        "width": width,
    }
    make = _class_of(name)
    named = {option: value for option, value in options.items() if option in signature(make).parameters}
    if "num_classes" in named and not num_classes:
        raise UsageError(
            f"model.num_classes is missing: a {name} needs data with {_CLASSES[name]}, or the number itself."
        )
    if "vocab_size" in named and not vocab_size:
        raise UsageError(
            f"model.vocab_size is missing: head={name} predicts tokens; give data with tokens, or the number itself."
        )
    head: Head = make(d_model, **named)
    return head


def _class_of(name: str) -> Callable[..., Head]:
    module, _, own = HEADS[cast("HeadName", name)].rpartition(".")
    made: Callable[..., Head] = getattr(import_module(module), own)
    return made
