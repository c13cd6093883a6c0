"""Entities in tags written as BIO (Ramshaw and Marcus 1995, https://arxiv.org/abs/cmp-lg/9505040), counted as conlleval
does: an entity is right if its type and both of its ends are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.errors import UsageError

NOTHING = -1
"""The tag where none was predicted: part of no entity."""
_TAG = re.compile(r"O|[BI]-(?P<type>.+)")


class Scheme:
    """The meaning of a data set's tags: inside an entity or not, where an entity begins, and its type."""

    def __init__(self, names: Sequence[str]) -> None:
        matches = [_TAG.fullmatch(name) for name in names]
        wrong = [name for name, match in zip(names, matches, strict=True) if match is None]
        if wrong or not names:
            raise UsageError(
                f"task=tagging counts entities, and the data's tags ({', '.join(wrong) or 'without names'}) do not say "
                "where one begins: name them O, B-TYPE and I-TYPE."
            )
        kinds = [match.group("type") if match else None for match in matches]
        self.types = tuple(sorted({type_ for type_ in kinds if type_ is not None}))
        # The last entry is that of NOTHING.
        self._type_of = torch.tensor([-1 if type_ is None else self.types.index(type_) for type_ in (*kinds, None)])
        self._begins = torch.tensor([name.startswith("B-") for name in (*names, "")])

    def entities(self, tags: Int[Tensor, " N"], rows: Int[Tensor, " N"]) -> Entities:
        """Return the entities in the tags of several rows, concatenated; `rows` holds the row of each tag.

        As in conlleval, an I- that continues no entity of its type begins one.
        """
        types, begins = self._type_of.to(tags.device)[tags], self._begins.to(tags.device)[tags]
        same = torch.zeros_like(begins)
        same[1:] = (rows[1:] == rows[:-1]) & (types[1:] == types[:-1]) & ~begins[1:]
        starts = (types >= 0) & ~same
        indices = torch.arange(len(tags), device=tags.device)
        # An entity ends before the next position that does not continue it.
        breaks = torch.where(same, len(tags), indices)
        after = torch.full_like(breaks, len(tags))
        after[:-1] = breaks[1:].flip(0).cummin(0).values.flip(0)
        return Entities(starts=starts, ends=after, types=types)


@dataclass(frozen=True)
class Entities:
    """The entities of a sequence of tags, indexed by the position at which each begins."""

    starts: Bool[Tensor, " N"]
    ends: Int[Tensor, " N"]
    """One past the last of its tags; meaningless where none begins."""
    types: Int[Tensor, " N"]

    def shared_with(self, other: Entities) -> Bool[Tensor, " N"]:
        """Return a mask of the entities that both have."""
        return self.starts & other.starts & (self.ends == other.ends) & (self.types == other.types)

    def by_type(self, chosen: Bool[Tensor, " N"], num_types: int) -> Int[Tensor, " T"]:
        """Return how many of the chosen entities each type has."""
        return torch.bincount(self.types[chosen], minlength=num_types)


def rates(right: float, predicted: float, there: float) -> tuple[float, float, float]:
    """Return precision, recall and F1; 0 where there is nothing to divide by."""
    precision = right / predicted if predicted else 0.0
    recall = right / there if there else 0.0
    return precision, recall, 2 * right / (predicted + there) if right else 0.0
