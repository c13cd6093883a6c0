"""Every component declares its inputs, how it decodes step by step, and its exact costs.

Shape legend, used in names and in signatures of this package:
B batch, L length of the queries, M length of the keys, S length of a memory, D model width, H heads, G key-value heads,
K width of a head, R rotated part of it, F inner width of a feed-forward, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.costs import CostContext, Costs


@dataclass(frozen=True)
class TensorParallelPlan:
    """The way in which tensor parallelism divides a component: some linear layers by their outputs, others by their
    inputs, so that whatever lies between them needs no other device's part."""

    column_wise: tuple[str, ...]
    row_wise: tuple[str, ...]
    num_units: int
    """The number of these units; the number of devices must divide it."""
    unit_name: str
    """The name of the units."""


class Component(nn.Module, ABC):
    """A module that declares its costs."""

    no_mup_rule: ClassVar[str] = "no rule for it is known"
    """The reason why the start and the learning rate of its weights are not known at another width (maximal update
    parametrisation); empty where they are known."""
    float32_parameters: ClassVar[tuple[str, ...]] = ()
    """The directly held parameters that stay in float32 when the model is cast to 16 bits: exponents and
    frequencies, which are multiplied by times, so that rounding them would change their meaning."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Component:
        held = [parameter for name in self.float32_parameters if (parameter := getattr(self, name)) is not None]
        in_float32 = {id(tensor) for parameter in held for tensor in (parameter, parameter.grad) if tensor is not None}

        def apply(tensor: Tensor) -> Tensor:
            applied = fn(tensor)
            is_rounded = id(tensor) in in_float32 and applied.element_size() < min(4, tensor.element_size())
            return tensor.to(applied.device, torch.float32) if is_rounded else applied

        return super()._apply(apply, recurse)  # type: ignore[no-any-return, no-untyped-call]

    @abstractmethod
    def costs(self, query: CostContext) -> Costs:
        """Return the costs of this component alone, everything inside it included.

        Where two components share a tensor, the reader counts its input; the writer does not count its output.
        """

    def saves_output(self, query: CostContext) -> bool:
        """Return whether its costs hold its output after all, because its own backward pass reads that."""
        del query
        return False

    def reset_parameters(self) -> None:
        """Redraws the parameters that this module holds itself, not those of the modules inside it."""
        if held := [name for name, _ in self.named_parameters(recurse=False)]:
            raise NotImplementedError(f"{type(self).__name__} holds {', '.join(held)}: it must say how they start")

    def own_matrices(self) -> Iterator[Tensor]:
        """Yield the directly held parameters that an initialisation draws like any linear layer's; none by default."""
        return iter(())

    def no_weight_decay(self) -> Iterator[Tensor]:
        """Yield the directly held parameters that are matrices but no weights, such as rates and shares by channel:
        weight decay would change what a model remembers. None by default."""
        return iter(())

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return how to divide this component; None, the default, keeps it whole on every device."""
        return None


@dataclass(frozen=True)
class Context:
    """The masks, positions and other inputs that a component may read besides its own.

    The stack fills `causal` and `encoding`, and the fields below these once per forward pass, and only when one of its
    mixers reads scores.
    """

    valid: Bool[Tensor, "B L"] | None = None
    """The mask of real tokens; None means all are. A stack accepts padding anywhere and moves it to the right of what
    its parts read; in `step` it precedes a row's first real token."""
    segments: Int[Tensor, "B L"] | None = None
    """Number of the document each token belongs to, for packed rows; None means one document per row."""
    positions: Int[Tensor, "#B L"] | None = None
    """Place of each token in its own document; None means 0, 1, 2 ..."""
    memory: Float[Tensor, "B S D"] | None = None
    """The memory that a cross mixer reads."""
    memory_valid: Bool[Tensor, "B S"] | None = None
    causal: bool = False
    """Whether a token may know of those before it alone."""
    encoding: Position | None = None
    """The position encoding in force, for mixers that rotate queries and keys or bias their scores."""
    key_positions: Int[Tensor, "#B M"] | None = None
    """Places of the keys, where they are not the queries' own tokens (in `step`)."""
    rotation: Float[Tensor, "2 #B 1 L R"] | None = None
    """The cosines and sines that `encoding.rotate` needs for these tokens."""
    allowed: Bool[Tensor, "#B 1 #L M"] | None = None
    """The mask of keys that a query may attend to; None means that only the mixer's own causality applies."""
    bias: Float[Tensor, "#B #H #L M"] | None = None
    """Added to the scores: minus infinity where not allowed, else the encoding's bias. None exactly if `allowed` is."""
    shared: tuple[Float[Tensor, "N D"], ...] = ()
    """The vectors that the parts in `Stack.shared` gave, made once for all layers."""
    first_values: Float[Tensor, "B G L K"] | None = None
    """The values of the first layer, for mixers that mix them with their own."""
    values_out: list[Tensor] | None = None
    """The list to which the mixer of the first layer appends its values, where later layers read them."""

    def with_encoding(self, encoding: Position) -> Context:
        """Return the context with an encoding of a layer's own, of which no rotation is made yet."""
        return replace(self, encoding=encoding, rotation=None)


