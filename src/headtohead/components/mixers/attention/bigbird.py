"""BigBird: blocks of tokens attend to their neighbours, to the first and the last block, which attend to all, and to
some random blocks (Zaheer et al. 2020, https://arxiv.org/abs/2007.14062).

The pattern follows the true length of each document, never the padded one. The random blocks are drawn once, from a
seed that every layer draws for itself and stores with its weights; they are the same for all heads, in training and in
evaluation. The code of Hugging Face differs: it draws them for each head, and in evaluation takes block 0 in place of
all of them, whose keys then count once more for each.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.sliding_window import differ_by_row
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, merge_heads
from headtohead.components.mixers.attention.sparse_attention import SparseAttention, apart, positions_of, score_bias
from headtohead.components.mixers.attention.windowed_attention import TokenBlocks
from headtohead.errors import UsageError
from headtohead.ranges import Amount, Width


class BigBird(SparseAttention):
    """Every block attends to itself, the block on each side, the first, the last and `num_random` others.

    A causal one has no last block, draws among the blocks before, and attends to nothing that comes later.
    """

    seed: Tensor

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        block_size: Width = 64,
        num_random: Amount = 3,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        heads = AttentionHeads(bias=bias, output_bias=output_bias)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        if block_size < 1 or num_random < 0:
            raise UsageError(
                f"block_size={block_size} and num_random={num_random} make no pattern: "
                "choose a block_size of 1 or more, and a num_random of 0 or more"
            )
        self.block_size, self.num_random = block_size, num_random
        self.register_buffer("seed", torch.randint(2**31, ()))

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        x, context, back = apart(x, context)
        return back(self.output(merge_heads(self.attend(*self.project(x, context), context))))

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        batch, length, dropout = q.shape[0], q.shape[2], self.dropout if self.training else 0.0
        size = min(self.block_size, length)
        number = -(-length // size)
        lengths = torch.full((1,), length, device=q.device)
        if context.valid is not None and not self.causal:
            lengths = context.valid.sum(1)
        counts = self.count_blocks(lengths)
        seen = adjacent(counts, number, self.num_random, self.seed, causal=self.causal)
        index, there = neighbours(seen, self.most_neighbours(number))
        queries = TokenBlocks(length, size, 0, 0).queries(q)
        keys, values = (gathered(t, index, size) for t in (k, v))
        bias = self.block_bias(queries, index, there, lengths, context)
        y = attend(
            queries.transpose(1, 2).flatten(0, 1),
            keys.flatten(0, 1),
            values.flatten(0, 1),
            bias=bias,
            causal=False,
            scale=self.scale,
            dropout=dropout,
        )
        y = y.unflatten(0, (batch, number)).transpose(1, 2)
        if not self.causal:
            y = self.with_ends(y, queries, k, v, counts, context)
        return y.flatten(2, 3)[:, :, :length]

    def with_ends(
        self,
        y: Float[Tensor, "B H N C K"],
        queries: Float[Tensor, "B H N C K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        counts: Int[Tensor, "#B"],
        context: Context,
    ) -> Float[Tensor, "B H N C K"]:
        """Return the blocks' outputs with the first and the last of each row attending to everything."""
        batch, number, size = len(y), y.shape[2], y.shape[3]
        last = (counts - 1)[:, None].expand(batch, 1)
        ends = torch.cat((torch.zeros_like(last), last), dim=1)
        q = taken(queries, ends).flatten(2, 3)
        bias = None
        if differ_by_row(context, causal=False):
            everybody = torch.ones(1, k.shape[2], dtype=torch.bool, device=k.device)
            allowed = (everybody if context.valid is None else context.valid)[:, None, None]
            positions = positions_of(context, k.transpose(1, 2)).expand(batch, -1)
            query_positions = TokenBlocks(k.shape[2], size, 0, 0).of_queries(positions)
            query_positions = query_positions.gather(1, ends[..., None].expand(-1, -1, size)).flatten(1)
            bias = score_bias(context.encoding, q, query_positions, positions, allowed, self.scale)
        dropout = self.dropout if self.training else 0.0
        of_ends = attend(q, k, v, bias=bias, causal=False, scale=self.scale, dropout=dropout)
        block = torch.arange(number, device=y.device).expand(batch, -1)
        source = torch.where(block == 0, number, torch.where(block == last, number + 1, block))
        return taken(torch.cat((y, of_ends.unflatten(2, (2, -1))), dim=2), source)

    def block_bias(
        self,
        queries: Float[Tensor, "B H N C K"],
        index: Int[Tensor, "#B N S"],
        there: Bool[Tensor, "#B N S"],
        lengths: Int[Tensor, "#B"],
        context: Context,
    ) -> Float[Tensor, "#X #H C T"]:
        """Return which keys of the gathered blocks exist for each query, with the position encoding's bias."""
        batch, number, size = len(queries), queries.shape[2], queries.shape[3]
        inside = torch.arange(size, device=queries.device)
        at = (torch.arange(number, device=queries.device)[:, None] * size + inside)[:, :, None]
        of = (index[..., None] * size + inside).flatten(2)
        allowed = (there.repeat_interleave(size, dim=2) & (of < lengths[:, None, None]))[:, :, None]
        allowed = allowed & (of[:, :, None] <= at) if self.causal else allowed.expand(-1, -1, size, -1)
        allowed = allowed.expand(batch, -1, -1, -1).flatten(0, 1)[:, None]
        blocks = TokenBlocks(number * size, size, 0, 0)
        positions = positions_of(context, queries.flatten(2, 3).transpose(1, 2)).expand(batch, -1)
        positions = F.pad(positions, (0, number * size - positions.shape[1]))
        known = positions.gather(1, of.expand(batch, -1, -1).flatten(1)).view(batch * number, -1)
        q = queries.transpose(1, 2).flatten(0, 1)
        return score_bias(context.encoding, q, blocks.of_queries(positions).flatten(0, 1), known, allowed, self.scale)

    def count_blocks(self, lengths: Int[Tensor, "*B"]) -> Int[Tensor, "*B"]:
        return ((lengths + self.block_size - 1) // self.block_size).clamp(min=1)

    def most_neighbours(self, number: int) -> int:
        return min(number, self.num_random + (3 if self.causal else 5))

    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        number = -(-key_positions.shape[1] // self.block_size)
        counts = torch.arange(number if self.causal else 1, number + 1, device=key_positions.device)
        of_counts = adjacent(counts, number, self.num_random, self.seed, causal=self.causal)
        which = torch.zeros_like(lengths) if self.causal else self.count_blocks(lengths) - 1
        at, of = (positions.clamp(min=0) // self.block_size for positions in (query_positions, key_positions))
        return of_counts[which[:, :, None], at[:, :, None], of[:, None, :]]

    def num_pairs(self, length: int) -> int:
        size = self.block_size
        number = -(-length // size)
        tail = length - (number - 1) * size
        pairs = 0
        for block in range(number):
            queries = tail if block == number - 1 else size
            if self.causal:
                before = {0, block - 1} & set(range(block))
                others = len(before) + min(self.num_random, block - len(before))
                pairs += queries * others * size + queries * (queries + 1) // 2
            elif block in (0, number - 1):
                pairs += queries * length
            else:
                certain = {0, block - 1, block, block + 1, number - 1}
                others = len(certain) - 1 + min(self.num_random, number - len(certain))
                pairs += queries * (others * size + tail)
        return pairs

    def num_scored(self, length: int) -> tuple[int, int]:
        size = min(self.block_size, length)
        number = -(-length // size)
        queries, pairs = number * size, number * size * self.most_neighbours(number) * size
        return (queries, pairs) if self.causal else (queries + 2 * size, pairs + 2 * size * length)

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries and outputs of whole blocks, a copy of all keys and values that each attends to, masks and
        indices; for the first and the last block the same, with all keys, and all outputs in one. If explicit, outputs
        in one always, and weights for masks."""
        n, d, heads, size = query.length, self.d_model, self.num_heads, min(self.block_size, query.length)
        number = -(-n // size)
        most, padded = self.most_neighbours(number), number * size
        if query.explicit_attention:
            queries, pairs = self.num_scored(n)
            everything = 0 if self.causal else 2 * n * d
            saved = (queries + n + 2 * padded * most) * d + everything + heads * pairs
            return saved, 4 * number * most + (0 if self.causal else 2 * (number + 4))
        saved = 2 * padded * d + 2 * padded * most * d + max(query.biased_heads, 1) * padded * most * size
        of_four_bytes = padded * heads + 4 * number * most
        if not self.causal:
            saved += 2 * d * (2 * size + n) + n * d + query.biased_heads * 2 * size * n
            of_four_bytes += 2 * size * heads + 2 * (number + 4)
        return saved, of_four_bytes


def gathered(x: Float[Tensor, "B H L K"], index: Int[Tensor, "#B N S"], size: int) -> Float[Tensor, "B N H T K"]:
    """Return, for every block, the tokens of the blocks that it attends to."""
    batch, number, _ = index.expand(x.shape[0], -1, -1).shape
    tokens = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, number * size - x.shape[2]))
    blocks = tokens.unflatten(1, (number, size)).flatten(0, 1)
    rows = index + torch.arange(batch, device=x.device)[:, None, None] * number
    y: Tensor = blocks.index_select(0, rows.flatten()).unflatten(0, (batch, number, -1)).flatten(2, 3).transpose(2, 3)
    return y


def taken(blocks: Float[Tensor, "B H N C K"], index: Int[Tensor, "B T"]) -> Float[Tensor, "B H T C K"]:
    """Return some blocks of each row."""
    rows = torch.arange(len(blocks), device=blocks.device)[:, None]
    return blocks.transpose(1, 2)[rows, index].transpose(1, 2)


# Which blocks of a row look at which: neighbours, the first and the last, and some drawn at random
# (Zaheer et al. 2020, https://arxiv.org/abs/2007.14062).


def adjacent(
    counts: Int[Tensor, " R"], number: int, num_random: int, seed: Int[Tensor, ""], *, causal: bool
) -> Bool[Tensor, "R N N"]:
    """Return a mask of the key blocks that each query block attends to, in rows of so many real blocks each of
    `number`.

    A causal pattern knows nothing of what comes later, so that a longer row begins like a shorter one: it has no last
    block, and its random blocks precede the query's; its mask inside blocks is not applied here.
    """
    block = torch.arange(number, device=counts.device)
    at, of, last = block[:, None], block[None, :], counts[:, None, None] - 1
    if causal:
        certain = ((at == of) | (at == of + 1) | (of == 0)).expand(len(counts), -1, -1)
        free = ~certain & (of < at)
    else:
        certain = ((at - of).abs() <= 1) | (of == 0) | (of == last) | (at == 0) | (at == last)
        free = ~certain & (of < last)
    noise = mixed_bits(at, of, seed).masked_fill(~free, -1)
    chosen = noise.topk(min(num_random, number), dim=-1).indices
    return certain | (free & torch.zeros_like(certain).scatter(-1, chosen, True))


def mixed_bits(at: Int[Tensor, "N 1"], of: Int[Tensor, "1 N"], seed: Int[Tensor, ""]) -> Int[Tensor, "N N"]:
    """Return non-negative random numbers that depend on their position and the seed alone: no generator, no order of
    drawing."""
    bits = seed + at * 0x9E3779B1 + of * 0x85EBCA77
    for factor in (0x2C1B3C6D, 0x297A2D39):
        bits = ((bits ^ (bits >> 15)) * factor) & 0x7FFFFFFF
    return bits ^ (bits >> 16)


def neighbours(pattern: Bool[Tensor, "R N N"], most: int) -> tuple[Int[Tensor, "R N S"], Bool[Tensor, "R N S"]]:
    """Return the key blocks of every query block, at most `most`, and a mask of those that exist."""
    ordered = pattern.long().sort(dim=-1, descending=True, stable=True)
    return ordered.indices[..., :most], ordered.values[..., :most].bool()
