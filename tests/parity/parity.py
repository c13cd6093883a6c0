"""Our models against published implementations: the same weights, logits and gradients of every parameter.

Every parameter is redrawn first: fresh norms are 1 and fresh biases 0, which would hide weights that were swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import headtohead as h2h
from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.config.build import make_model
from headtohead.pretrained.model_family import ModelFamily
from headtohead.pretrained.weight_mapping import UnitOffsetGain, WeightMapping

TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-5}
TASKS: Mapping[HeadName, Sequence[str]] = {
    "language_model": (),
    "masked_language_model": ("task=masked_lm", "data=grammar_lm"),
    "masked_language_model_and_pair": ("task=masked_lm_next_sentence", "data=pair_grammar", "data.relation=next"),
    "classifier": ("task=classification", "data=sentence_grammar"),
    "tagger": ("task=tagging", "data=tagging_grammar"),
    "span": ("task=span_qa", "data=qa_grammar"),
    "replaced_token_detector": ("task=replaced_token_detection", "data=grammar_lm"),
}
REPORTS: list[Report] = []
"""The reports of all models compared in this process, for docs/parity.md."""


@dataclass(frozen=True)
class Errors:
    """The largest differences; those of gradients over the largest entry of the reference's, where that is above 1."""

    logits: float
    gradients: float


@dataclass(frozen=True)
class Report:
    """The result of a comparison."""

    name: str
    reference: str
    errors: Mapping[torch.dtype, Errors]
    num_tensors: int
    """Parameters compared, as tensors; all there are."""
    num_weights: int
    remark: str = ""
    family: str | None = None
    """The family as config.json calls it; None where there is none."""


class Promoted(TorchFunctionMode):
    """A mode in which a reference's casts to 32 bits stay in 64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        args = tuple(_promoted(arg) for arg in args)
        return func(*args, **{name: _promoted(arg) for name, arg in (kwargs or {}).items()})


def _promoted(argument: Any) -> Any:
    return torch.float64 if argument is torch.float32 else argument


@contextmanager
def exactly(dtype: torch.dtype) -> Iterator[None]:
    """Numbers are of this type wherever nothing else is said."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with Promoted() if dtype == torch.float64 else nullcontext():
            yield
    finally:
        torch.set_default_dtype(usual)


@torch.no_grad()
def redraw(model: nn.Module, seed: int = 0, constants: Sequence[str] = ()) -> None:
    """Every parameter that learns from a normal distribution; the same numbers in every type."""
    generator = torch.Generator().manual_seed(seed)
    learning = (parameter for parameter in model.parameters() if parameter.requires_grad)
    for parameter in [*learning, *map(model.get_buffer, constants)]:
        scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.5
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(scale * drawn)


@dataclass(frozen=True)
class Case:
    """A model of `transformers`, and what it is asked."""

    family: ModelFamily
    reference: Callable[[Any], nn.Module]
    """The reference made from its configuration; eager attention, where there is a choice, is the caller's to set."""
    config: Any
    theirs: Mapping[str, Tensor]
    """Inputs by the reference's names."""
    ours: Mapping[str, Tensor]
    """The same by ours."""
    head: HeadName = "language_model"
    scored: Tensor | None = None
    """The logits that are compared; None means all."""
    overrides: tuple[str, ...] = ()
    logits_of: Callable[[Any], Tensor] = lambda output: output.logits
    requested: Callable[[Architecture, Mapping[str, Tensor]], Tensor] = lambda model, inputs: model(**inputs)
    """The function by which ours gives the same."""
    constants: tuple[str, ...] = ()
    """Buffers of the reference that a file holds; they are redrawn too, and have no gradient there."""
    idle: tuple[str, ...] = ()
    """Parameters that the reference holds and never reads."""
    ours_alone: str = "-"
    """The beginning of the names of our parameters that no file holds, and that have no part in the logits."""
    on_disk: Callable[[str], str] = lambda name: name
    """The name that a file has for a parameter of the reference, where the two differ."""


def check(name: str, case: Case, *, remark: str = "") -> Report:
    """Raises where logits or gradients differ, or where a parameter of either side is not covered."""
    errors, num_tensors, num_weights = {}, 0, 0
    for dtype, tolerance in TOLERANCE.items():
        theirs, ours, pieces = both(case, dtype)
        num_tensors = len(list(ours.parameters()))
        num_weights = sum(parameter.numel() for parameter in ours.parameters())
        result = errors[dtype] = _compared(theirs, ours, pieces, case, dtype)
        assert max(result.logits, result.gradients) < tolerance, f"{name} in {dtype}: {result}"
    report = Report(name, type(theirs).__name__, errors, num_tensors, num_weights, remark, case.family.model_type)
    REPORTS.append(report)
    return report