@dataclass
class State:
    """The state that a mixer carries from one decoding step to the next; every subclass adds its tensors."""

    length: int = 0
    """The number of tokens read so far."""

    def tensors(self) -> Iterator[Tensor]:
        """Yield its own tensors and those of nested states."""
        for field in fields(self):
            value = getattr(self, field.name)
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Tensor):
                    yield part
                elif isinstance(part, State):
                    yield from part.tensors()


PLAIN = "torch"
"""The kernel's name for a mixer that is written in torch's plain operations."""


class Mixer(Component):
    """Mixes information along the sequence: x[B, L, D] -> y[B, L, D]."""

    can_be_causal: ClassVar[bool] = True
    can_be_bidirectional: ClassVar[bool] = True
    reads_scores: ClassVar[bool] = False
    """Whether the mixer has a score for each pair of tokens: only such scores can be biased by a position encoding."""
    reads_rotation: ClassVar[bool] = False
    """Whether the mixer has queries and keys that a position encoding can rotate."""
    without_pairs: ClassVar[str] = "computes no scores of pairs of tokens"
    """The reason why a position encoding has nothing to rotate or bias here, as the end of a sentence on the mixer."""
    shares_scores: ClassVar[bool] = True
    """Whether it reads the masks and biases of all pairs in `context.allowed` and `context.bias`; other mixers make
    their own for the pairs that they attend to."""
    needs_length: ClassVar[bool] = False
    """Whether a weight belongs to every position: the constructor then takes `max_length` too."""
    reads_grid: ClassVar[bool] = False
    """Whether it mixes an image's patches by row and column: the constructor then takes `max_length` and `grid` too."""
    leaves_class_token: ClassVar[bool] = False
    """Whether a class token before an image's patches passes it unchanged, and thus sees none of them."""
    reads_one_way: ClassVar[bool] = False
    """Whether it is a recurrence, which reads every row from its first token to its last, whatever `causal` asks for;
    the stack makes a bidirectional one of two."""
    follows_order: ClassVar[bool] = True
    """Whether a bidirectional one without positions tells the order of its tokens; if not, tokens in another order have
    the same outputs in that order."""
    sees_window: ClassVar[bool] = False
    """Whether a token sees only those near it: a position encoding may turn by other angles there."""
    transforms: ClassVar[bool] = False
    """Whether a Fourier transform does less work than the plain form: then its work is what the mixer costs."""

    keeps_float32: ClassVar[bool] = False
    """Whether `float32_parameters` of it, or of what it is made of, stay in float32 in a model of 16 bits."""

    causal: bool
    max_length: int | None = None
    """The longest sequence that it has weights for; None means any."""

    def share_parts(self, shared: nn.ModuleList) -> None:
        """Move a part that all layers may share to the end of `shared`, or use one that an earlier layer moved there;
        a stack calls it once in each layer. By default nothing is shared."""
        del shared

    @property
    def saves_shared_bias(self) -> bool:
        """Return whether the backward pass keeps the shared biases themselves; other mixers save a copy of their own,
        or none."""
        return True

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return what computes the mixer on such a device in such a precision (None: where its parameters are): the
        name of a fused kernel, or `torch` for plain operations, the default. Empty for a mixer that computes nothing by
        itself.

        Verdicts at equal time report it for every arm, and describe plain operations as bound by their implementation.
        """
        del device, dtype
        return PLAIN

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Process the whole sequence at once."""

    @abstractmethod
    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """Return an empty state with room for `max_length` tokens."""

    @abstractmethod
    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        """Process the next tokens (one, or a prompt of several), given the state of all before; causal mixers only."""


