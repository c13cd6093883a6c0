"""These twins of linear mixers (decayed sums, attention by features, matrix memories) read and write their state
token by token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.mixers.linear.delta_product import DeltaProduct
from headtohead.components.mixers.linear.gated_delta import GatedDelta
from headtohead.components.mixers.linear.gated_linear import GatedLinearAttention
from headtohead.components.mixers.linear.hgrn2 import Hgrn2
from headtohead.components.mixers.linear.kernel_attention import Features, KernelAttention
from headtohead.components.mixers.linear.kimi_delta import KimiDelta
from headtohead.components.mixers.linear.lightning_attention import LightningAttention
from headtohead.components.mixers.linear.linear_attention import Based, LinearAttention, Performer
from headtohead.components.mixers.linear.mamba2 import Mamba2
from headtohead.components.mixers.linear.mamba3 import Mamba3, Mamba3Selection
from headtohead.components.mixers.linear.matrix_memory import MatrixMemory, MemoryInputs
from headtohead.components.mixers.linear.mlstm import Mlstm, MlstmGates
from headtohead.components.mixers.linear.retention import Retention
from headtohead.components.mixers.linear.rwkv6 import Rwkv6
from headtohead.components.mixers.linear.rwkv7 import Rwkv7
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.ragged_rows import find_document_starts


class ReferenceDecayedSums:
    """A mixin that replaces the chunks of a mixer."""

    def sums(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B #H #L"],
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
        q, k, v = (t.to(log_decay.dtype) for t in (q, k, v))
        decay = log_decay.expand(*v.shape[:3]).exp()
        last = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]) if state is None else state
        rows = []
        for t in range(v.shape[2]):
            if document_starts is not None:
                last = last * ~document_starts[:, t, None, None, None]
            last = decay[:, :, t, None, None] * last + k[:, :, t, :, None] @ v[:, :, t, None]
            rows.append(q[:, :, t, None] @ last)
        return torch.cat(rows, dim=2), last


class ReferenceMamba2(ReferenceDecayedSums, Mamba2):
    """The same parameters."""


class ReferenceMamba3(Mamba3):
    """The same parameters; a token decays the states, then writes what the one before it brought, and itself."""

    def read(
        self,
        chosen: Mamba3Selection,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H N P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H N P"]]:
        v, outputs = chosen.value.to(chosen.own.dtype), []
        for t in range(v.shape[2]):
            key, value = chosen.B[:, :, t, :, None], v[:, :, t, None]
            written = (chosen.own[:, :, t, None, None] * key) @ value
            if state is not None:
                before = chosen.B[:, :, t - 1, :, None] @ v[:, :, t - 1, None]
                state = state + chosen.previous[:, :, t, None, None] * before
                if document_starts is not None:
                    state = state * ~document_starts[:, t, None, None, None]
                state = chosen.log_decay[:, :, t, None, None].exp() * state
            state = written if state is None else state + written
            outputs.append(chosen.C[:, :, t, None] @ state)
        assert state is not None, "a row has a token"
        return torch.cat(outputs, dim=2), state


class ReferenceMlstm(ReferenceDecayedSums, Mlstm):
    """The same parameters; m_t = max(log f_t + m_(t-1), i_t) as the paper has it, and its gradient followed."""

    def open_gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
        scale: Float[Tensor, "B H"] | None = None,
    ) -> MlstmGates:
        exact = at_least_float32(x.dtype)
        bias = torch.cat((self.input_bias, self.forget_bias)).to(exact)
        i, f = (F.linear(x.to(exact), self.gate_weight.to(exact)) + bias).mT.chunk(2, dim=1)
        m = torch.zeros_like(i[..., 0]) if scale is None else scale
        let_in, log_forget, scales = [], [], []
        for t in range(x.shape[1]):
            i_t, log_f = i[..., t], F.logsigmoid(f[..., t])
            if valid is not None:
                i_t = i_t.masked_fill(~valid[:, None, t], float("-inf"))
                log_f = log_f.masked_fill(~valid[:, None, t], 0.0)
            before = m if document_starts is None else m * ~document_starts[:, None, t]
            m = torch.maximum(log_f + before, i_t)
            let_in.append((i_t - m).exp())
            log_forget.append(log_f + before - m)
            scales.append(m)
        return MlstmGates(*(torch.stack(rows, dim=-1) for rows in (let_in, log_forget, scales)))


class ReferenceRetention(ReferenceDecayedSums, Retention):
    """The same parameters."""


class ReferenceLightningAttention(ReferenceDecayedSums, LightningAttention):
    """The same parameters."""


class ReferenceKernelAttention(KernelAttention):
    """Adds one token to the sums, then reads them; read from last to first as well where all tokens count."""

    def means_before(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        (q, k), (turned_q, turned_k) = (features.q, features.k), features.weighing
        document_starts, v = find_document_starts(context), v.to(q.dtype)
        sums, totals = v.new_zeros(*v.shape[:2], q.shape[-1], v.shape[-1]), torch.zeros_like(q[:, :, 0])
        rows = []
        for position in range(v.shape[2]):
            if document_starts is not None:
                goes_on = ~document_starts[:, position, None, None]
                sums, totals = sums * goes_on[..., None], totals * goes_on
            sums = sums + turned_k[:, :, position, :, None] @ v[:, :, position, None]
            totals = totals + k[:, :, position]
            rows.append(_read(q[:, :, position], turned_q[:, :, position], sums, totals))
        return torch.stack(rows, dim=2)

    def means_of_all(self, features: Features, v: Tensor, context: Context) -> Float[Tensor, "B H L K"]:
        (q, k), (turned_q, turned_k) = (features.q, features.k), features.weighing
        document_starts, v = find_document_starts(context), v.to(q.dtype)
        number = torch.zeros(v.shape[0], v.shape[2]) if document_starts is None else document_starts.cumsum(1)
        y = torch.zeros_like(v)
        for document in range(int(number.max()) + 1):
            inside = (number == document)[:, None, :, None]
            sums, totals = torch.zeros_like(q[:, :, 0, :, None] * v[:, :, 0, None]), (k * inside).sum(2)
            for position in range(v.shape[2]):
                sums = sums + (turned_k * inside)[:, :, position, :, None] @ v[:, :, position, None]
            rows = [_read(q[:, :, position], turned_q[:, :, position], sums, totals) for position in range(v.shape[2])]
            y = y + torch.stack(rows, dim=2) * inside
        return y


def _read(
    q: Float[Tensor, "B H F"],
    turned_q: Float[Tensor, "B H F"],
    sums: Float[Tensor, "B H F K"],
    totals: Float[Tensor, "B H F"],
) -> Tensor:
    """Return the query's weighted mean of values; a rotary position rotates only the features that weigh values."""
    total = (q * totals).sum(-1, keepdim=True)
    return (turned_q[:, :, None] @ sums)[:, :, 0] / total.where(total != 0, 1.0)


