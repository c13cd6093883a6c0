"""These twins of attention, to all keys or by a pattern, take one query at a time, as one would do it by hand."""

from __future__ import annotations

from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.attention.bigbird import BigBird
from headtohead.components.mixers.attention.differential_attention import DifferentialAttention
from headtohead.components.mixers.attention.disentangled_attention import DisentangledAttention
from headtohead.components.mixers.attention.forgetting_attention import ForgettingAttention
from headtohead.components.mixers.attention.gated_attention import GatedAttention
from headtohead.components.mixers.attention.latent_attention import LatentAttention
from headtohead.components.mixers.attention.longformer import Longformer
from headtohead.components.mixers.attention.low_rank import LowRank
from headtohead.components.mixers.attention.moba import Moba
from headtohead.components.mixers.attention.sink_attention import SinkAttention, SinkWindow
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention, merge_heads
from headtohead.components.mixers.attention.sparse_attention import SparseAttention, positions_of, score_bias
from headtohead.components.mixers.attention.stick_breaking import StickBreaking
from headtohead.components.mixers.attention.strided import Strided
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.score_masks import causal_mask


class ReferenceSoftmaxAttention(SoftmaxAttention):
    """Softmax attention with the same parameters, in which every query meets only the keys that causality allows."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        group = self.num_heads // self.num_kv_heads
        heads = torch.arange(self.num_heads, device=x.device) // group
        k, v = k[:, heads], v[:, heads]
        bias = self.full_bias(q, context)
        rows = []
        for position in range(x.shape[1]):
            num_keys = position + 1 if self.causal else x.shape[1]
            scores = _capped(self.scale * (q[:, :, position, None] @ k[:, :, :num_keys].mT), self.score_cap)
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, position, None]
                scores = scores + own[..., :num_keys]
            rows.append(self.shares(scores) @ v[:, :, :num_keys])
        return self.project_output(merge_heads(torch.cat(rows, dim=2)), x)

    def shares(self, scores: Float[Tensor, "B H 1 M"]) -> Float[Tensor, "B H 1 M"]:
        """Return the weights that scores give."""
        return _softmax(scores)


def _capped(scores: Float[Tensor, "... M"], cap: float | None) -> Float[Tensor, "... M"]:
    """Return scores within (-cap, cap), where there is a cap."""
    return scores if cap is None else cap * (scores / cap).tanh()


def _softmax(scores: Float[Tensor, "B H 1 M"]) -> Float[Tensor, "B H 1 M"]:
    """Return the softmax; zero where no key is allowed."""
    empty = (scores == float("-inf")).all(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0.0)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)).masked_fill(empty, 0.0)


class ReferenceGatedAttention(ReferenceSoftmaxAttention, GatedAttention):
    """The same parameters and gates."""


class ReferenceSinkAttention(ReferenceSoftmaxAttention, SinkAttention):
    """The same parameters; the sink is one more score, of no key."""

    def shares(self, scores: Float[Tensor, "B H 1 M"]) -> Float[Tensor, "B H 1 M"]:
        sinks = self.sink[:, None, None].expand(*scores.shape[:3], 1)
        return _softmax(torch.cat((scores, sinks), dim=-1))[..., :-1]


class ReferenceForgettingAttention(ForgettingAttention):
    """The same parameters; the scores of a query fall by its sum of log gates after each key, one by one."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = SoftmaxAttention.project(self, x, context)
        heads = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        k, v, log_forget = k[:, heads], v[:, heads], self.log_forget(x)[:, heads]
        bias, rows = self.full_bias(q, context), []
        for position in range(x.shape[1]):
            seen = position + 1
            lost = [log_forget[:, :, key + 1 : seen].sum(-1) for key in range(seen)]
            scores = self.scale * (q[:, :, position, None] @ k[:, :, :seen].mT) + torch.stack(lost, -1)[:, :, None]
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, position, None]
                scores = scores + own[..., :seen]
            rows.append(_softmax(scores).to(v.dtype) @ v[:, :, :seen])
        return self.project_output(merge_heads(torch.cat(rows, dim=2)), x)


