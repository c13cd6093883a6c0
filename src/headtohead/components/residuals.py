"""Residual wirings: how the sublayers of a block meet the stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block_parts import Branch, Branches, Norm, NormFactory, ResidualScheme, Sublayer
from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.norms import NoNorm
from headtohead.ranges import Real


@dataclass
class NormStates(State):
    """The states of a residual scheme's norms between decoding steps."""

    norms: list[State] = field(default_factory=list)


class NormedResidual(ResidualScheme):
    """The base of residual schemes: some norms, and dropout on the branches."""

    norms_per_sublayer: ClassVar[int] = 1

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches) -> None:
        super().__init__()
        self.d_model, self.num_sublayers = d_model, branches.num_sublayers
        self.norms = nn.ModuleList(norm(d_model) for _ in range(self.norms_per_sublayer * self.num_sublayers))
        self.drop = Branch(d_model, self.num_sublayers, dropout=branches.dropout, drop_path=branches.drop_path)

    def dropped(self, y: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Return a branch as training adds it, with dropout and drop path; otherwise as it is."""
        return self.drop(y) if self.training else y

    @abstractmethod
    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        """Compute the scheme's equation; each norm and each sublayer is called once."""

    def forward(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], context: Context
    ) -> Float[Tensor, "B L D"]:
        return self.wire(x, [partial(norm, context=context) for norm in self.norms], sublayers)

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> NormStates:
        norms = cast(list[Norm], list(self.norms))
        return NormStates(norms=[norm.initial_state(batch_size, device=device, dtype=dtype) for norm in norms])

    def step(
        self, x: Float[Tensor, "B L D"], sublayers: Sequence[Sublayer], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], State]:
        assert isinstance(state, NormStates), "a state comes from initial_state"
        states = state.norms

        def stepping(position: int, norm: Norm) -> Sublayer:
            def normed(h: Tensor) -> Tensor:
                y, states[position] = norm.step(h, states[position], context)
                return y

            return normed

        norms = [stepping(position, norm) for position, norm in enumerate(cast(list[Norm], list(self.norms)))]
        return self.wire(x, norms, sublayers), state

    def costs(self, query: CostContext) -> Costs:
        parts = [self.drop, *cast(list[Norm], list(self.norms))]
        inner = sum((part.costs(query) for part in parts), Costs())
        saved = self.saved_elements(query.length) * query.bytes_per_element
        return Costs.of(
            self,
            forward_flops=inner.forward_flops,
            state_elements=inner.state_elements,
            activation_bytes=saved + inner.activation_bytes,
        )

    def saved_elements(self, length: int) -> int:
        """Count the elements that autograd saves besides those of the norms and of dropout."""
        del length
        return 0


class PreNorm(NormedResidual):
    """x + f(norm(x)) (Xiong et al. 2020, https://arxiv.org/abs/2002.04745)."""

    no_mup_rule = ""
    needs_final_norm = True
    begins_with_norm = True

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(norms, sublayers, strict=True):
            x = x + self.dropped(sublayer(norm(x)))
        return x

    def leave_out_first_norm(self) -> None:
        self.norms[0] = NoNorm(self.d_model)


class NoResidual(NormedResidual):
    """f(norm(x)): one sublayer after the other, as layers were stacked before residual streams; there is no branch to
    drop, so that drop path does nothing."""

    no_mup_rule = ""
    needs_final_norm = True
    has_stream = False

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches) -> None:
        super().__init__(norm, d_model, replace(branches, drop_path=0.0))

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(norms, sublayers, strict=True):
            x = self.dropped(sublayer(norm(x)))
        return x

    def output_bytes(self, query: CostContext) -> int:
        """Return the bytes of an output, which the next norm or sublayer saves, unless dropout stands between."""
        return 0 if self.drop.dropout > 0 else query.length * self.d_model * query.bytes_per_element


