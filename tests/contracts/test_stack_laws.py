"""Every law over sampled legal combinations of all that a stack is made of."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from contracts.choices import agree, can_look, factory, names, slow_twin
from headtohead.components.stack import Stack
from headtohead.examining.laws import LAWS, Law, Subject, applies, costs, forms

GROUPS = ("mixer", "local", "position", "norm", "residual", "feedforward")
FOR_IMAGES = ("sinusoidal_2d", "rotary_2d")
OPTIONS = {"moe": {"num_experts": 2}}
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

    def subject(self) -> Subject:
        mixer, local, position, norm, residual, feedforward = (
            factory(group, name, **OPTIONS.get(name, {})) for group, name in zip(GROUPS, self.choices, strict=True)
        )
        mixers = [mixer, factory("mixer", self.second)]
        twins, local_twin = [slow_twin(one) or one for one in mixers], slow_twin(local) or local
        make = partial(
            Stack,
            16,
            num_heads=4,
            position=position,
            norm=norm,
            residual=residual,
            feedforward=feedforward,
            cross=None if self.cross is None else factory("cross", self.cross),
            causal=self.causal,
            max_length=11,
            grid=(2, 5) if self.choices[2] in FOR_IMAGES else None,
            embedding_norm=self.embedding_norm,
        )
        return Subject(
            partial(make, mixers=mixers, local=local),
            None if twins == mixers else partial(make, mixers=twins, local=local_twin),
            self.dtype,
            sees_others_in_training=self.choices[3] == "batch_norm",
        )


def is_legal(choices: tuple[str, ...]) -> bool:
    mixer, position = factory("mixer", choices[0]), factory("position", choices[2])
    return agree(mixer, position) and (choices[2] not in FOR_IMAGES or can_look(mixer, causal=False))


def draw_second(choices: tuple[str, ...], causal: bool, generator: random.Random) -> str:
    """In two of five stacks another mixer; where every layer has a table of positions, all must read them."""
    name = generator.choice(names("mixer"))
    mixer, position = factory("mixer", name), factory("position", choices[2])
    fits = can_look(mixer, causal=causal) and (position.func.shared_by_layers or agree(mixer, position))
    # Costs of transforms are counted on fast forms, those of most other mixers on slow ones: one stack is either.
    fits = fits and mixer.func.transforms == factory("mixer", choices[0]).func.transforms
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
        mixer, wanted = factory("mixer", choices[0]), generator.random() < 0.6 and choices[2] not in FOR_IMAGES
        causal = wanted if can_look(mixer, causal=wanted) else not wanted
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


_endless, _dealt = combinations(), list[Combination]()


def combination(number: int) -> Combination:
    while len(_dealt) <= number:
        _dealt.append(next(_endless))
    return _dealt[number]


def excepted(law: Law, combination: Combination) -> bool:
    """Near-equal scores send tokens to other experts in half precision; one norm for all readers counts on each of them
    to keep its input, and a token shift keeps something else; Luong's attention keeps its output, which a norm after
    the branch keeps again."""
    _, local, _, _, residual, feedforward = combination.choices
    if law is forms.autocast:
        return feedforward == "moe"
    shared = (local, residual) == ("token_shift", "parallel") or (combination.cross, residual) == ("luong", "sandwich")
    return law is costs.declared_activations and shared


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