class ReferenceLinearAttention(ReferenceKernelAttention, LinearAttention):
    """The same parameters and features."""


class ReferencePerformer(ReferenceKernelAttention, Performer):
    """The same parameters and directions."""


class ReferenceBased(ReferenceKernelAttention, Based):
    """The same parameters; every feature is written out, one by one."""

    def query_features(self, q: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L F"]:
        width, channels = self.key_width, q.unbind(-1)
        features = [torch.ones_like(channels[0]), *(channel / width**0.25 for channel in channels)]
        for i in range(width):
            features += [channels[i] * channels[j] / (width * (1 + (i == j))) ** 0.5 for j in range(i, width)]
        return torch.stack(features, dim=-1)


class ReferenceMatrixMemory(MatrixMemory):
    """A memory of which the first token of a row reads nothing."""

    def read(self, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B H L V"]:
        exact = at_least_float32(parts.v.dtype)
        q, k, v, decay = (t.to(exact) for t in (parts.q, parts.k, parts.values, parts.log_decay.exp()))
        matrix, outputs = None, []
        for token in range(v.shape[2]):
            value = v[:, :, token, None]
            if matrix is not None:
                if document_starts is not None:
                    matrix = matrix * ~document_starts[:, token, None, None, None]
                matrix = matrix * decay[:, :, token, :, None]
                if parts.reads is not None:
                    read = parts.reads[:, :, token, None].to(exact) @ matrix
                    if parts.writes is None:
                        value = value + read
                    else:
                        matrix = matrix + parts.writes[:, :, token, :, None].to(exact) @ read
            written = k[:, :, token, :, None] @ value
            matrix = written if matrix is None else matrix + written
            outputs.append(q[:, :, token, None] @ matrix)
        return torch.cat(outputs, dim=2).to(parts.v.dtype)


class ReferenceGatedDelta(ReferenceMatrixMemory, GatedDelta):
    """The same parameters."""


class ReferenceGatedLinearAttention(ReferenceMatrixMemory, GatedLinearAttention):
    """The same parameters."""


class ReferenceRwkv7(ReferenceMatrixMemory, Rwkv7):
    """The same parameters."""


class ReferenceKimiDelta(ReferenceMatrixMemory, KimiDelta):
    """The same parameters."""


class ReferenceDeltaProduct(DeltaProduct):
    """The same parameters; every token makes its Householder products one by one."""

    def read(self, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B H L V"]:
        assert parts.rate is not None, "project makes it"
        exact = at_least_float32(parts.v.dtype)
        q, k, v, rate, decay = (
            part.to(exact) for part in (parts.q, parts.k, parts.v, parts.rate, parts.log_decay.exp())
        )
        keys, values = (part.unflatten(-1, (self.num_writes, 1, -1)) for part in (k, v))
        matrix, outputs = None, []
        for token in range(q.shape[2]):
            if matrix is not None:
                matrix = matrix * decay[:, :, token, None]
                if document_starts is not None:
                    matrix = matrix * ~document_starts[:, token, None, None, None]
            for write in range(self.num_writes):
                key, value, share = keys[:, :, token, write], values[:, :, token, write], rate[:, :, token, write]
                if matrix is not None:
                    value = value - key @ matrix
                written = (share[..., None, None] * key).mT @ value
                matrix = written if matrix is None else matrix + written
            assert matrix is not None, "a token writes"
            outputs.append(q[:, :, token, None] @ matrix)
        return torch.cat(outputs, dim=2).to(parts.v.dtype)


class ReferenceHgrn2(Hgrn2):
    """The same parameters, in the paper's equations: f_t = c + (1 - c) sigmoid(.), and 1 - f_t is the key."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        exact, document_starts = at_least_float32(x.dtype), find_document_starts(context)
        floor = self.floor.to(exact).sigmoid()
        forget = floor + (1 - floor) * self.forget(x).to(exact).sigmoid()
        q, i = self.query(x), self.value(x).to(exact)
        q, f, i = (part.unflatten(-1, (self.num_heads, -1)) for part in ((q * q.sigmoid()).to(exact), forget, i))
        matrix, outputs = torch.zeros_like(f[:, 0, ..., None] * i[:, 0, :, None]), []
        for t in range(x.shape[1]):
            if document_starts is not None:
                matrix = matrix * ~document_starts[:, t, None, None, None]
            matrix = f[:, t, ..., None] * matrix + (1 - f[:, t, ..., None]) @ i[:, t, :, None]
            outputs.append((q[:, t, :, None] @ matrix).flatten(1))
        y: Tensor = self.output(self.norm(torch.stack(outputs, 1).to(x.dtype)))
        return y


class ReferenceRwkv6(Rwkv6):
    """The same parameters; a token reads the matrix as the one before left it, and itself with the bonus."""

    def read(self, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B H L V"]:
        exact = at_least_float32(parts.v.dtype)
        r, k, v, decay = (t.to(exact) for t in (parts.q, parts.k, parts.v, parts.log_decay.exp()))
        u = self.bonus.to(exact).view(self.num_heads, -1)
        matrix, outputs = None, []
        for t in range(v.shape[2]):
            own = (r[:, :, t] * u * k[:, :, t]).sum(-1, keepdim=True) * v[:, :, t]
            if matrix is not None and document_starts is not None:
                matrix = matrix * ~document_starts[:, t, None, None, None]
            outputs.append(own if matrix is None else own + (r[:, :, t, None] @ matrix).squeeze(2))
            if t + 1 < v.shape[2]:
                written = k[:, :, t, :, None] @ v[:, :, t, None]
                matrix = written if matrix is None else decay[:, :, t, :, None] * matrix + written
        return torch.stack(outputs, dim=2).to(parts.v.dtype)