class PostNorm(NormedResidual):
    """norm(x + f(x)) (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

    no_mup_rule = ""
    needs_final_norm = False

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(norms, sublayers, strict=True):
            x = norm(x + self.dropped(sublayer(x)))
        return x


class Sandwich(NormedResidual):
    """x + norm(f(norm(x))) (Ding et al. 2021, https://arxiv.org/abs/2105.13290)."""

    no_mup_rule = ""
    needs_final_norm = True
    norms_per_sublayer = 2

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        before, after = norms[: self.num_sublayers], norms[self.num_sublayers :]
        for norm, sublayer, outer in zip(before, sublayers, after, strict=True):
            x = x + self.dropped(outer(sublayer(norm(x))))
        return x


class Reordered(NormedResidual):
    """x + norm(f(x)): the norm behind the sublayer and before the sum, as in OLMo 2 (2024,
    https://arxiv.org/abs/2501.00656)."""

    no_mup_rule = ""
    needs_final_norm = True

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(norms, sublayers, strict=True):
            x = x + self.dropped(norm(sublayer(x)))
        return x


class Parallel(NormedResidual):
    """x + f(norm(x)) + g(norm(x)): all sublayers read the same stream through one norm, as in GPT-J and PaLM
    (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311); without `shared_norm` each has its own (GPT-NeoX)."""

    no_mup_rule = ""
    needs_final_norm = True

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches, *, shared_norm: bool = True) -> None:
        super().__init__(norm, d_model, branches)
        self.shared_norm = shared_norm
        if shared_norm:
            self.norms = self.norms[:1]

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        normed = [norm(x) for norm in norms]
        if self.shared_norm:
            normed = normed * self.num_sublayers
        for h, sublayer in zip(normed, sublayers, strict=True):
            x = x + self.dropped(sublayer(h))
        return x

    def saved_elements(self, length: int) -> int:
        """Correct for the shared input: each reader counts its input, and here it is one tensor, the norm's output or
        the stream. A reader that saves something else (a token shift) makes this too little by as much."""
        return -(self.num_sublayers - 1) * length * self.d_model


class ReZero(NormedResidual):
    """x + a f(x) with a learned number a that starts at 0, and no norm (Bachlechner et al. 2020,
    https://arxiv.org/abs/2003.04887)."""

    needs_final_norm = False
    norms_per_sublayer = 0

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches) -> None:
        super().__init__(norm, d_model, branches)
        self.gains = nn.Parameter(torch.zeros(self.num_sublayers))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.gains)

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        del norms
        for gain, sublayer in zip(self.gains, sublayers, strict=True):
            x = x + self.dropped(gain * sublayer(x))
        return x

    def saved_elements(self, length: int) -> int:
        """Count the branches, which the gradient of their gains needs."""
        return self.num_sublayers * length * self.d_model


class LayerScale(NormedResidual):
    """x + a f(norm(x)) with a learned vector a that starts small (Touvron et al. 2021,
    https://arxiv.org/abs/2103.17239)."""

    needs_final_norm = True

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches, *, initial: Real = 1e-4) -> None:
        super().__init__(norm, d_model, branches)
        self.initial = initial
        self.gains = nn.Parameter(torch.full((self.num_sublayers, d_model), initial))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gains, self.initial)

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, gain, sublayer in zip(norms, self.gains, sublayers, strict=True):
            x = x + self.dropped(gain * sublayer(norm(x)))
        return x

    def saved_elements(self, length: int) -> int:
        """Count the branches, which the gradient of their gains needs."""
        return self.num_sublayers * length * self.d_model


class DeepNorm(NormedResidual):
    """norm(a x + f(x)) with a > 1 and branches that start small, both by depth (Wang et al. 2022,
    https://arxiv.org/abs/2203.00555).

    The constants are those of an encoder or a decoder alone; with a cross mixer, those of the decoder of a pair. The
    encoder of a pair takes the ones for an encoder alone, since it does not know its decoder's depth.
    """

    needs_final_norm = False

    def __init__(self, norm: NormFactory, d_model: int, branches: Branches) -> None:
        super().__init__(norm, d_model, branches)
        depth = branches.num_sublayers * branches.num_layers
        self.stream_gain, self.branch_gain = depth**0.25, (4 * depth) ** -0.25

    def wire(
        self, x: Float[Tensor, "B L D"], norms: Sequence[Sublayer], sublayers: Sequence[Sublayer]
    ) -> Float[Tensor, "B L D"]:
        for norm, sublayer in zip(norms, sublayers, strict=True):
            x = norm(self.stream_gain * x + self.dropped(sublayer(x)))
        return x
