"""The head that finds replaced tokens, and the small generator that proposes them in training (ELECTRA, Clark et al.
2020, https://arxiv.org/abs/2003.10555)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.architectures.ledger import stack_rows
from headtohead.architectures.vocabulary_heads import MaskedLanguageModel
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import ACTIVATIONS, KEEPS_OWN_OUTPUT, Activation
from headtohead.components.linear_maps import ReadoutLinear, linear_costs
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Depth, Share, Width

GENERATOR = "head.generator."
"""The beginning of the names of the generator's weights, which no file for another use holds."""


@dataclass(frozen=True)
class GeneratorFields(FieldGroup):
    """The generator of task=replaced_token_detection, whose fields these are; other tasks have none."""

    generator_width: Share = 0.25
    """The share of the model's width that the generator has."""
    generator_layers: Depth | None = None
    """The generator's layers; None: as many as the model has."""
    generator_heads: Width | None = None
    """The generator's heads; None: as many as the model has."""
    mask_rate: Share = 0.15
    """The share of tokens that the generator restores."""

    def size(self, of_model: StackSize) -> StackSize:
        """Return the generator's size; its width is rounded to a multiple of its heads, an even one where it can be."""
        heads, layers = self.generator_heads or of_model.num_heads, self.generator_layers or of_model.num_layers
        if not 0 < self.generator_width <= 1:
            raise UsageError(
                f"task.generator_width={self.generator_width} is a share of the model's width: give one above 0 and at "
                "most 1"
            )
        unit = 2 * heads if of_model.d_model >= 2 * heads else heads
        width = max(unit, int(self.generator_width * of_model.d_model) // unit * unit)
        return StackSize(width, layers, heads)


class TokenGenerator(nn.Module):
    """head(stack(embed(x))): restores hidden tokens from the model's own embeddings, in layers that are narrower."""

    def __init__(
        self,
        embedding: nn.Parameter,
        size: StackSize,
        parts: StackParts,
        options: StackOptions,
        *,
        max_length: int | None,
        activation: Activation,
    ) -> None:
        super().__init__()
        d_model = embedding.shape[1]
        self.d_model = d_model
        self.embed = nn.Linear(d_model, size.d_model)
        own = parts.without_patterns()
        self.stack = Stack(size, own, replace(options, drop_path=0.0), causal=False, max_length=max_length)
        self.head = MaskedLanguageModel(
            size.d_model, len(embedding), norm=parts.norm, tied_to=embedding, activation=activation, width=d_model
        )

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L E"]:
        """Return the features of which the head makes logits."""
        y: Tensor = self.stack(self.embed(x), context)
        return y

    def cost_rows(self, query: CostContext, num_hidden: int) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs of a row in which so many tokens are hidden."""
        width = self.stack.d_model
        yield "embed", "head", linear_costs(self.d_model, width, self.d_model * width + width, query)
        for row in stack_rows(self.stack, "stack", query):
            yield row.path, row.kind, row.costs
        yield from self.head.cost_rows(replace(query, length=num_hidden))


class ReplacedTokenDetector(Head):
    """Dense, activation, then one logit for each token, of having been replaced.

    The generator is for training and measuring alone: calling the head needs none of it.
    """

    needs_all_logits = True
    has_stack = True

    def __init__(self, d_model: int, generator: TokenGenerator, *, mask_rate: float, activation: Activation) -> None:
        super().__init__()
        self.d_model, self.mask_rate, self.activation = d_model, mask_rate, activation
        self.act = ACTIVATIONS[activation]
        self.dense = nn.Linear(d_model, d_model)
        self.linear = ReadoutLinear(d_model, 1)
        self.generator = generator

    def forward(
        self, features: Float[Tensor, "... D"], valid: Tensor | None = None, token_types: Tensor | None = None
    ) -> Float[Tensor, "..."]:
        del valid, token_types
        logits: Tensor = self.linear(self.act(self.dense(features)))
        return logits.squeeze(-1)

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs; the generator has no part in the forward pass of a model that is used."""
        d_model = self.d_model
        saved = 0 if self.activation in KEEPS_OWN_OUTPUT else d_model * query.length * query.bytes_per_element
        dense = linear_costs(d_model, d_model, d_model * d_model + d_model, query)
        yield "head.dense", "head", dense + Costs(activation_bytes=saved)
        yield "head.linear", "head", linear_costs(d_model, 1, d_model + 1, query)
        num_hidden = max(1, round(self.mask_rate * query.length))
        for path, kind, costs in self.generator.cost_rows(query, num_hidden):
            yield f"{GENERATOR}{path}", kind, replace(costs, forward_flops=0, state_elements=0)
