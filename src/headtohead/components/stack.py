"""A stack of blocks with the position encoding that they share: all of a transformer but its embedding and head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block import Block
from headtohead.components.block_parts import Branches, Norm
from headtohead.components.checkpointing import Checkpointing
from headtohead.components.component import Component, Context, CrossFactory, Grid, Mixer, Position, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import NoFeedForward
from headtohead.components.first_values import first_values_bytes, link_first_values, with_first_values
from headtohead.components.linear_maps import InputLinear, linear_costs
from headtohead.components.mixers.combined_mixers import directed_mixer, with_local_first
from headtohead.components.position_costs import EncodingReaders
from headtohead.components.sequence_ops import score_masks
from headtohead.components.sequence_ops.ragged_rows import in_order, left_aligned
from headtohead.components.stack_parts import (
    StackOptions,
    StackParts,
    StackSize,
    StackState,
    check_loops,
    position_of_width,
    sees_window,
    sharing_scores,
)
from headtohead.errors import UsageError


class Stack(Component):
    """Add positions, apply the blocks, then a final norm where the residual scheme needs one.

    Dropout follows the norm after the embedding, or the embedding itself. Drop path grows linearly from 0 at the first
    block to its rate at the last. With `loops` all blocks are passed so many times in turn (Dehghani et al. 2019,
    https://arxiv.org/abs/1807.03819): a state of decoding has an entry for each pass.
    """

    checkpointing: Checkpointing = Checkpointing()

    def __init__(
        self,
        size: StackSize,
        parts: StackParts,
        options: StackOptions = StackOptions(),
        *,
        cross: CrossFactory | None = None,
        causal: bool,
        max_length: int | None,
        grid: Grid | None = None,
        embedding_width: int | None = None,
    ) -> None:
        super().__init__()
        d_model, num_heads, norm, dropout = size.d_model, size.num_heads, parts.norm, options.dropout
        mixers = parts.mixer_by_layer(size.num_layers)
        feedforwards = parts.feedforward_by_layer(size.num_layers)
        assert mixers, "a stack has at least one layer"
        self.d_model, self.num_heads, self.num_layers = d_model, num_heads, len(mixers)
        self.causal, self.dropout, self.loops = causal, dropout, options.loops
        width = embedding_width or d_model
        position = partial(position_of_width(parts.position, width), d_model, num_heads=num_heads)
        make_position = partial(position, max_length=max_length, causal=causal, grid=grid)
        self.positions = nn.ModuleList([make_position()])
        self.shares_position = self.position.shared_by_layers
        if not self.shares_position:
            self.positions.extend(make_position() for _ in mixers[1:])
        self.embedding_norm = norm(width) if options.embedding_norm else None
        self.widening = None if embedding_width is None else InputLinear(width, d_model)
        self.blocks = nn.ModuleList()
        for layer, (mixer, feedforward) in enumerate(zip(mixers, feedforwards, strict=True)):
            make = partial(directed_mixer, d_model=d_model, num_heads=num_heads, causal=causal)
            make = partial(make, dropout=dropout, max_length=max_length, grid=grid)
            mixing = with_local_first(make(parts.local), make(mixer))
            crossing = None if cross is None else cross(d_model, num_heads=num_heads, dropout=dropout)
            feeding = feedforward(d_model, dropout=dropout)
            num_sublayers = 1 + (crossing is not None) + (not isinstance(feeding, NoFeedForward))
            drop_path = options.drop_path * layer / max(1, len(mixers) - 1)
            wiring = parts.residual(norm, d_model, Branches(self.depth, num_sublayers, dropout, drop_path))
            self.blocks.append(Block(mixing, crossing, feeding, wiring))
        if not options.first_norm:
            self.layers[0].wiring.leave_out_first_norm()
        self.final_norm = norm(d_model) if self.layers[-1].wiring.needs_final_norm else None
        mixing_parts = [part for part in self.modules() if isinstance(part, Mixer)]
        self.shared = nn.ModuleList()
        for part in mixing_parts:
            part.share_parts(self.shared)
        self.first_values_layer = link_first_values(self.layers)
        self.reads_positions = any(part.reads_scores or part.reads_rotation for part in mixing_parts)
        self.layers_share_scores = [bool(sharing_scores([block])) for block in self.layers]
        self.shares_scores = any(self.layers_share_scores)
        self.see_windows = [sees_window(block) for block in self.layers]
        self.has_cross = cross is not None
        self.keeps_statistics = any(isinstance(part, Norm) and part.keeps_statistics for part in self.modules())
        check_loops(self, self.loops)

    @property
    def layers(self) -> list[Block]:
        return cast(list[Block], list(self.blocks))

    @property
    def depth(self) -> int:
        """Return how many layers a token passes, loops included."""
        return self.num_layers * self.loops

    @property
    def passes(self) -> list[tuple[int, Block]]:
        """Return the layers in the order in which a token passes them, with their numbers."""
        return list(enumerate(self.layers)) * self.loops

    @property
    def position(self) -> Position:
        """Return the encoding, or that of the first layer where each has its own."""
        return cast(Position, next(iter(self.positions)))

    def length_error(self, length: int) -> str | None:
        """Return why rows of so many tokens are too long; None where they are not."""
        parts: list[Position | Mixer] = [self.position, *(part for part in self.modules() if isinstance(part, Mixer))]
        for part in parts:
            if part.max_length is not None and length > part.max_length:
                return f"{type(part).__name__} knows {part.max_length} positions, and rows of {length} tokens need more"
        return None

    def forward(self, x: Float[Tensor, "B L E"], context: Context) -> Float[Tensor, "B L D"]:
        """Process whole rows; padding may be anywhere, and a row's real tokens are read as if they stood alone."""
        if context.valid is None:
            return self._read(x, context)
        rows = left_aligned(x, context.valid)
        return rows.back(self._read(rows.x, in_order(context, rows.order)))

    def _read(self, x: Float[Tensor, "B L E"], context: Context) -> Float[Tensor, "B L D"]:
        context = self._placed(context, 0, x, context.rotation)
        x = self._embed(x, context)
        if self.shares_scores:
            biases = self.shares_position
            context = score_masks.with_score_masks(context, x, causal=self.causal, encoding_biases=biases)
        elif self.reads_positions:
            context = score_masks.with_scores(context, None, score_masks.compute_dtype(x))
        policy, x = self._policy(), self.layers[0].wiring.widened(x)
        in_windows = self._in_windows(context, x)
        values_out: list[Tensor] = []
        for number, (layer, block) in enumerate(self.passes):
            own = self._of_layer(context, layer, x, in_windows)
            own = with_first_values(own, layer, self.first_values_layer, values_out)
            x = policy.passed(block, number, x, own)
        x = self.layers[-1].wiring.narrowed(x)
        return x if self.final_norm is None else self.final_norm(x, context)

    def _policy(self) -> Checkpointing:
        """Return what to recompute in the backward pass; nothing where there will be none."""
        if not torch.is_grad_enabled():
            return Checkpointing()
        recomputes_norms = self.checkpointing.kind in ("full", "every_k")
        if recomputes_norms and self.keeps_statistics and torch.compiler.is_compiling():
            raise UsageError(
                f"checkpointing={self.checkpointing.kind} under torch.compile would update a norm's statistics twice: "
                "use checkpointing=attention or none, trainer.compile=false, or another norm than batch_norm"
            )
        return self.checkpointing

    def _placed(self, context: Context, start: int, x: Float[Tensor, "B L D"], rotation: Tensor | None) -> Context:
        position, end = self.position, start + x.shape[1]
        limit = position.max_length
        if limit is not None and end > limit:
            raise UsageError(
                f"a sequence of {end} tokens is longer than the position encoding's max_length={limit}: "
                "set model.max_length higher, or use a position without a table (rotary, alibi, sinusoidal)"
            )
        positions = context.positions
        if positions is None:
            positions = torch.arange(start, end, device=x.device)[None]
        shared = tuple(part() for part in self.shared)
        return replace(
            context, positions=positions, causal=self.causal, encoding=position, shared=shared, rotation=rotation
        )

    def _next_rotation(self, x: Float[Tensor, "B L D"], state: StackState) -> Float[Tensor, "2 1 1 L R"] | None:
        """Return the rotation of the next tokens, cut from that of all; None where there is none, or no room."""
        position, end = self.position, state.length + x.shape[1]
        room = state.room if position.max_length is None else min(state.room, position.max_length)
        if not (position.rotates and self.reads_positions) or end > room:
            return None
        dtype = score_masks.compute_dtype(x)
        if not state.rotations or state.rotations[0].dtype != dtype:
            state.rotations = (cast(Tensor, position.rotation(torch.arange(room, device=x.device)[None], dtype)),)
        return state.rotations[0].narrow(3, state.length, x.shape[1])

    def _embed(
        self, x: Float[Tensor, "B L E"], context: Context, state: StackState | None = None
    ) -> Float[Tensor, "B L D"]:
        assert context.positions is not None
        x = self.position.add(x, context.positions)
        if self.embedding_norm is not None and state is None:
            x = self.embedding_norm(x, context)
        elif self.embedding_norm is not None and state is not None:
            x, state.embedding_norm = self.embedding_norm.step(x, state.embedding_norm, context)
        x = F.dropout(x, self.dropout) if self.training else x
        return x if self.widening is None else cast(Tensor, self.widening(x))

    def _in_windows(self, context: Context, x: Tensor) -> Context | None:
        """Return the context of layers that see a window; None where it is that of all."""
        encoding = self.position.in_windows()
        if encoding is None or not any(self.see_windows):
            return None
        assert context.positions is not None
        rotation = encoding.rotation(context.positions, score_masks.compute_dtype(x))
        return replace(context, encoding=encoding, rotation=rotation)

    def _of_layer(self, context: Context, layer: int, x: Tensor, in_windows: Context | None) -> Context:
        """Return the context itself, that of layers that see a window, or one with the layer's own encoding."""
        if in_windows is not None and self.see_windows[layer]:
            return in_windows
        if self.shares_position or not self.reads_positions:
            return context
        position = cast(Position, self.positions[layer])
        if position.bias_reads_queries or not self.layers_share_scores[layer]:
            return context.with_encoding(position)
        return score_masks.with_scores(context.with_encoding(position), context.allowed, score_masks.compute_dtype(x))

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> StackState:
        """Return an empty state with room for `max_length` tokens."""
        if not self.causal:
            raise UsageError("a bidirectional stack cannot decode step by step: use a causal one")
        table = torch.zeros(batch_size, max_length, dtype=torch.long, device=device)
        state = StackState(room=max_length, positions=table if self.position.biases_scores else None)
        for _, block in self.passes:
            state.layers.append(block.initial_state(batch_size, max_length, device=device, dtype=dtype))
        if self.embedding_norm is not None:
            state.embedding_norm = self.embedding_norm.initial_state(batch_size, device=device, dtype=dtype)
        if self.final_norm is not None:
            state.final_norm = self.final_norm.initial_state(batch_size, device=device, dtype=dtype)
        return state

    def step(
        self, x: Float[Tensor, "B L E"], state: StackState, context: Context
    ) -> tuple[Float[Tensor, "B L D"], StackState]:
        """Process the next tokens (a prompt, then one by one); `context` describes these tokens alone."""
        if context.segments is not None:
            raise UsageError("segments cannot be decoded step by step: give each document a row of its own")
        layers = self.layers
        rotation = self._next_rotation(x, state) if context.positions is None else context.rotation
        context = self._placed(context, state.length, x, rotation)
        x = self._embed(x, context, state)
        if self.shares_scores:
            context = self._scores_of_step(x, state, context)
        elif self.reads_positions and context.rotation is None:
            context = score_masks.with_scores(context, None, score_masks.compute_dtype(x))
        if self.has_cross and not state.memories:
            state.memories = [block.read(context) for block in layers]
        memories = state.memories or [State()] * self.num_layers
        x = layers[0].wiring.widened(x)
        in_windows = self._in_windows(context, x)
        values_out: list[Tensor] = []
        for number, (layer, block) in enumerate(self.passes):
            own = self._of_layer(context, layer, x, in_windows)
            own = with_first_values(own, layer, self.first_values_layer, values_out)
            x, state.layers[number] = block.step(x, state.layers[number], memories[layer], own)
        x = layers[-1].wiring.narrowed(x)
        state.length += x.shape[1]
        if self.final_norm is not None:
            x, state.final_norm = self.final_norm.step(x, state.final_norm, context)
        return x, state

    def _scores_of_step(self, x: Float[Tensor, "B L D"], state: StackState, context: Context) -> Context:
        """Return the context with masks and biases of the new tokens over all tokens; none where causality suffices."""
        start, length, end = state.length, x.shape[1], state.length + x.shape[1]
        if context.valid is not None and state.valid is None:
            state.valid = torch.ones(len(x), state.room, dtype=torch.bool, device=x.device)
        if state.valid is not None and context.valid is not None:
            state.valid[:, start:end] = context.valid
        keys = None
        if state.positions is not None:
            assert context.positions is not None
            state.positions[:, start:end] = context.positions
            keys = state.positions[:, :end]
        allowed = None
        if state.valid is not None or keys is not None:
            allowed = score_masks.causal_mask(length, end, x.device)
        elif context.rotation is not None or not self.position.rotates:
            return context
        if state.valid is not None and allowed is not None:
            allowed = allowed & state.valid[:, None, None, :end]
        dtype, biases = score_masks.compute_dtype(x), self.shares_position
        return score_masks.with_scores(replace(context, key_positions=keys), allowed, dtype, encoding_biases=biases)

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield path, kind and costs of every part; their sum is the stack. Recomputed parts save only their input,
        offloaded ones nothing on a device beside the processor."""
        biased_heads = self.num_heads if self.position.biases_scores else 0
        query = replace(query, causal=self.causal, biased_heads=biased_heads, encoding=self.position)
        positions = cast(list[Position], list(self.positions))
        yield from EncodingReaders(positions, self.layers, self.loops, self.checkpointing).cost_rows(query)
        for index, part in enumerate(cast(list[Component], list(self.shared))):
            yield f"shared.{index}", "mixer", part.costs(query)
        if self.embedding_norm is not None:
            yield "embedding_norm", "norm", self.embedding_norm.costs(query)
        if self.widening is not None:
            count = sum(parameter.numel() for parameter in self.widening.parameters())
            yield "widening", "embedding", linear_costs(self.widening.in_features, self.d_model, count, query)
        policy, stream = self.checkpointing, query.length * self.d_model * query.bytes_per_element
        for index, block in enumerate(self.layers):
            covered = [policy.covers_block(number) for number in range(index, self.depth, self.num_layers)]
            for name, costs in block.cost_rows(query):
                if policy.kind == "attention" and name in ("mixer", "cross"):
                    costs = replace(costs, activation_bytes=stream)
                elif policy.kind == "offload" and query.device != "cpu":
                    costs = replace(costs, activation_bytes=0)
                streams = stream * block.wiring.num_streams if name == "wiring" else 0
                saved = sum(streams if is_covered else costs.activation_bytes for is_covered in covered)
                passed = replace(costs.passed(self.loops), activation_bytes=saved)
                if name == "cross":  # what decoding holds of a memory is the same in every pass
                    passed = replace(passed, state_elements=costs.state_elements)
                yield f"blocks.{index}.{name}", name, passed
            if index == self.first_values_layer and (count := policy.num_unsaved_values(covered, query.device)):
                yield "first_values", "activations", Costs(activation_bytes=count * first_values_bytes(block, query))
        if self.final_norm is not None:
            yield "final_norm", "norm", self.final_norm.costs(query)
        if self.dropout > 0:
            width = self.d_model if self.widening is None else self.widening.in_features
            yield "dropout", "activations", Costs(activation_bytes=stream * width // self.d_model)
        if self.has_cross:  # blocks that are recomputed read it again
            saved = query.memory_length * self.d_model * query.bytes_per_element
            yield "memory", "activations", Costs(activation_bytes=saved)

    def costs(self, query: CostContext) -> Costs:
        return sum((costs for _, _, costs in self.cost_rows(query)), Costs())
