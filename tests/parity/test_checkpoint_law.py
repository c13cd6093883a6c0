"""Every field and every tensor of a published checkpoint is honoured, refused in a sentence, or changes no output."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest

from headtohead.pretrained.families import FAMILIES
from parity.law_table import OF_FIELDS, OUTCOMES
from parity.mutations import CHANGED, Mutation, Outcome, base, compared, mutations, write
from parity.published_models import MODELS

pytestmark = pytest.mark.shapes(False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("published")


def drawn(kind: str, folder: Path, seed: int) -> list[Mutation]:
    """Return the mutation with this number in an order by chance; beyond the last one, two at once."""
    every = mutations(kind, *base(kind, folder))
    rng = random.Random(kind)
    rng.shuffle(every)
    return [every[seed]] if seed < len(every) else random.Random(seed).sample(every, 2)


def made(kind: str, folder: Path, *changes: Mutation) -> tuple[Outcome, str]:
    """Return what both sides make of the family's small model with these changes."""
    fields, weights = (copy.copy(part) for part in base(kind, folder))
    for mutation in changes:
        mutation.change(fields, weights)
    return compared(kind, write(folder / "changed", fields, weights))


@pytest.mark.slow
@pytest.mark.sampled(240)
@pytest.mark.parametrize("kind", MODELS)
def test_a_changed_checkpoint_gives_the_logits_of_its_reference_or_is_refused(
    kind: str, draw_seed: int, folder: Path
) -> None:
    changes = drawn(kind, folder, draw_seed)
    outcome, why = made(kind, folder, *changes)
    assert outcome != "different", f"{kind}, {' and '.join(one.label for one in changes)}: {why}"


@pytest.mark.whole
@pytest.mark.parametrize("kind", MODELS)
def test_no_single_change_differs_in_silence(kind: str, folder: Path) -> None:
    silent = []
    for mutation in mutations(kind, *base(kind, folder)):
        outcome, why = made(kind, folder, mutation)
        OUTCOMES[kind][outcome] += 1
        if mutation.field:
            OF_FIELDS[kind, mutation.field].add("moved" if why == CHANGED else outcome)
        if outcome == "different":
            silent.append(f"{mutation.label}: {why}")
    assert not silent


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_the_unchanged_checkpoint_gives_the_logits_of_its_reference(kind: str, folder: Path) -> None:
    assert compared(kind, write(folder / "whole", *base(kind, folder)))[0] == "equal"


def test_the_law_has_a_model_of_every_family() -> None:
    assert set(MODELS) == {family.model_type for family in FAMILIES}
