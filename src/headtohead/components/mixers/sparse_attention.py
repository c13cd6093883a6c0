"""What attention by a pattern shares: softmax over those keys alone that a query looks at, masks made for them alone,
and a cache of those keys that later queries may look at (survey: Tay et al. 2020, https://arxiv.org/abs/2009.06732).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.attending import softmax_weights
from headtohead.components.contracts import Context, CostQuery, Costs, Position, State
from headtohead.components.mixers.documents import by_document, reordered, starts
from headtohead.components.mixers.placed_state import PlacedState, empty_state
from headtohead.components.mixers.softmax_attention import SoftmaxAttention, attend, merge_heads
from headtohead.components.scores import as_bias, compute_dtype


def score_bias(
    encoding: Position | None,
    q: Float[Tensor, "B H L K"],
    query_positions: Int[Tensor, "#B L"],
    key_positions: Int[Tensor, "#B M"],
    allowed: Bool[Tensor, "#B 1 #L M"],
    scale: float,
) -> Float[Tensor, "#B #H #L M"]:
    """Minus infinity where not allowed, else what the position encoding adds to the scores."""
    bias = as_bias(allowed, q.dtype)
    if encoding is None or not encoding.biases_scores:
        return bias
    own = encoding.bias(q if encoding.bias_reads_queries else None, query_positions, key_positions)
    assert own is not None, "biases_scores promises a bias"
    return (own * scale if encoding.bias_reads_queries else own).to(q.dtype) + bias


def positions_of(context: Context, x: Tensor) -> Int[Tensor, "#B L"]:
    """Where the tokens of x[B, L, ...] stand."""
    return torch.arange(x.shape[1], device=x.device)[None] if context.positions is None else context.positions


def moved(context: Context, x: Tensor, positions: Int[Tensor, "#B L"], valid: Bool[Tensor, "B L"]) -> Context:
    """The context of tokens that were put elsewhere, one document to a row: what was made for the rows as they were,
    these mixers do not read."""
    encoding = context.encoding
    rotation = None if encoding is None else encoding.rotation(positions, compute_dtype(x))
    return Context(valid=valid, positions=positions, causal=context.causal, encoding=encoding, rotation=rotation)


def apart(
    x: Float[Tensor, "B L D"], context: Context
) -> tuple[Float[Tensor, "N T D"], Context, Callable[[Tensor], Tensor]]:
    """Packed documents in rows of their own, and the way back; rows that are not packed as they are."""
    rows = by_document(x, context)
    if rows is None:
        return x, context, lambda y: y
    positions = positions_of(context, x).expand(x.shape[:2])
    own = positions.new_zeros(rows.valid.shape).index_put((rows.row, rows.place), positions)
    return rows.x, moved(context, x, own, rows.valid), rows.back


def on_the_left(
    x: Float[Tensor, "B L D"], context: Context
) -> tuple[Float[Tensor, "B L D"], Context, Callable[[Tensor], Tensor]]:
    """Real tokens before padding, and the way back."""
    if context.valid is None:
        return x, context, lambda y: y
    order = (~context.valid).long().argsort(dim=1, stable=True)
    positions = reordered(positions_of(context, x).expand(x.shape[:2]), order)
    valid, back = reordered(context.valid, order), order.argsort(dim=1)
    return reordered(x, order), moved(context, x, positions, valid), lambda y: reordered(y, back)


def places_of(context: Context, x: Tensor) -> tuple[Int[Tensor, "#B L"], Int[Tensor, "#B L"]]:
    """The place of each token in its document, and how many real tokens that has."""
    index = torch.arange(x.shape[1], device=x.device)[None]
    begins = starts(context)
    if begins is None or context.segments is None:
        length = index.new_full((1, 1), x.shape[1]) if context.valid is None else context.valid.sum(1, keepdim=True)
        return index, length.expand(-1, x.shape[1])
    same = context.segments[:, :, None] == context.segments[:, None, :]
    real = same if context.valid is None else same & context.valid[:, None, :]
    return index - torch.where(begins, index, 0).cummax(1).values, real.sum(-1)


class SparseAttention(SoftmaxAttention):
    """softmax(q k^T / sqrt(K)) v over the keys of a pattern, which says by place in a document who looks at whom."""

    shares_scores = False

    @abstractmethod
    def pattern(
        self, query_places: Int[Tensor, "#B L"], key_places: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        """True where a query looks at a key of its document of so many tokens, its causal mask left out."""

    @abstractmethod
    def look(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        """What the queries of whole rows see, at no more cost than the pattern's order."""

    @abstractmethod
    def num_pairs(self, length: int) -> int:
        """How many keys all queries of one sequence look at together."""

    @abstractmethod
    def num_scored(self, length: int) -> tuple[int, int]:
        """Return how many queries and how many pairs scores are made for, padding and other blocks' keys included."""

    @abstractmethod
    def kept_elements(self, query: CostQuery) -> tuple[int, int]:
        """What autograd keeps besides the input and what biases are made of: numbers in the type of computation, and
        numbers of four bytes."""

    def room(self, max_length: int) -> int:
        """How many tokens decoding must remember."""
        return max_length

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        y: Tensor = self.output(merge_heads(self.look(q, k, v, context)))
        return y

    def allowed(self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool) -> Bool[Tensor, "#B 1 L L"]:
        """The pattern, under all masks, for looking at."""
        places, lengths = places_of(context, x)
        pairs = self.pattern(places, places, lengths)
        if causal:  # which keeps real tokens from padding, as it is on the right
            pairs = pairs.tril()
        elif context.valid is not None:
            pairs = pairs & context.valid[:, None, :]
        if context.segments is not None:
            pairs = pairs & (context.segments[:, :, None] == context.segments[:, None, :])
        return pairs[:, None]

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        q, k, _ = self.project(x, context)
        positions = positions_of(context, x)
        allowed = self.allowed(x, context, causal=self.causal if causal is None else causal)
        bias = score_bias(context.encoding, q, positions, positions, allowed, self.scale)
        return softmax_weights(q, k, bias=bias, scale=self.scale)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> PlacedState:
        room = self.room(max_length)
        return empty_state(batch_size, self.num_kv_heads, room, self.head_width, device=device, dtype=dtype)

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], PlacedState]:
        assert isinstance(state, PlacedState)
        length = x.shape[1]
        if state.length == 0 and length > 1:
            return self.prompt(x, state, context), state
        parts = [self.one(x[:, at : at + 1], state, narrowed(context, at, length)) for at in range(length)]
        return torch.cat(parts, dim=1), state

    def prompt(self, x: Float[Tensor, "B L D"], state: PlacedState, context: Context) -> Float[Tensor, "B L D"]:
        """The first tokens, all at once."""
        x, context, back = on_the_left(x, context)
        q, k, v = self.project(x, context)
        state.read(context, x.shape[1])
        state.fill(k, v, positions_of(context, x))
        return back(self.output(merge_heads(self.look(q, k, v, context))))

    def one(self, x: Float[Tensor, "B 1 D"], state: PlacedState, context: Context) -> Float[Tensor, "B 1 D"]:
        """The next token, which finds what it may look at in the cache."""
        q, k, v = self.project(x, context)
        positions, count = positions_of(context, x), state.count
        assert count is not None, "a state comes from initial_state"
        state.put(k, v, positions)
        keys, values, known, _ = state.kept()
        places = state.places(known.shape[1])
        allowed = (self.pattern(count[:, None], places, count[:, None] + 1) & (places[:, None] >= 0))[:, None]
        bias = score_bias(context.encoding, q, positions, known, allowed, self.scale)
        state.read(context, 1)
        y = attend(q, keys, values, bias=bias, causal=False, scale=self.scale, dropout=0.0)
        output: Tensor = self.output(merge_heads(y))
        return output

    def costs(self, query: CostQuery) -> Costs:
        n, d = query.length, self.d_model
        inner, kv = (heads * self.head_width for heads in (self.num_heads, self.num_kv_heads))
        normed = self.query_norm is not None
        kept, of_four_bytes = self.kept_elements(query)
        kept += n * d + (n * (inner + kv) if normed else 0)
        of_four_bytes += n * (self.num_heads + self.num_kv_heads) if normed else 0
        return Costs.of(
            self,
            forward_flops=2 * n * d * (2 * inner + 2 * kv) + 4 * self.num_pairs(n) * inner,
            state_elements=2 * self.room(n) * kv,
            activation_bytes=kept * query.bytes_per_element
            + 4 * of_four_bytes
            + query.bytes_of_bias(*self.num_scored(n)),
        )


def narrowed(context: Context, at: int, length: int) -> Context:
    """The context of one token of several."""
    if length == 1:
        return context
    parts = {
        name: None if (whole := getattr(context, name)) is None else whole[:, at : at + 1]
        for name in ("valid", "positions")
    }
    rotation = None if context.rotation is None else context.rotation[..., at : at + 1, :]
    return replace(
        context,
        valid=parts["valid"],
        positions=parts["positions"],
        rotation=rotation,
        key_positions=None,
        allowed=None,
        bias=None,
    )
