"""The laws held over one class, a user's own or ours: alone where it is a mixer, in a small stack otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from headtohead.components.block_parts import FeedForward, Norm
from headtohead.components.component import Component, CrossMixer, Mixer, Position
from headtohead.components.feedforwards import NoFeedForward
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.reference.attention import ReferenceSoftmaxAttention as PlainAttention
from headtohead.components.norms import LayerNorm
from headtohead.components.positions.absolute import NoPosition
from headtohead.components.residuals import PreNorm
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackParts, StackSize
from headtohead.config.errors import ConfigurationError, show, unknown
from headtohead.config.schema.key_checks import fields_of
from headtohead.config.schema.value_kinds import MismatchError
from headtohead.diagnostics.laws import LAWS, Law, LawBroken, LawSubject, alone, applies
from headtohead.diagnostics.laws.remedies import has_something_to_say, remedy_of
from headtohead.diagnostics.named_class import named_class

KINDS: Mapping[str, Any] = {
    "mixer": Mixer,
    "cross": CrossMixer,
    "position": Position,
    "norm": Norm,
    "feedforward": FeedForward,
}
_EVERY_PRECISION = (torch.float64, torch.float32, torch.bfloat16)
_USUAL_PRECISIONS = (torch.float64, torch.float32)
_PATCHES = (2, 5)
"""The grid of patches: with one token for the whole image they are as long as a subject."""
Make = Callable[..., Any]


@dataclass(frozen=True)
class Sizes:
    """Sizes are those of the stack around the class."""

    d_model: int = 16
    num_heads: int = 4


@dataclass(frozen=True)
class LawCase:
    """One law over one form of the class."""

    law: Law
    form: str
    """causal or bidirectional, and the precision."""
    subject: LawSubject

    @property
    def name(self) -> str:
        return self.law.__name__


_ABSTRACT = "Can't instantiate abstract class"
"""The beginning of Python's words for a class that lacks methods."""


@dataclass(frozen=True)
class LawResult:
    """A law result is the outcome of one case."""

    case: LawCase
    broken: str | None
    """The sentence that should have held; None where it did."""

    @property
    def remedy(self) -> str | None:
        """Return what to do about a broken law; None where it holds."""
        if self.broken is not None and _ABSTRACT in self.broken:
            return (
                "write the methods that it names; components/component.py and block_parts.py have the contract of each"
            )
        return None if self.broken is None else remedy_of(self.case.law)


def made(subject: LawSubject) -> None:
    """It can be made with what a model gives it, and run."""
    stack = subject.build()
    with torch.no_grad():
        stack(*subject.inputs(stack))


def component(target: str) -> tuple[str, type[Component]]:
    """Return a class by its dotted name, and the kind of component it is; raises ConfigurationError."""
    defined = named_class(target)
    for kind, base in KINDS.items():
        if issubclass(defined, base):
            return kind, defined
    raise ConfigurationError(
        f"{target} derives from none of {', '.join(base.__name__ for base in KINDS.values())} "
        "(headtohead.components.component), and laws are about those"
    )


def options_of(kind: str, target: str, words: Sequence[str]) -> dict[str, Any]:
    """field=value as the configuration of the class would take them; raises ConfigurationError."""
    import yaml

    options = {}
    for text in words:
        key, sign, value = text.partition("=")
        if not sign:
            raise ConfigurationError(f"{text} is not an option of {target}: write field=value")
        options[key] = yaml.safe_load(value)
    fields = fields_of(f"model/{kind}", {"_target_": target})
    if fields is None:
        return options
    for key, value in options.items():
        if key not in fields.kinds:
            raise ConfigurationError(unknown(f"{key} is not an option of {target}", key, list(fields.kinds)))
        try:
            options[key] = fields.kinds[key].read(value)
        except MismatchError as mismatch:
            raise ConfigurationError(f"{key}={show(value)} is refused: it must be {mismatch}") from None
    if missing := sorted(fields.required - options.keys()):
        raise ConfigurationError(f"{target} has no default for {missing[0]}: give {missing[0]}=VALUE")
    return options


