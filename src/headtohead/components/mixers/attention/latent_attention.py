"""Multi-head latent attention (DeepSeek-AI 2024, https://arxiv.org/abs/2405.04434, section 2.1): keys and values of all
heads are made from one narrow latent, which alone is cached, beside one rotated key that all heads share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import DecodingMap, LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import (
    AttentionHeads,
    SoftmaxAttention,
    merge_heads,
    split_heads,
)
from headtohead.components.norms import RmsScale
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Positive, Width


@dataclass(frozen=True)
class LatentWidths(FieldGroup):
    """The widths inside latent attention: of the latents, and of the parts of a head that no position rotates."""

    latent_width: Width | None = None
    query_latent_width: Width | None = None
    content_width: Width | None = None
    value_width: Width | None = None


@dataclass
class LatentState(State):
    """The latents and the shared rotated keys of the tokens read so far."""

    latents: Float[Tensor, "B M N"] | None = None
    shared: Float[Tensor, "B M K"] | None = None

    def append(self, latents: Float[Tensor, "B L N"], shared: Float[Tensor, "B L K"]) -> tuple[Tensor, Tensor]:
        """Append what is cached of the next tokens, and return all of it."""
        assert self.latents is not None and self.shared is not None, "a state comes from initial_state"
        end = self.length + latents.shape[1]
        if end > self.latents.shape[1]:
            raise UsageError(
                f"{end} tokens do not fit a state made for max_length={self.latents.shape[1]}: make it longer"
            )
        self.latents[:, self.length : end] = latents
        self.shared[:, self.length : end] = shared
        self.length = end
        return self.latents[:, :end], self.shared[:, :end]


class LatentAttention(SoftmaxAttention):
    """softmax((q_c k_c^T + q_r k_r^T) / sqrt(C + K)) v, where c = norm(x A) makes k_c = c U and v = c V for every head,
    and the rotated k_r = x R is one for all. Decoding multiplies queries by U, and sums of latents by V, so that the
    cache stays narrow."""

    no_mup_rule = "no rule is published for its latents"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        head_width: Width | None = None,
        widths: LatentWidths = LatentWidths(),
        eps: Positive = 1e-6,
        scale: Positive | None = None,
    ) -> None:
        super().__init__(
            d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=AttentionHeads(head_width=head_width)
        )
        width = self.head_width
        self.content = width if widths.content_width is None else widths.content_width
        self.value_width = width if widths.value_width is None else widths.value_width
        self.latent = max(1, d_model // 4) if widths.latent_width is None else widths.latent_width
        self.query_latent = widths.query_latent_width
        if self.value_width > self.content + width:
            raise UsageError(
                f"value_width={self.value_width} is more than queries and keys have, {self.content + width}: make "
                "content_width larger"
            )
        self.scale = (self.content + width) ** -0.5 if scale is None else scale
        queries = num_heads * (self.content + width)
        self.query_down: LinearMap | None = None
        self.query_latent_norm: RmsScale | None = None
        if self.query_latent is not None:
            self.query_down = LinearMap(d_model, self.query_latent, bias=False)
            self.query_latent_norm = RmsScale(self.query_latent, eps=eps)
        self.query = ScoreLinear(self.query_latent or d_model, queries, bias=False)
        self.key = ScoreLinear(d_model, width, bias=False)
        self.value = LinearMap(d_model, self.latent, bias=False)
        self.latent_norm = RmsScale(self.latent, eps=eps)
        self.key_up = ScoreLinear(self.latent, num_heads * self.content, bias=False)
        self.value_up = LinearMap(self.latent, num_heads * self.value_width, bias=False)
        self.output = ResidualLinear(num_heads * self.value_width, d_model, bias=False)

    def project(
        self, x: Float[Tensor, "B L D"], context: Context, fused: DecodingMap | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values by head, each with the rotated part first."""
        del fused
        q, latents, shared = self._compress(x, context)
        keys = split_heads(self.key_up(latents), self.content)
        rotated = shared[:, None].expand(-1, self.num_heads, -1, -1)
        return q, torch.cat((rotated, keys), dim=-1), split_heads(self.value_up(latents), self.value_width)

    def _compress(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries by head, the latents, and the rotated key that heads share."""
        narrow = x if self.query_down is None else self._query_latents(self.query_down(x))
        q = split_heads(self.query(narrow), self.head_width + self.content)
        latents, shared = self.latent_norm(self.value(x)), self.key(x)[:, None]
        if context.encoding is not None and context.rotation is not None:
            turned, content = q.split((self.head_width, self.content), dim=-1)
            q = torch.cat((context.encoding.rotate(turned, context.rotation), content), dim=-1)
            shared = context.encoding.rotate_keys(shared, context.rotation)
        return q, latents, shared[:, 0]

    def _query_latents(self, narrow: Float[Tensor, "B L N"]) -> Float[Tensor, "B L N"]:
        assert self.query_latent_norm is not None, "made with the projection"
        normed: Tensor = self.query_latent_norm(narrow)
        return normed

    def full_bias(self, q: Float[Tensor, "B H L E"], context: Context) -> Float[Tensor, "#B #H #L M"] | None:
        """Return the bias, in which an encoding that reads queries reads their rotated part."""
        return super().full_bias(q[..., : self.head_width].contiguous(), context)

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        latents, shared = (
            torch.zeros(batch_size, max_length, width, device=device, dtype=dtype)
            for width in (self.latent, self.head_width)
        )
        return LatentState(0, latents, shared)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        """Process the next tokens as attention with one key for all heads, which is the latent itself."""
        assert isinstance(state, LatentState)
        q, *new = self._compress(x, context)
        bias = self.full_bias(q, context)
        latents, shared = state.append(new[0], new[1])
        turned, content = q.split((self.head_width, self.content), dim=-1)
        queries = torch.cat((content @ self.key_up.weight.unflatten(0, (-1, self.content)), turned), dim=-1)
        keys = torch.cat((latents, shared), dim=-1)[:, None]
        read = self.read_next(queries, keys, latents[:, None], bias)
        heads = read @ self.value_up.weight.unflatten(0, (-1, self.value_width)).mT
        return self.project_output(merge_heads(heads), x), state

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: the latents belong to all heads."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs with keys and values made for every head; the cache holds latents and shared keys."""
        n, d, heads = query.length, self.d_model, self.num_heads
        width, values = self.head_width + self.content, heads * self.value_width
        pairs = n * (n + 1) // 2 if self.causal else n * n
        narrow = d if self.query_latent is None else self.query_latent
        maps = narrow * heads * width + d * (self.head_width + self.latent) + d * values
        maps += self.latent * (heads * self.content + values) + (0 if self.query_latent is None else d * narrow)
        return Costs.of(
            self,
            forward_flops=2 * n * maps + 2 * pairs * (heads * width + values),
            state_elements=n * (self.latent + self.head_width),
            activation_bytes=self.saved_bytes(query),
        )

    def kernel_extras(self, query: CostContext) -> tuple[int, int]:
        del query
        return 0, self.content

    def saved_bytes(self, query: CostContext) -> int:
        """Count what softmax attention saves, and latents before and after their norms."""
        latents = [self.latent] if self.query_latent is None else [self.latent, self.query_latent]
        own = query.length * sum(2 * width * query.bytes_per_element + 4 for width in latents)
        return super().saved_bytes(query) + own
