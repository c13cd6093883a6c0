"""Every field and every tensor of a published checkpoint is honoured, refused in a sentence, or changes no output."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest
from mutations import Mutation, base, compared, mutations, write
from published_models import MODELS

from headtohead.pretrained.families import FAMILIES

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


@pytest.mark.parametrize("kind", MODELS)
def test_a_changed_checkpoint_gives_its_reference_s_logits_or_is_refused(
    kind: str, draw_seed: int, folder: Path
) -> None:
    fields, weights = (copy.copy(part) for part in base(kind, folder))
    changes = drawn(kind, folder, draw_seed)
    for mutation in changes:
        mutation.change(fields, weights)
    outcome, why = compared(kind, write(folder / "changed", fields, weights))
    assert outcome != "different", f"{kind}, {' and '.join(one.label for one in changes)}: {why}"


@pytest.mark.parametrize("kind", MODELS)
def test_the_unchanged_checkpoint_gives_its_reference_s_logits(kind: str, folder: Path) -> None:
    assert compared(kind, write(folder / "whole", *base(kind, folder)))[0] == "equal"


def test_the_law_has_a_model_of_every_family() -> None:
    assert set(MODELS) == {family.model_type for family in FAMILIES}
