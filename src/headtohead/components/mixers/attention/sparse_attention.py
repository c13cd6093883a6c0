"""Attention by a pattern shares this base: softmax over only those keys that a query attends to, masks made for them
alone, and a cache of the keys that later queries may attend to (survey: Tay et al. 2020,
https://arxiv.org/abs/2009.06732)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import Context, Position, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention, merge_heads
from headtohead.components.mixers.attention.windowed_attention import WindowedCache, empty_state
from headtohead.components.sequence_ops.ragged_rows import find_document_starts, one_row_per_document, reordered
from headtohead.components.sequence_ops.score_masks import as_bias, compute_dtype


def score_bias(
    encoding: Position | None,
    q: Float[Tensor, "B H L K"],
    query_positions: Int[Tensor, "#B L"],
    key_positions: Int[Tensor, "#B M"],
    allowed: Bool[Tensor, "#B #H #L M"],
    scale: float,
) -> Float[Tensor, "#B #H #L M"]:
    """Return minus infinity where not allowed, else what the position encoding adds to the scores."""
    bias = as_bias(allowed, q.dtype)
    if encoding is None or not encoding.biases_scores:
        return bias
    own = encoding.bias(q if encoding.bias_reads_queries else None, query_positions, key_positions)
    assert own is not None, "biases_scores promises a bias"
    return (own * scale if encoding.bias_reads_queries else own).to(q.dtype) + bias


def positions_of(context: Context, x: Tensor) -> Int[Tensor, "#B L"]:
    """Return the positions of the tokens of x[B, L, ...]."""
    return torch.arange(x.shape[1], device=x.device)[None] if context.positions is None else context.positions


def moved(context: Context, x: Tensor, positions: Int[Tensor, "#B L"], valid: Bool[Tensor, "B L"]) -> Context:
    """Return the context of rearranged tokens, one document to a row, without the tensors made for the original rows,
    which these mixers do not read."""
    encoding = context.encoding
    rotation = None if encoding is None else encoding.rotation(positions, compute_dtype(x))
    return Context(valid=valid, positions=positions, causal=context.causal, encoding=encoding, rotation=rotation)


def apart(
    x: Float[Tensor, "B L D"], context: Context
) -> tuple[Float[Tensor, "N T D"], Context, Callable[[Tensor], Tensor]]:
    """Return packed documents in rows of their own, and the function that packs them again; unpacked rows stay as they
    are."""
    rows = one_row_per_document(x, context)
    if rows is None:
        return x, context, lambda y: y
    positions = positions_of(context, x).expand(x.shape[:2])
    own = positions.new_zeros(rows.valid.shape).index_put((rows.row, rows.index), positions)
    return rows.x, moved(context, x, own, rows.valid), rows.back


def on_the_left(
    x: Float[Tensor, "B L D"], context: Context
) -> tuple[Float[Tensor, "B L D"], Context, Callable[[Tensor], Tensor]]:
    """Move real tokens before padding, and return the function that undoes it."""
    if context.valid is None:
        return x, context, lambda y: y
    order = (~context.valid).long().argsort(dim=1, stable=True)
    positions = reordered(positions_of(context, x).expand(x.shape[:2]), order)
    valid, back = reordered(context.valid, order), order.argsort(dim=1)
    return reordered(x, order), moved(context, x, positions, valid), lambda y: reordered(y, back)


def slots_of(context: Context, x: Tensor) -> tuple[Int[Tensor, "#B L"], Int[Tensor, "#B L"]]:
    """Return the position of each token in its document, and the number of the document's real tokens."""
    index = torch.arange(x.shape[1], device=x.device)[None]
    document_starts = find_document_starts(context)
    if document_starts is None or context.segments is None:
        length = index.new_full((1, 1), x.shape[1]) if context.valid is None else context.valid.sum(1, keepdim=True)
        return index, length.expand(-1, x.shape[1])
    same = context.segments[:, :, None] == context.segments[:, None, :]
    real = same if context.valid is None else same & context.valid[:, None, :]
    return index - torch.where(document_starts, index, 0).cummax(1).values, real.sum(-1)