def cases(kind: str, make: Make, counterpart: Make | None, sizes: Sizes, *, thorough: bool) -> list[LawCase]:
    """Every law that has something to say, in both directions; thorough: in every precision."""
    law_cases = []
    for causal in (True, False):
        if not _can_look(kind, make, causal=causal):
            continue
        subject = _subject(kind, make, counterpart, sizes, causal=causal)
        for dtype in _EVERY_PRECISION if thorough else _USUAL_PRECISIONS:
            form = f"{'causal' if causal else 'bidirectional'}, {str(dtype).removeprefix('torch.')}"
            laws = [law for law in LAWS if _speaks(law, subject, causal=causal, dtype=dtype, thorough=thorough)]
            first = [made] if dtype == torch.float64 else []
            law_cases += [LawCase(law, form, subject.with_dtype(dtype)) for law in (*first, *laws)]
    return law_cases


def check_laws(listed: Sequence[LawCase]) -> Iterator[LawResult]:
    """Yield one after the other; where a form cannot even be made, its laws are not asked."""
    failed_classes: set[str] = set()
    for case in listed:
        direction = case.form.partition(",")[0]
        if direction in failed_classes:
            continue
        broken = _broken(case)
        if broken is not None and case.law is made:
            failed_classes.add(direction)
        yield LawResult(case, broken)


def _broken(case: LawCase) -> str | None:
    try:
        case.law(case.subject)
    except LawBroken as error:
        return str(error)
    except Exception as error:  # whatever somebody's class raises is what is wrong with it
        message = " ".join(str(error).split())
        return f"it raised {type(error).__name__}{f': {message}' if message else ''}"
    return None


def _speaks(law: Law, subject: LawSubject, *, causal: bool, dtype: torch.dtype, thorough: bool) -> bool:
    has_slow_twin = subject.make_slow is not None
    if not applies(law, causal=causal, dtype=dtype, has_slow_twin=has_slow_twin):
        return False
    if not has_something_to_say(law, subject):
        return False
    in_double = applies(law, causal=causal, dtype=torch.float64, has_slow_twin=has_slow_twin)
    return thorough or dtype == torch.float64 or not in_double


def _class_of(make: Make) -> Any:
    return make.func if isinstance(make, partial) else make


def _can_look(kind: str, make: Make, *, causal: bool) -> bool:
    owner = _class_of(make)
    if kind == "mixer":
        return bool(owner.can_be_causal if causal else owner.can_be_bidirectional)
    return kind != "position" or not (causal and owner.needs_grid)


def _subject(kind: str, make: Make, counterpart: Make | None, sizes: Sizes, *, causal: bool) -> LawSubject:
    """Build the subject; a class that is not a mixer, and has no reference of its own, uses that of the attention
    around it."""
    around: dict[str, Any] = {"d_model": sizes.d_model, "num_heads": sizes.num_heads}
    if kind == "mixer":
        slow = None if counterpart is None else alone(counterpart, causal=causal, **around)
        return LawSubject(alone(make, causal=causal, **around), slow)
    if kind == "cross":
        fast, plain = (alone(m, causal=causal, cross=make, **around) for m in (SoftmaxAttention, PlainAttention))
        return LawSubject(fast, plain)
    slots: dict[str, Any] = {
        "mixer": SoftmaxAttention,
        "position": NoPosition,
        "norm": LayerNorm,
        "feedforward": NoFeedForward,
        "residual": PreNorm,
        kind: make,
    }
    grid = _PATCHES if kind == "position" and _class_of(make).needs_grid else None
    parts, size = StackParts(**slots), StackSize(sizes.d_model, num_layers=2, num_heads=sizes.num_heads)
    stack = partial(Stack, size, causal=causal, max_length=11, grid=grid)
    return LawSubject(
        partial(stack, parts),
        partial(stack, replace(parts, mixer=PlainAttention)),
        sees_others_in_training=kind == "norm" and _class_of(make).keeps_statistics,
    )