class ReferenceStickBreaking(StickBreaking):
    """The same parameters; every query breaks its stick key by key, from the latest backwards."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        heads = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        k, v, bias, rows = k[:, heads], v[:, heads], self.full_bias(q, context), []
        for position in range(x.shape[1]):
            scores = self.scale * (q[:, :, position, None] @ k[:, :, :position].mT)
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, position, None]
                scores = scores + own[..., :position]
            shares, rest = [], torch.ones_like(scores.sum(-1))
            for share in reversed(scores.sigmoid().unbind(-1)):
                shares.append(rest * share)
                rest = rest * (1.0 - share)
            rows.append(torch.stack((*reversed(shares), rest), dim=-1).to(v.dtype) @ v[:, :, : position + 1])
        return self.project_output(merge_heads(torch.cat(rows, dim=2)), x)


class ReferenceDifferentialAttention(DifferentialAttention):
    """The same parameters; every query weighs the keys of both heads of a pair, and subtracts."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        heads = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        pairs, bias, rows = self.num_heads // 2, self.full_bias(q, context), []
        k, v = k[:, heads], torch.cat((v[:, heads[:pairs]], v[:, heads[pairs:]]), dim=-1)
        for position in range(x.shape[1]):
            num_keys = position + 1 if self.causal else x.shape[1]
            scores = self.scale * (q[:, :, position, None] @ k[:, :, :num_keys].mT)
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, position, None]
                scores = scores + own[..., :num_keys]
            weights = _softmax(scores)
            first, second = (weights[:, half] @ v[:, :, :num_keys] for half in (slice(pairs), slice(pairs, None)))
            y = first - self.share().to(v.dtype) * second
            size = (y.square().mean(-1, keepdim=True) + self.norm_eps).sqrt()
            rows.append((1.0 - self.subtracted) * y / size)
        return self.project_output(merge_heads(torch.cat(rows, dim=2)), x)


class ReferenceDisentangledAttention(DisentangledAttention):
    """The same parameters; every query and every key meets all distances, and looks up those of its pairs."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        keys, queries = self.of_distances(context)
        here = torch.arange(x.shape[1])[None] if context.positions is None else context.positions
        index, bias, rows = self.buckets.index(here, here)[:, 0], self.full_bias(q, context), []
        of_keys = None if queries is None else k @ queries.mT
        for position in range(x.shape[1]):
            num_keys = position + 1 if self.causal else x.shape[1]
            query = q[:, :, position, None]
            scores = query @ k[:, :, :num_keys].mT
            met = None if keys is None else query @ keys.mT
            for row, key in product(range(len(x)), range(num_keys)):
                bucket = index[row % len(index), position, key]
                if met is not None:
                    scores[row, :, 0, key] += met[row, :, 0, bucket]
                if of_keys is not None:
                    scores[row, :, 0, key] += of_keys[row, :, key, bucket]
            scores = self.scale * scores
            if bias is not None:
                own = bias if bias.shape[2] == 1 else bias[:, :, position, None]
                scores = scores + own[..., :num_keys]
            rows.append(_softmax(scores) @ v[:, :, :num_keys])
        return self.project_output(merge_heads(torch.cat(rows, dim=2)), x)


class ReferenceLatentAttention(ReferenceSoftmaxAttention, LatentAttention):
    """The same parameters; every query meets keys that are made for its head."""


class ReferenceLowRank(ReferenceSoftmaxAttention, LowRank):
    """The same parameters; the thin projections need no slower form than their own."""


class ReferenceSparseAttention(SparseAttention):
    """A mixin in front of a fast class: its pattern and parameters, in a plain loop."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        heads = torch.arange(self.num_heads, device=x.device) // (self.num_heads // self.num_kv_heads)
        positions = positions_of(context, x)
        allowed = self.allowed(x, context, causal=self.causal)
        bias = score_bias(context.encoding, q, positions, positions, allowed, self.scale)
        bias = bias.expand(len(x), self.num_heads, -1, -1)
        k, v = k[:, heads], v[:, heads]
        read = one_by_one(q, k, v, bias, allowed[:, 0], self.scale, cap=self.score_cap, sinks=self.sinks())
        y: Tensor = self.output(merge_heads(read))
        return y

    def sinks(self) -> Float[Tensor, " H"] | None:
        """Return the scores of keys without a value, where the heads have them."""
        return None


