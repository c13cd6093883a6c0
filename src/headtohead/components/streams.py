"""Residual wirings of recent models that change the stream itself: one on a sphere, and several streams at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block_parts import Branches, NormFactory, Sublayer
from headtohead.components.costs import CostContext, Costs
from headtohead.components.residuals import NormedResidual
from headtohead.ranges import Count, Real


class Sphere(NormedResidual):
    """s(x + a (s(f(x)) - x)), where s scales a token to length sqrt(D) and a is a learned vector: a step towards the
    branch on a sphere, as in nGPT (Loshchilov et al. 2024, https://arxiv.org/abs/2410.01131).

    The sphere has the radius that norms give, and not 1, so that sublayers need no factors of sqrt(D). With
    `unit_weights`, training keeps at length 1 every vector of width D that a matrix reads the stream with or writes to
    it, as the paper does; the gains of a final norm then set how sharp the logits are.
    """

    norms_per_sublayer = 0

    def __init__(
        self, norm: NormFactory, d_model: int, branches: Branches, *, initial: Real = 0.05, unit_weights: bool = False
    ) -> None:
        super().__init__(norm, d_model, branches)
        self.initial, self.unit_weights = initial, unit_weights
        self.needs_final_norm = unit_weights
        self.gains = nn.Parameter(torch.full((self.num_sublayers, d_model), initial))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gains, self.initial)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield self.gains

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        del norms
        x = on_sphere(x)
        for gain, sublayer in zip(self.gains, sublayers, strict=True):
            x = on_sphere(x + self.dropped(gain * (on_sphere(sublayer(x)) - x)))
        return x

    def saved_elements(self, length: int) -> int:
        """Count branches and sums before and after they are scaled, with their scales, and the steps between them."""
        scaled = (1 + 2 * self.num_sublayers) * length
        return scaled * (self.d_model + 1) + self.num_sublayers * length * self.d_model


def on_sphere(x: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
    """Scale every token to length sqrt(D)."""
    y: Tensor = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return y


class HyperConnections(NormedResidual):
    """Several streams, of which every sublayer reads a learned mixture and to which it writes by learned shares, while
    the streams mix among each other (Zhu et al. 2024, https://arxiv.org/abs/2409.19606). Mixtures and shares depend on
    the token by a small part. At the start each sublayer reads one stream, in turn, and writes to all."""

    needs_final_norm = True

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches, *, streams: Count = 4) -> None:
        super().__init__(norm, d_model, branches)
        self.num_streams = streams
        self.mixture = nn.Parameter(torch.empty(self.num_sublayers, streams, streams + 1))
        self.share = nn.Parameter(torch.empty(self.num_sublayers, streams))
        self.by_token = nn.Parameter(torch.empty(self.num_sublayers, d_model, streams + 2))
        self.scales = nn.Parameter(torch.empty(self.num_sublayers, 2))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Start near a plain residual stream: whatever depends on tokens is zero at first."""
        self.mixture[:, :, 1:] = torch.eye(self.num_streams)
        for sublayer, mixture in enumerate(self.mixture):
            mixture[:, 0] = torch.eye(self.num_streams)[sublayer % self.num_streams]
        self.share.fill_(1.0)
        self.by_token.zero_()
        self.scales.fill_(0.01)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield from (self.mixture, self.share, self.scales)

    def widened(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L SD"]:
        return x.repeat(1, 1, self.num_streams)

    def narrowed(self, x: Float[Tensor, "B L SD"]) -> Float[Tensor, "B L D"]:
        y: Tensor = x.unflatten(-1, (self.num_streams, -1)).sum(-2)
        return y

    def wire(
        self, x: Float[Tensor, "B L SD"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L SD"]:
        streams = x.unflatten(-1, (self.num_streams, -1))
        for index, (norm, sublayer) in enumerate(zip(norms, sublayers, strict=True)):
            mixture, share = self._weights(streams, index)
            read, *rest = (mixture.mT @ streams).split((1, self.num_streams), dim=2)
            branch = self.dropped(sublayer(norm(read.squeeze(2))))
            streams = rest[0] + share[..., None] * branch[:, :, None]
        y: Tensor = streams.flatten(2)
        return y

    def _weights(
        self, streams: Float[Tensor, "B L S D"], sublayer: int
    ) -> tuple[Float[Tensor, "B L S T"], Float[Tensor, "B L S"]]:
        """Return how much of each stream the sublayer and all streams read, and how much of its branch each gets."""
        mixture, share, by_token, scales = (
            part[sublayer].to(streams.dtype) for part in (self.mixture, self.share, self.by_token, self.scales)
        )
        of_token = (F.rms_norm(streams, (self.d_model,)) @ by_token).tanh()
        return mixture + scales[0] * of_token[..., 1:], share + scales[1] * of_token[..., 0]

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of the weights that tokens choose and of the mixtures, besides norms and dropout."""
        streams, plain = self.num_streams, super().costs(query)
        mixing = 2 * self.num_sublayers * query.length * streams * self.d_model * (2 * streams + 3)
        return Costs.of(
            self,
            forward_flops=plain.forward_flops + mixing,
            state_elements=plain.state_elements,
            activation_bytes=plain.activation_bytes,
        )

    def saved_elements(self, length: int) -> int:
        """Count for each sublayer the streams before they are mixed, normed, and as matrices are multiplied by them;
        what tokens choose, and the branch."""
        streams = self.num_streams
        each = (3 * streams + 1) * self.d_model + streams * (2 * streams + 5)
        return self.num_sublayers * length * each
