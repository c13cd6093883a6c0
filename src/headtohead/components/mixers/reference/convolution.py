"""These twins of convolutions along a sequence take one token at a time."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.mixers.convolution.fourier import Fourier
from headtohead.components.mixers.convolution.gated_short_conv import GatedShortConvolution
from headtohead.components.mixers.convolution.hyena import Hyena
from headtohead.components.mixers.convolution.mlp_mixer import MlpMixer
from headtohead.components.mixers.convolution.pooling import Pooling
from headtohead.components.mixers.convolution.short_conv import ShortConvolution
from headtohead.components.mixers.convolution.token_shift import TokenShift
from headtohead.components.sequence_ops.scan import in_float32


class ReferenceHyena(Hyena):
    """The same parameters; every token meets every other at their distance."""

    def long(self, z: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        sides, length = self.responses(z.shape[1]), z.shape[1]
        y = []
        for t in range(length):
            total = torch.zeros_like(sides[0][0] * z[:, 0])
            for s in range(t + 1 if self.causal else length):
                total = total + (sides[0][t - s] if s <= t else sides[1][s - t]) * z[:, s]
            y.append(total)
        return torch.stack(y, dim=1).to(z.dtype)


class ReferenceShortConvolution(ShortConvolution):
    """The same parameters; every output from its own few tokens."""

    def convolve(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "B L D"]:
        rows = []
        for first in range(x.shape[1] - self.kernel + 1):
            seen = x[:, first : first + self.kernel]
            y = torch.einsum("bkd,dk->bd", seen, self.weight.to(x.dtype))
            rows.append(y if self.bias is None else y + self.bias.to(x.dtype))
        return torch.stack(rows, dim=1)


class ReferenceGatedShortConvolution(ReferenceShortConvolution, GatedShortConvolution):
    """The same parameters."""


class ReferencePooling(Pooling):
    """Each token looks for its neighbours one by one."""

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        rows = []
        for row, tokens in enumerate(x):
            real = [at for at in range(len(tokens)) if valid is None or valid[row, at]]
            means = [self._mean(tokens, at, real) for at in range(len(tokens))]
            rows.append(torch.stack(means) - tokens)
        return torch.stack(rows)

    def _mean(self, tokens: Float[Tensor, "L D"], at: int, real: list[int]) -> Float[Tensor, " D"]:
        near = [other for other in real if self._distance(at, other) <= self.pool_size // 2]
        if self.patches is not None and not self._is_patch(at):
            return tokens[at]
        return (
            torch.stack([tokens[other] for other in near]).sum(0) / len(near) if near else torch.zeros_like(tokens[at])
        )

    def _is_patch(self, at: int) -> bool:
        assert self.patches is not None
        return 0 <= at - self.leading < self.patches[0] * self.patches[1]

    def _distance(self, at: int, other: int) -> int:
        if self.patches is None:
            return abs(at - other)
        if not (self._is_patch(at) and self._is_patch(other)):
            return self.pool_size
        here, there = (divmod(index - self.leading, self.patches[1]) for index in (at, other))
        return max(abs(here[0] - there[0]), abs(here[1] - there[1]))


class ReferenceMlpMixer(MlpMixer):
    """The same parameters; every channel of every row is a vector of its own."""

    def along(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        length, rows = x.shape[1], []
        for channel in x.transpose(1, 2).flatten(0, 1):
            hidden = (self.up.weight[:, :length] @ channel[:, None]).squeeze(-1) + self.up.bias
            active = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
            rows.append((self.down.weight[:length] @ active[:, None]).squeeze(-1) + self.down.bias[:length])
        y: Tensor = torch.stack(rows).unflatten(0, (len(x), -1)).transpose(1, 2)
        return y


class ReferenceFourier(Fourier):
    """Every output is a sum of cosines over all channels of all tokens of its row."""

    def transformed(
        self, x: Float[Tensor, "B L D"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B L D"]:
        rows = []
        for number, row in enumerate(in_float32(x)):
            length = len(row) if lengths is None else int(lengths[number])
            token, channel = (torch.arange(size, dtype=row.dtype) for size in (length, self.d_model))
            turns = torch.outer(token, token)[:, :, None, None] / length + torch.outer(channel, channel) / self.d_model
            mixed = torch.einsum("knld,nd->kl", torch.cos(2 * torch.pi * turns), row[:length])
            rows.append(torch.cat((mixed, torch.zeros_like(row[length:]))))
        return torch.stack(rows).to(x.dtype)


class ReferenceTokenShift(TokenShift):
    """A token shift with the same parameters, in which every token finds its neighbour, channel by channel."""

    def read(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L D"]:
        length, outputs = x.shape[1], []
        for position in range(length):
            channels = []
            for channel in range(self.d_model):
                beside = position - 1 if self.causal or channel % 2 == 0 else position + 1
                neighbour = torch.zeros_like(x[:, 0, channel])
                if 0 <= beside < length:
                    neighbour = x[:, beside, channel]
                    if valid is not None and beside > position:
                        neighbour = neighbour * valid[:, beside]
                share = self.share[channel].to(x.dtype)
                channels.append((1 - share) * x[:, position, channel] + share * neighbour)
            outputs.append(torch.stack(channels, dim=-1))
        return torch.stack(outputs, dim=1)