class CrossMixer(Component):
    """A mixer that reads a memory: x[B, L, D] with context.memory[B, S, D] -> y[B, L, D].

    The memory is one tensor for all layers: the stack counts it among what autograd saves, the cross mixer does not.
    """

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return what computes the mixer, as `Mixer.kernel_in_use` does."""
        del device, dtype
        return PLAIN

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Process the whole sequence at once."""

    def read(self, context: Context) -> State:
        """Return what decoding needs of the memory, made once; by default nothing, since `step` has the memory at
        hand."""
        del context
        return State()

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> Float[Tensor, "B L D"]:
        """Process the next tokens, given what was read of the memory."""
        del state
        return self.forward(x, context)


class Position(Component):
    """A position encoding: three hooks, each of which does nothing by default."""

    adds_to_tokens: ClassVar[bool] = False
    rotates: ClassVar[bool] = False
    biases_scores: ClassVar[bool] = False
    bias_reads_queries: ClassVar[bool] = False
    """Whether the bias must be computed in every layer from its queries (Shaw)."""
    shared_by_layers: ClassVar[bool] = True
    """Whether all layers share one table; otherwise every layer owns its own."""
    needs_grid: ClassVar[bool] = False
    """Whether the tokens must be the patches of an image."""
    width_multiple: ClassVar[int] = 1
    """The number that the model's width must be a multiple of."""
    rotates_keys_alike: ClassVar[bool] = True
    """Whether `rotate` does with keys what it does with queries; if not, `rotate_keys` rotates them."""
    rotated_multiple: ClassVar[int] = 1
    """The number that the rotated part of a head's width must be a multiple of."""

    max_length: int | None = None
    """The longest sequence that has positions; None means any."""

    @property
    def bias_learns(self) -> bool:
        """Return whether the bias has a gradient, by its own parameters or by the queries."""
        learns = self.bias_reads_queries or any(parameter.requires_grad for parameter in self.parameters())
        return self.biases_scores and learns

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return what autograd saves to compute the bias for so many queries and pairs, without the bias itself."""
        del query, num_queries, num_pairs
        return 0

    def in_windows(self) -> Position | None:
        """Return the encoding of the layers whose mixer sees a window; None where it is this one, as by default."""
        return None

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        del positions
        return x

    def rotation(self, positions: Int[Tensor, "#B L"], dtype: torch.dtype) -> Float[Tensor, "2 #B 1 L R"] | None:
        """Return what `rotate` needs for tokens at these positions, made once for all layers."""
        del positions, dtype
        return None

    def rotate(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        """Rotate queries, and keys where they rotate alike."""
        del rotation
        return x

    def rotate_keys(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        """Rotate keys, by default as queries."""
        return self.rotate(x, rotation)

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"] | None:
        del queries, query_positions, key_positions
        return None


Grid = tuple[int, int]
"""Rows and columns of an image's patches."""
MixerFactory = Callable[..., Mixer]
"""mixer(d_model, num_heads=H, causal=bool, dropout=p), and max_length=N where the class `needs_length`, or both N and
grid=(rows, columns) where it `reads_grid`"""
CrossFactory = Callable[..., CrossMixer]
"""cross(d_model, num_heads=H, dropout=p)"""
PositionFactory = Callable[..., Position]
"""position(d_model, num_heads=H, max_length=N, causal=bool, grid=(rows, columns) or None)"""
Initialisation = Callable[[nn.Module], None]
