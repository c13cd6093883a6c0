"""The ledger: the costs of a model, component by component, as each declares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, CostRow, InputSize
from headtohead.components.component import CrossMixer, Mixer
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.stack import Stack
from headtohead.errors import UsageError

EMBEDDING_KINDS = ("embedding", "position", "unembedding")
"""Left out of the non-embedding parameters: tables of tokens and positions, and the matrix onto the vocabulary."""


@dataclass(frozen=True)
class Totals:
    """Whole-model figures. FLOPs are of matrix products and convolutions, one multiply-add being two, causal-exact;
    those of training are forward plus backward, without recomputation."""

    parameters: int
    non_embedding_parameters: int
    active_parameters: int
    """Those that one token meets."""
    trained_parameters: int
    """Those that are not frozen."""
    forward_flops_per_sample: int
    training_flops_per_sample: int
    forward_flops_per_token: float
    training_flops_per_token: float
    palm_flops_per_token: float | None
    """Training, by the convention 6N + 12LHQT (https://arxiv.org/abs/2204.02311, appendix B), which takes attention as
    full; None for what it does not fit."""
    state_elements: int
    """The elements that decoding carries after one sample."""
    activation_bytes: int
    """The bytes that autograd saves for one sample."""


@dataclass(frozen=True)
class Ledger:
    """Every component's costs per sample of this size, and their sums."""

    size: InputSize
    tokens: int
    rows: tuple[CostRow, ...]
    totals: Totals

    def by_kind(self) -> dict[str, Costs]:
        """Return the sums over the components of a kind, in the order in which kinds first appear."""
        kinds: dict[str, Costs] = {}
        for row in self.rows:
            kinds[row.kind] = kinds.get(row.kind, Costs()) + row.costs
        return kinds

    def flops_by_side(self) -> dict[str, float]:
        """Return the training FLOPs per source and per target token of an encoder-decoder; empty for one-sided models.

        Keys and values of the memory are made once per source token and billed to it.
        """
        if not self.size.decoder_length or not any(row.kind == "cross" for row in self.rows):
            return {}
        lengths = {"source": self.size.length, "target": self.size.decoder_length}
        totals = {side: _sum(row for row in self.rows if row.side == side) for side in lengths}
        return {side: totals[side].training_flops / length for side, length in lengths.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for records and --json."""
        return {
            "size": asdict(self.size),
            "tokens": self.tokens,
            "totals": asdict(self.totals),
            "flops_by_side": self.flops_by_side(),
            "by_kind": {kind: asdict(costs) for kind, costs in self.by_kind().items()},
            "rows": [
                {"path": row.path, "kind": row.kind, "counted": row.counted, **asdict(row.costs)} for row in self.rows
            ],
        }


def ledger(model: Architecture, size: InputSize) -> Ledger:
    """Return the costs of one sample of this size; works on the meta device."""
    rows = tuple(without_frozen_backward(model, model.cost_rows(size)))
    tokens = model.num_tokens(size)
    if tokens < 1:
        raise UsageError(f"a ledger needs a sample of at least one token, got length={size.length}.")
    total = _sum(rows)
    non_embedding = sum(row.costs.parameters for row in rows if row.kind not in EMBEDDING_KINDS)
    totals = Totals(
        parameters=total.parameters,
        non_embedding_parameters=non_embedding,
        active_parameters=total.active_parameters,
        trained_parameters=sum(held.numel() for held in model.parameters() if held.requires_grad),
        forward_flops_per_sample=total.forward_flops,
        training_flops_per_sample=total.training_flops,
        forward_flops_per_token=total.forward_flops / tokens,
        training_flops_per_token=total.training_flops / tokens,
        palm_flops_per_token=_palm(model, rows, non_embedding, tokens=tokens, scored=size.scored),
        state_elements=total.state_elements,
        activation_bytes=total.activation_bytes,
    )
    return Ledger(size=size, tokens=tokens, rows=rows, totals=totals)


def _sum(rows: Iterable[CostRow]) -> Costs:
    return sum((row.costs for row in rows), Costs())


def _palm(
    model: Architecture, rows: tuple[CostRow, ...], non_embedding: int, *, tokens: int, scored: int | None
) -> float | None:
    """Return PaLM's FLOPs: 6 for every weight that meets a token, the vocabulary's matrix included whether tied or
    not."""
    modules = list(model.modules())
    mixers = [module for module in modules if isinstance(module, Mixer)]
    if model.head.hides_input or any(isinstance(module, CrossMixer) for module in modules):
        return None
    attention = [mixer for mixer in mixers if isinstance(mixer, SoftmaxAttention) and mixer.meets_every_token]
    if not attention or len(attention) != len(mixers):
        return None
    vocabulary = sum(row.costs.forward_flops for row in rows if row.kind == "unembedding") / 2 / (scored or tokens)
    scores = 12 * tokens * sum(mixer.num_heads * mixer.head_width for mixer in attention)
    return 6 * (non_embedding + vocabulary) + scores


_HEAD_KINDS = ("head", "unembedding")
_MEMORY = ".cross.memory"
"""The row of what a cross mixer does for the source alone."""


def without_frozen_backward(model: Architecture, rows: Iterable[CostRow]) -> Iterator[CostRow]:
    """Yield the rows, in the order of computation, without the backward pass below the first trained layer: nothing is
    saved there. Where only a weight or only its input needs a gradient, half of it is left: this applies to a head's
    product and to what reads a memory; the first trained layer is billed in full."""
    needs_gradient = {"source": False, "target": False}
    """Whether anything before needs a gradient, on each side."""
    for row in rows:
        learns = any(weight.requires_grad for weight in _weights(model, row.path))
        before, costs = needs_gradient[row.side], row.costs
        if not before and not learns:
            costs = replace(costs, training_flops=costs.forward_flops, activation_bytes=0)
        elif before != learns and (row.kind in _HEAD_KINDS or row.path.endswith(_MEMORY)):
            saved = costs.activation_bytes if learns else 0
            costs = replace(costs, training_flops=costs.training_flops - costs.forward_flops, activation_bytes=saved)
        if not row.path.endswith(_MEMORY):
            needs_gradient[row.side] = before or learns
        yield replace(row, costs=costs)


def _weights(model: Architecture, path: str) -> Iterator[Tensor]:
    """Yield the parameters at a row's path; none for rows that exist in the ledger alone."""
    module: object = model
    for word in path.removesuffix(".memory").split("."):
        module = getattr(module, word, None)
    if isinstance(module, nn.Module):
        yield from module.parameters()
    elif isinstance(module, Tensor):
        yield module


def stack_rows(stack: Stack, path: str, query: CostContext) -> Iterator[CostRow]:
    """Yield one row per component; a bidirectional stack does not decode and so carries no state."""
    for below, kind, costs in stack.cost_rows(query):
        yield CostRow(f"{path}.{below}", kind, costs if stack.causal else replace(costs, state_elements=0))


Lengths = tuple[int, int]
"""Tokens of a row on the side of `tokens` and on that of `decoder_tokens`; 0 for a side that there is not."""


class RowFlops:
    """The ledger's training FLOPs of rows, computed once for every length.

    A cross mixer has a cost for a source token, a target token and a pair of them: few sizes determine all others.
    """

    def __init__(self, model: Architecture) -> None:
        self._model = model
        self._known: dict[tuple[Lengths, int], int] = {}
        self._per_target: int | None = None

    def of(self, rows: Mapping[Lengths, int], *, scored: int = 0) -> tuple[int, int]:
        """Return the FLOPs of the rows of one batch, given how many there are of each lengths and how many of their
        targets are scored, and the FLOPs spent on padding them to the longest."""
        longest = max(length for length, _ in rows), max(length for _, length in rows)
        if self._model.head.hides_input:
            count = sum(rows.values())
            return count * self._flops_at(longest, scored // count), 0
        padded = self._of_row(longest)
        own = sum(count * self._of_readable_row(lengths, longest) for lengths, count in rows.items())
        return own + scored * self._of_target(longest), sum(rows.values()) * padded - own

    def _of_readable_row(self, lengths: Lengths, longest: Lengths) -> int:
        """Return the FLOPs of a row; an external module may read a short row only if it is padded."""
        try:
            return self._of_row(lengths)
        except ValueError:
            return self._of_row(longest)

    def _of_row(self, lengths: Lengths) -> int:
        """Return the FLOPs of one row without those of the logits, which are made where a target is scored."""
        length, decoder_length = lengths
        if not length or not decoder_length:
            return self._flops_at(lengths)
        one = self._flops_at((1, 1))
        per_pair = self._flops_at((2, 2)) - self._flops_at((2, 1)) - self._flops_at((1, 2)) + one
        pairs = (length - 1) * (decoder_length - 1)
        return self._flops_at((length, 1)) + self._flops_at((1, decoder_length)) - one + pairs * per_pair

    def _of_target(self, lengths: Lengths) -> int:
        """Return the FLOPs of the logits at one position."""
        if self._per_target is None:
            self._per_target = self._flops_at(lengths, scored=1) - self._flops_at(lengths)
        return self._per_target

    def _flops_at(self, lengths: Lengths, scored: int = 0) -> int:
        if (lengths, scored) not in self._known:
            size = InputSize(length=lengths[0], decoder_length=lengths[1], scored=scored)
            rows = without_frozen_backward(self._model, self._model.cost_rows(size))
            self._known[lengths, scored] = sum(row.costs.training_flops for row in rows)
        return self._known[lengths, scored]