def one_by_one(
    q: Float[Tensor, "B H L K"],
    k: Float[Tensor, "B H M K"],
    v: Float[Tensor, "B H M K"],
    bias: Float[Tensor, "B H L M"],
    allowed: Bool[Tensor, "#B L M"],
    scale: float,
    *,
    cap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H L K"]:
    """Return the softmax over the allowed keys, and over a sink where there is one; zero where none is."""
    rows = []
    for row, pairs in enumerate(allowed.expand(len(q), -1, -1)):
        seen = []
        for position, keys in enumerate(pairs):
            scores = _capped(scale * (q[row, :, position, None] @ k[row][:, keys].mT), cap)
            scores = scores + bias[row, :, position, None][..., keys]
            if sinks is not None:
                weights = torch.cat((scores, sinks[:, None, None]), dim=-1).softmax(-1)[..., :-1]
            else:
                weights = scores.softmax(-1) if bool(keys.any()) else scores
            seen.append(weights @ v[row][:, keys])
        rows.append(torch.cat(seen, dim=1))
    return torch.stack(rows)


class ReferenceBigBird(ReferenceSparseAttention, BigBird):
    """The same parameters and pattern; every query takes the keys of its blocks."""

    forward = ReferenceSparseAttention.forward


class ReferenceSlidingWindow(ReferenceSparseAttention, SlidingWindow):
    """The same parameters; every query takes the keys within its window."""


class ReferenceSinkWindow(ReferenceSparseAttention, SinkWindow):
    """The same parameters; a sink is one more score of every query."""

    def sinks(self) -> Float[Tensor, " H"]:
        return self.sink


class ReferenceStrided(ReferenceSparseAttention, Strided):
    """The same parameters; every query takes the keys of its window and of its stride."""


class ReferenceMoba(Moba):
    """The same parameters; every query of every head meets the means of the blocks before it, and takes the best."""

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        group, rows = self.num_heads // self.num_kv_heads, []
        positions, before = positions_of(context, q.transpose(1, 2)), causal_mask(q.shape[2], q.shape[2], q.device)
        bias = score_bias(context.encoding, q, positions, positions, before, self.scale)
        bias = bias.expand(len(q), self.num_heads, -1, -1)
        for row, head in product(range(len(q)), range(self.num_heads)):
            keys, values = k[row, head // group], v[row, head // group]
            seen = []
            for t, query in enumerate(q[row, head]):
                chosen = self._keys_of(query[None].detach(), keys.detach(), t)
                scores = self.scale * (query[None] @ keys[chosen].mT) + bias[row, head, t, chosen]
                seen.append(scores.softmax(-1) @ values[chosen])
            rows.append(torch.cat(seen))
        return torch.stack(rows).view_as(q)

    def _keys_of(self, query: Float[Tensor, "1 K"], keys: Float[Tensor, "L K"], position: int) -> list[int]:
        """Return the indices of the keys that one query attends to."""
        size, own = self.block_size, position // self.block_size
        chosen = list(range(own * size, position + 1))
        if own:
            exact = at_least_float32(keys.dtype)
            means = keys[: own * size].to(exact).unflatten(0, (own, size)).mean(1)
            best = (query.to(exact) @ means.mT)[0].topk(min(self.num_blocks - 1, own)).indices.tolist()
            chosen += [block * size + index for block in best for index in range(size)]
        return chosen


class ReferenceLongformer(Longformer):
    """Longformer with the same parameters: every query takes its allowed keys, a global one with projections of its
    own."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        allowed, positions = self.allowed(x, context, causal=self.causal), positions_of(context, x)
        first = 0 if self.causal else min(self.num_global, x.shape[1])
        q, k, v = self.project(x, context)
        sides = [(q[:, :, first:], k, v, slice(first, None))]
        if not self.causal:
            sides.insert(0, (*self.project_global(x, context), slice(first)))
        seen = []
        for queries, keys, values, at in sides:
            pairs = allowed[:, :, at]
            bias = score_bias(context.encoding, queries, positions[:, at], positions, pairs, self.scale)
            bias = bias.expand(len(x), self.num_heads, -1, -1)
            seen.append(one_by_one(queries, keys, values, bias, pairs[:, 0], self.scale))
        y: Tensor = self.output(merge_heads(torch.cat(seen, dim=2)))
        return y
