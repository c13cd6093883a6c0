"""The ledger: what a model costs, component by component, from what each declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from headtohead.architectures.contracts import Architecture, CostRow, InputSize
from headtohead.architectures.freezing import as_trained
from headtohead.components.contracts import Costs, CrossMixer, Mixer
from headtohead.components.mixers.softmax_attention import SoftmaxAttention
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
    """What decoding carries after one sample."""
    activation_bytes: int
    """What autograd keeps of one sample."""


@dataclass(frozen=True)
class Ledger:
    """Every component's costs per sample of this size, and their sums."""

    size: InputSize
    tokens: int
    rows: tuple[CostRow, ...]
    totals: Totals

    def by_kind(self) -> dict[str, Costs]:
        """Sums over the components of a kind, in the order in which kinds first appear."""
        kinds: dict[str, Costs] = {}
        for row in self.rows:
            kinds[row.kind] = kinds.get(row.kind, Costs()) + row.costs
        return kinds

    def flops_by_side(self) -> dict[str, float]:
        """Training FLOPs per source and per target token of an encoder-decoder; empty for one-sided models.

        Keys and values of the memory are made once per source token and billed to it.
        """
        if not self.size.decoder_length or not any(row.kind == "cross" for row in self.rows):
            return {}
        lengths = {"source": self.size.length, "target": self.size.decoder_length}
        totals = {side: _sum(row for row in self.rows if row.side == side) for side in lengths}
        return {side: totals[side].training_flops / length for side, length in lengths.items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for records and --json."""
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
    """The costs of one sample of this size; works on the meta device."""
    rows = tuple(as_trained(model, model.cost_rows(size)))
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
    """6 for every weight that meets a token, the vocabulary's matrix among them whether tied or not."""
    modules = list(model.modules())
    mixers = [module for module in modules if isinstance(module, Mixer)]
    if any(isinstance(module, CrossMixer) for module in modules):
        return None
    attention = [mixer for mixer in mixers if isinstance(mixer, SoftmaxAttention)]
    if not attention or len(attention) != len(mixers):
        return None
    vocabulary = sum(row.costs.forward_flops for row in rows if row.kind == "unembedding") / 2 / (scored or tokens)
    scores = 12 * tokens * sum(mixer.num_heads * mixer.head_width for mixer in attention)
    return 6 * (non_embedding + vocabulary) + scores