def both(case: Case, dtype: torch.dtype) -> tuple[nn.Module, Architecture, list[WeightMapping]]:
    """The reference with weights redrawn, ours with the same weights, and how they lie in each other."""
    with exactly(dtype):
        theirs = case.reference(case.config).eval().to(dtype)
        redraw(theirs, constants=case.constants)
        hub = case.family.complete(case.config.to_dict())
        config = h2h.compose(
            "train", [*TASKS[case.head], *case.family.overrides(hub, case.head), "model.dropout=0", *case.overrides]
        )
        ours = make_model(config).eval().to(dtype)
    pieces = [*case.family.body(hub, case.head), *case.family.head_pieces(hub, case.head)]
    held = {name: tensor for name, tensor in _held(ours, pieces).items() if not name.startswith(case.ours_alone)}
    _check_cover(_trained(theirs, case), held, pieces)
    weights = {case.on_disk(name): tensor for name, tensor in theirs.state_dict().items()}
    taken = {name: tensor for piece in pieces for name, tensor in piece.take(weights).items()}
    ours.load_state_dict(taken, strict=False)
    for piece in pieces:  # back again
        for their_name, tensor in piece.give(taken).items():
            assert tensor.shape == weights[their_name].shape, their_name
    return theirs, ours, pieces


def _held(ours: Architecture, pieces: Sequence[WeightMapping]) -> dict[str, Tensor]:
    """Our parameters, and those of our saved buffers that a piece names: others are no weights."""
    named = {name for piece in pieces for name in piece.ours} & ours.state_dict().keys()
    return dict(ours.named_parameters()) | {name: held for name, held in ours.named_buffers() if name in named}


def _trained(theirs: nn.Module, case: Case) -> dict[str, Tensor]:
    """The reference's parameters by their names in a file; `named_parameters` leaves second names out."""
    constants = {name: theirs.get_buffer(name) for name in case.constants}
    read = {name: tensor for name, tensor in theirs.named_parameters() if name not in case.idle}
    return {case.on_disk(name): tensor for name, tensor in read.items()} | constants


def _check_cover(theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor], pieces: Sequence[WeightMapping]) -> None:
    """Every parameter of either side is in exactly one piece."""
    for trained, names in (
        (theirs, [name for piece in pieces for name in piece.theirs]),
        (ours, [name for piece in pieces for name in piece.ours]),
    ):
        assert len(set(names)) == len(names), "a name in two pieces"
        assert set(names) == set(trained)


def _compared(
    theirs: nn.Module, ours: Architecture, pieces: Sequence[WeightMapping], case: Case, dtype: torch.dtype
) -> Errors:
    with exactly(dtype):
        expected = case.logits_of(theirs(**_of_type(case.theirs, dtype)))
        result = case.requested(ours, _of_type(case.ours, dtype))
        assert expected.dtype == result.dtype == dtype
        if case.scored is not None:
            expected, result = expected[case.scored], result[case.scored]
        direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        direction = direction.to(dtype)
        for logits in (expected, result):
            (logits * direction).sum().backward()
    trained = _trained(theirs, case)
    gradients = {name: tensor.grad for name, tensor in trained.items() if tensor.grad is not None}
    missing = [name for name in trained if name not in gradients and name not in case.constants]
    assert not missing, f"the reference gives no gradient to {missing}"
    own = {name: parameter.grad for name, parameter in ours.named_parameters()}
    worst = 0.0
    for piece in pieces:
        if not piece.theirs or any(name in case.constants for name in piece.theirs):
            continue
        for name, wished in _gradients(piece, gradients).items():
            gradient = own[name]
            assert gradient is not None, name
            worst = max(worst, float((gradient - wished).abs().max() / wished.abs().max().clamp(min=1.0)))
    return Errors(float((result - expected).detach().abs().max()), worst)


def _gradients(piece: WeightMapping, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradients move as weights do, but for what is added to them."""
    if isinstance(piece, UnitOffsetGain):
        return {piece.our_name: theirs[piece.their_name]}
    return piece.take({name: theirs[name] for name in piece.theirs})


def _of_type(inputs: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
