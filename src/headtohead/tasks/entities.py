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
"""In place of a tag where none was given: part of no entity."""
_TAG = re.compile(r"O|[BI]-(?P<type>.+)")


class Scheme:
    """What the tags of some data mean: inside an entity or not, where it begins, its type."""

    def __init__(self, names: Sequence[str]) -> None:
        matches = [_TAG.fullmatch(name) for name in names]
        wrong = [name for name, match in zip(names, matches, strict=True) if match is None]
        if wrong or not names:
            raise UsageError(
                f"task=tagging counts entities, and the data's tags ({', '.join(wrong) or 'without names'}) do not say "
                "where one begins: name them O, B-TYPE and I-TYPE."
            )
        found = [match.group("type") if match else None for match in matches]
        self.types = tuple(sorted({type_ for type_ in found if type_ is not None}))
        # The last entry is that of NOTHING.
        self._type_of = torch.tensor([-1 if type_ is None else self.types.index(type_) for type_ in (*found, None)])
        self._begins = torch.tensor([name.startswith("B-") for name in (*names, "")])

    def entities(self, tags: Int[Tensor, " N"], rows: Int[Tensor, " N"]) -> Entities:
        """Of the tags of several rows, one after another; `rows` says which is whose.

        As conlleval reads them: an I- that continues no entity of its type begins one.
        """
        types, begins = self._type_of.to(tags.device)[tags], self._begins.to(tags.device)[tags]
        same = torch.zeros_like(begins)
        same[1:] = (rows[1:] == rows[:-1]) & (types[1:] == types[:-1]) & ~begins[1:]
        starts = (types >= 0) & ~same
        places = torch.arange(len(tags), device=tags.device)
        # An entity reaches to the next place that does not continue what stands before it.
        breaks = torch.where(same, len(tags), places)
        after = torch.full_like(breaks, len(tags))
        after[:-1] = breaks[1:].flip(0).cummin(0).values.flip(0)
        return Entities(starts=starts, ends=after, types=types)


@dataclass(frozen=True)
class Entities:
    """By the place where each begins."""

    starts: Bool[Tensor, " N"]
    ends: Int[Tensor, " N"]
    """One past the last of its tags; tells nothing where none begins."""
    types: Int[Tensor, " N"]

    def shared_with(self, other: Entities) -> Bool[Tensor, " N"]:
        """Where both have the same entity."""
        return self.starts & other.starts & (self.ends == other.ends) & (self.types == other.types)

    def by_type(self, chosen: Bool[Tensor, " N"], num_types: int) -> Int[Tensor, " T"]:
        """How many of the chosen ones there are of each type."""
        return torch.bincount(self.types[chosen], minlength=num_types)


def rates(right: float, said: float, there: float) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where there is nothing to divide by."""
    precision = right / said if said else 0.0
    recall = right / there if there else 0.0
    return precision, recall, 2 * right / (said + there) if right else 0.0