class SparseAttention(SoftmaxAttention):
    """softmax(q k^T / sqrt(K)) v over the keys of a pattern, which determines by position in a document who attends to
    whom."""

    follows_order = True
    shares_scores = False

    @abstractmethod
    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        """Return a mask of the keys that a query attends to in its document of so many tokens, before the causal
        mask."""

    @abstractmethod
    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        """Attend over whole rows, at no more cost than the pattern's order."""

    @abstractmethod
    def num_pairs(self, length: int) -> int:
        """Return the number of keys that all queries of one sequence attend to together."""

    @abstractmethod
    def num_scored(self, length: int) -> tuple[int, int]:
        """Return how many queries and how many pairs scores are made for, padding and other blocks' keys included."""

    @abstractmethod
    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count what autograd saves besides the input and the biases' inputs: elements in the dtype of computation, and
        elements of four bytes."""

    def room(self, max_length: int) -> int:
        """Return the number of tokens that decoding must remember."""
        return max_length

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        y: Tensor = self.output(merge_heads(self.attend(q, k, v, context)))
        return y

    def allowed(self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool) -> Bool[Tensor, "#B 1 L L"]:
        """Return the pattern combined with all masks, for attention maps."""
        positions, lengths = slots_of(context, x)
        pairs = self.pattern(positions, positions, lengths)
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
        return self.weights(q, k, bias)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> WindowedCache:
        room = self.room(max_length)
        return empty_state(batch_size, self.num_kv_heads, room, self.head_width, device=device, dtype=dtype)

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], WindowedCache]:
        assert isinstance(state, WindowedCache)
        length = x.shape[1]
        if state.length == 0 and length > 1:
            return self.step_prompt(x, state, context), state
        parts = [self.step_token(x[:, at : at + 1], state, narrowed(context, at, length)) for at in range(length)]
        return torch.cat(parts, dim=1), state

    def step_prompt(self, x: Float[Tensor, "B L D"], state: WindowedCache, context: Context) -> Float[Tensor, "B L D"]:
        """Process the first tokens, all at once."""
        x, context, back = on_the_left(x, context)
        q, k, v = self.project(x, context)
        state.read(context, x.shape[1])
        state.fill(k, v, positions_of(context, x))
        return back(self.output(merge_heads(self.attend(q, k, v, context))))

    def step_token(self, x: Float[Tensor, "B 1 D"], state: WindowedCache, context: Context) -> Float[Tensor, "B 1 D"]:
        """Process the next token, which attends to the cache."""
        q, k, v = self.project(x, context)
        positions, count = positions_of(context, x), state.count
        assert count is not None, "a state comes from initial_state"
        state.put(k, v, positions)
        keys, values, known, _ = state.last_tokens()
        slots = state.slot_positions(known.shape[1])
        allowed = (self.pattern(count[:, None], slots, count[:, None] + 1) & (slots[:, None] >= 0))[:, None]
        bias = score_bias(context.encoding, q, positions, known, allowed, self.scale)
        state.read(context, 1)
        y = self.read(q, keys, values, bias=bias, causal=False, dropout=0.0)
        output: Tensor = self.output(merge_heads(y))
        return output

    def costs(self, query: CostContext) -> Costs:
        n, d = query.length, self.d_model
        inner, kv = (heads * self.head_width for heads in (self.num_heads, self.num_kv_heads))
        saved, of_four_bytes = self.saved_elements(query)
        normed, divisors = self.saved_by_norms(n)
        saved, of_four_bytes = saved + n * d + normed, of_four_bytes + divisors
        return Costs.of(
            self,
            forward_flops=2 * n * d * (2 * inner + 2 * kv) + 4 * self.num_pairs(n) * inner,
            state_elements=2 * self.room(n) * kv,
            activation_bytes=saved * query.bytes_per_element
            + 4 * of_four_bytes
            + query.bytes_of_bias(*self.num_scored(n)),
        )


def narrowed(context: Context, at: int, length: int) -> Context:
    """Return the context of one token of several."""
    if length == 1:
        return context
    parts = {
        name: None if (full := getattr(context, name)) is None else full[:, at : at + 1]
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
