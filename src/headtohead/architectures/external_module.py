"""Anybody's model: a module that takes tokens or images and gives logits, wrapped so that it works like ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import (
    CostRow,
    DecodingModel,
    DecodingState,
    InputSize,
    check_image_shape,
    left_padding,
    required,
)
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import IdentityHead
from headtohead.architectures.operation_counter import counting, saved_bytes
from headtohead.components.costs import Costs
from headtohead.errors import UsageError
from headtohead.ranges import Length, Vocabulary

NAMES: dict[str, tuple[str, ...]] = {
    "valid": ("valid", "attention_mask"),
    "segments": ("segments",),
    "positions": ("positions", "position_ids"),
    "token_types": ("token_types", "token_type_ids"),
}
"""The names that a module may use for an input of ours."""
_OF_TOKENS = ("language_model", "masked_language_model", "tagger")


@dataclass
class NoCacheState(DecodingState):
    """The state of a module without a decoding state, which reads everything again for each token. Padding is moved
    behind the rows: a causal module never sees it there, and counts its positions from the first real token."""

    tokens: Int[Tensor, "B L"] | None = None
    lengths: Int[Tensor, " B"] | None = None


class External(DecodingModel):
    """`module(tokens)` or `module(images)`, with whatever else its forward names: masks, documents, positions, token
    types. Its output is a tensor, or holds one as `logits` or as its first item. It initialises itself, and its costs
    are counted, in training mode, on the device where it is."""

    family = "external"
    needs_real_device: ClassVar[bool] = True

    def __init__(
        self,
        *,
        module: nn.Module | None,
        vocab_size: Vocabulary | None,
        max_length: Length | None,
        num_classes: Vocabulary | None,
        image_shape: Sequence[Length] | None,
        head: HeadName = "language_model",
    ) -> None:
        super().__init__()
        if module is None:
            raise UsageError("model.module is missing: give model.module._target_=package.Class, or a function's name.")
        if not isinstance(module, nn.Module):
            raise UsageError(
                f"model.module is of type {type(module).__name__}: give a class of torch.nn.Module, or what makes one."
            )
        if next(module.parameters(), None) is None:
            raise UsageError(f"model.module={type(module).__name__} has no parameters: there is nothing to train.")
        self.module, self.head, self.task_head = module, IdentityHead(), head
        self.max_length = max_length
        self.image_shape = None if image_shape is None else check_image_shape(image_shape)
        needed = ("vocab_size", vocab_size) if head in _OF_TOKENS[:2] else ("num_classes", num_classes)
        self.num_outputs = required(*needed, what="it comes from the data, or is given by number")
        self.vocab_size = vocab_size
        taken = signature(module.forward).parameters.values()
        takes_any = any(item.kind is Parameter.VAR_KEYWORD for item in taken)
        names = {item.name for item in taken}
        self.names = {
            ours: next((name for name in theirs if name in names), theirs[-1] if takes_any else None)
            for ours, theirs in NAMES.items()
        }

    def features(
        self,
        tokens: Tensor | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
        segments: Int[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "B L"] | None = None,
        token_types: Int[Tensor, "B L"] | None = None,
        images: Float[Tensor, "B C H W"] | None = None,
    ) -> Tensor:
        """Return the logits."""
        inputs = tokens if images is None else images
        assert inputs is not None, "a sample has tokens or images"
        extra = {"valid": valid, "segments": segments, "positions": positions, "token_types": token_types}
        self._refuse_what_would_be_missed(valid, segments)
        named = {self.names[ours]: value for ours, value in extra.items() if value is not None}
        logits = _logits_of(self.module(inputs, **{name: value for name, value in named.items() if name is not None}))
        self._check(logits, inputs)
        return logits

    def _refuse_what_would_be_missed(self, valid: Tensor | None, segments: Tensor | None) -> None:
        kind = type(self.module).__name__
        if segments is not None and self.names["segments"] is None:
            raise UsageError(
                f"rows hold several documents, and model.module={kind} takes no `segments` to keep them apart: set "
                "data.packing=none, or stream to let them see each other."
            )
        # What reads one way never sees padding, which is on the right.
        if valid is not None and self.names["valid"] is None and self.task_head != "language_model":
            raise UsageError(
                f"rows are padded, and model.module={kind} takes no mask (`valid` or `attention_mask`): give its "
                "forward one, or choose data whose rows are all as long."
            )

    def _check(self, logits: Tensor, inputs: Tensor) -> None:
        """Raise an error unless the logits have the shape that the task reads."""
        expected = (*inputs.shape[:2],) if self.task_head in _OF_TOKENS else (len(inputs),)
        if tuple(logits.shape[:-1]) != tuple(expected) or logits.shape[-1] < self.num_outputs:
            shown = ", ".join(map(str, (*expected, f"at least {self.num_outputs}")))
            raise UsageError(
                f"model.module={type(self.module).__name__} gives logits of shape {tuple(logits.shape)}, and the task "
                f"reads ({shown}): set the module's own sizes to those of the data, or wrap it in one that fits."
            )

    @property
    def longest_written(self) -> int | None:
        return self.max_length

    def prefill(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], NoCacheState]:
        del room, bos_id
        batch, length = tokens.shape
        lengths = torch.full((batch,), length, device=tokens.device)
        if (padding := left_padding(valid)) is not None:
            tokens = tokens.gather(1, (torch.arange(length, device=tokens.device) + padding) % length)
            lengths = lengths - padding[:, 0]
        state = NoCacheState(tokens=tokens, lengths=lengths)
        return self._reread(state), state

    def decode_step(self, tokens: Int[Tensor, "B L"], state: DecodingState) -> Float[Tensor, "B V"]:
        assert isinstance(state, NoCacheState), "a state comes from start"
        assert state.tokens is not None and state.lengths is not None
        num_new = tokens.shape[1]
        indices = state.lengths[:, None] + torch.arange(num_new, device=tokens.device)
        state.tokens = F.pad(state.tokens, (0, num_new)).scatter(1, indices, tokens)
        state.lengths = state.lengths + num_new
        return self._reread(state)

    def _reread(self, state: NoCacheState) -> Float[Tensor, "B V"]:
        """Return the logits after each row's last token."""
        assert state.tokens is not None and state.lengths is not None
        valid = torch.arange(state.tokens.shape[1], device=state.tokens.device) < state.lengths[:, None]
        logits = self.features(state.tokens, None if bool(valid.all()) else valid)
        return logits[torch.arange(len(logits), device=logits.device), state.lengths - 1, : self.num_outputs]

    def length_error(self, size: InputSize) -> str | None:
        """Return whether samples exceed the declared `max_length`; nothing else is known of the module."""
        if self.max_length is None or size.length <= self.max_length:
            return None
        return (
            f"model.module={type(self.module).__name__} was made for {self.max_length} tokens and these rows have "
            f"{size.length}: give model.max_length={size.length} if it reads so many"
        )

    def num_tokens(self, size: InputSize) -> int:
        """Return the number of words or of pixels."""
        return size.length if self.image_shape is None else self.image_shape[1] * self.image_shape[2]

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        yield CostRow("module", "module", self._counted(size), counted=True)

    def _counted(self, size: InputSize) -> Costs:
        """Count the costs of one sample, forward and backward; it carries no state, since every token is read again for
        the next."""
        held = list(self.module.parameters())
        trained = [parameter for parameter in held if parameter.requires_grad]
        with _in_training(self.module), torch.enable_grad():
            inputs = self.example_inputs(size, 1, held[0].device)
            inputs = {name: x.to(held[0].dtype) if x.is_floating_point() else x for name, x in inputs.items()}
            with saved_bytes(self.module) as saved, counting() as forward:
                logits = self._tried(inputs)
            with counting() as backward:
                if trained:
                    torch.autograd.grad(logits, trained, torch.ones_like(logits), allow_unused=True)
        num_parameters = sum(parameter.numel() for parameter in held)
        return Costs(
            parameters=num_parameters,
            active_parameters=num_parameters,
            forward_flops=forward.products,
            training_flops=forward.products + backward.products,
            activation_bytes=saved() * size.bytes_per_element // held[0].element_size(),
        )

    def _tried(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Run the module for the first time, to count its operations; any fault of the module is reported here."""
        try:
            return External.features(self, **inputs)  # as written: what is counted would never be compiled after it
        except (ValueError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            shown = ", ".join(f"{name} of shape {tuple(x.shape)}" for name, x in inputs.items())
            raise UsageError(
                f"model.module={type(self.module).__name__} fails at {shown} ({type(error).__name__}: {error}): "
                "correct it, or set its own sizes to those of the data."
            ) from error

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        if self.image_shape is not None:
            return {"images": torch.rand(batch_size, *self.image_shape, device=device)}
        vocab_size = required("vocab_size", self.vocab_size, "it comes from data with tokens, or is given by number")
        return {"tokens": torch.randint(0, vocab_size, (batch_size, size.length), device=device)}


def _logits_of(answer: Any) -> Tensor:
    """Return the answer itself, its entry `logits`, or the first of several tensors."""
    result = answer
    if isinstance(answer, Mapping):
        result = answer.get("logits")
    elif isinstance(answer, tuple | list) and answer:
        result = answer[0]
    if not isinstance(result, Tensor):
        raise UsageError(
            f"model.module answers with {type(answer).__name__}, in which there are no logits: give a module that "
            "returns a tensor, a mapping with `logits`, or a tuple that begins with them."
        )
    return result


@contextmanager
def _in_training(module: nn.Module) -> Iterator[None]:
    """Put the module into training mode; mode, generators and statistics are restored afterwards."""
    evaluated = [part for part in module.modules() if not part.training]
    statistics = [(buffer, buffer.clone()) for buffer in module.buffers()]
    devices = {parameter.device for parameter in module.parameters() if parameter.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(devices)):
        module.train()
        try:
            yield
        finally:
            for part in evaluated:
                part.training = False
            with torch.no_grad():
                for buffer, before in statistics:
                    buffer.copy_(before)
