"""Every law over sampled legal combinations of all that a stack is made of."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch

from contracts.choices import agree, can_look, factory, kind_of, names, slow_twin
from headtohead.components.component import Mixer
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.diagnostics.laws import LAWS, Law, LawSubject, applies, cost_laws, equivalence_laws

GROUPS = ("mixer", "local", "position", "norm", "residual", "feedforward")
FOR_IMAGES = ("sinusoidal_2d", "rotary_2d")
OPTIONS = {name: {"num_experts": 2} for name in ("moe", "moe_shared", "moe_gated_shared", "moe_clamped")}
"""So few that the tokens of a test meet all of them."""


@dataclass(frozen=True)
class Combination:
    """One draw: a choice for each group, and how the stack is used."""

    choices: tuple[str, ...]
    second: str
    """The mixer of the second layer."""
    causal: bool
    cross: str | None
    dtype: torch.dtype
    embedding_norm: bool

    def __str__(self) -> str:
        use = "causal" if self.causal else "bidirectional"
        both = self.choices[0] if self.second == self.choices[0] else f"{self.choices[0]}+{self.second}"
        return f"{'-'.join((both, *self.choices[1:]))}-{use}-{self.cross}-{str(self.dtype).removeprefix('torch.')}"

    @property
    def loops(self) -> int:
        """Two of some stacks, but for parts that take figures of one pass."""
        *_, norm, _, feedforward = self.choices
        return 1 if norm == "batch_norm" or feedforward in OPTIONS else 1 + (len(str(self)) % 4 == 0)

    def subject(self) -> LawSubject:
        mixer, local, position, norm, residual, feedforward = (
            factory(group, name, **OPTIONS.get(name, {})) for group, name in zip(GROUPS, self.choices, strict=True)
        )
        mixers = [mixer, factory("mixer", self.second)]
        duplicates, local_twin = [slow_twin(one) or one for one in mixers], slow_twin(local) or local
        parts = partial(StackParts, position=position, norm=norm, residual=residual, feedforward=feedforward)
        make = partial(
            Stack,
            StackSize(16, len(mixers), 4),
            options=StackOptions(embedding_norm=self.embedding_norm, loops=self.loops),
            cross=None if self.cross is None else factory("cross", self.cross),
            causal=self.causal,
            max_length=11,
            grid=(2, 5) if self.choices[2] in FOR_IMAGES else None,
        )
        return LawSubject(
            partial(make, parts(**in_layers(mixers), local=local)),
            None if duplicates == mixers else partial(make, parts(**in_layers(duplicates), local=local_twin)),
            self.dtype,
            sees_others_in_training=self.choices[3] == "batch_norm",
        )


def in_layers(mixers: Sequence[partial[Mixer]]) -> dict[str, Any]:
    """Return the fields of a stack's parts that give each layer its mixer."""
    named = {str(layer): mixer for layer, mixer in enumerate(mixers)}
    return {"mixer": mixers[0], "pattern": list(named), "mixers": named}


def is_legal(choices: tuple[str, ...]) -> bool:
    mixer, position = factory("mixer", choices[0]), factory("position", choices[2])
    return agree(mixer, position) and (choices[2] not in FOR_IMAGES or can_look(mixer, causal=False))


def draw_second(choices: tuple[str, ...], causal: bool, generator: random.Random) -> str:
    """Draw another mixer in two of five stacks; where every layer has a table of positions, all must read them."""
    name = generator.choice(names("mixer"))
    mixer, position = factory("mixer", name), factory("position", choices[2])
    fits = can_look(mixer, causal=causal) and (kind_of(position).shared_by_layers or agree(mixer, position))
    # Costs of transforms are counted on fast forms, those of most other mixers on slow ones: one stack is either.
    fits = fits and kind_of(mixer).transforms == kind_of(factory("mixer", choices[0])).transforms
    return name if fits and generator.random() < 0.4 else choices[0]


def combinations() -> Iterator[Combination]:
    """Yield combinations in which each choice of a group is about as frequent: dealt from shuffled decks."""
    generator = random.Random(0)
    decks: dict[str, list[str]] = {group: [] for group in GROUPS}
    while True:
        for group, deck in decks.items():
            if not deck:
                deck.extend(generator.sample(names(group), len(names(group))))
        choices = tuple(decks[group].pop() for group in GROUPS)
        if not is_legal(choices):
            continue
        mixer, expected = factory("mixer", choices[0]), generator.random() < 0.6 and choices[2] not in FOR_IMAGES
        causal = expected if can_look(mixer, causal=expected) else not expected
        # Without a norm nothing keeps numbers small, and single precision shows it.
        dtypes = [torch.float64] if choices[3] == "none" else [torch.float64, torch.float32]
        yield Combination(
            choices,
            draw_second(choices, causal, generator),
            causal,
            cross=generator.choice([None, *names("cross")]) if causal else None,
            dtype=generator.choice(dtypes),
            embedding_norm=generator.random() < 0.2,
        )


_endless, _assigned = combinations(), list[Combination]()


def combination(number: int) -> Combination:
    while len(_assigned) <= number:
        _assigned.append(next(_endless))
    return _assigned[number]


def excepted(law: Law, combination: Combination) -> bool:
    """Return whether the law does not hold: near-equal scores send tokens to other experts in half precision; a norm
    shared by all readers counts on each of them saving its input, and a token shift saves something else; Luong's
    attention saves its output, which a norm after the branch saves again."""
    _, local, _, _, residual, feedforward = combination.choices
    if law is equivalence_laws.autocast:
        return feedforward in OPTIONS
    normed = combination.cross == "luong" and residual in ("sandwich", "reordered")
    shared = (local, residual) == ("token_shift", "parallel") or normed
    return law is cost_laws.declared_activations and shared


@pytest.mark.slow
def test_drawn_stack_obeys_every_law(draw_seed: int) -> None:
    check(combination(draw_seed))


def check(drawn: Combination) -> None:
    """Hold a stack to every law that applies to it."""
    subject = drawn.subject()
    for law in LAWS:
        has_slow_twin = subject.make_slow is not None
        applied = applies(law, causal=drawn.causal, dtype=drawn.dtype, has_slow_twin=has_slow_twin)
        if applied and not excepted(law, drawn):
            try:
                law(subject)
            except Exception as error:
                error.add_note(f"{law.__name__} over {drawn}")
                raise
