"""Texts with one label each, or pairs of texts with one label a pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from headtohead.data.caching import Prepared
from headtohead.data.classes import Classes, Label, class_shares
from headtohead.data.contracts import DataSpec, SplitName
from headtohead.data.judged import JudgedForm
from headtohead.data.storage import numbers, smallest_integer
from headtohead.data.texts import Place, TextSource, longest

Labelled = tuple[str, Label]
LabelledPair = tuple[str, str, Label]
"""The label is the number of a class, or its name."""


class LabelledForm(JudgedForm[Labelled | LabelledPair]):
    """Each text is of a class."""

    kind = "labelled_text"
    judgment = "label"

    def __init__(self, class_names: Sequence[str] | None = None, max_length: int | None = None) -> None:
        """Without names, the classes are the labels of the train split."""
        self.class_names, self.max_length = class_names, max_length

    def parameters(self) -> Mapping[str, Any]:
        return {"class_names": self.class_names, **super().parameters()}

    def judgments(
        self, samples: Mapping[SplitName, Sequence[Labelled | LabelledPair]], place: Place
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, Any]]:
        given = self.class_names
        classes = Classes(tuple(given)) if given else Classes.found(sample[-1] for sample in samples["train"])
        dtype = smallest_integer(len(classes.names))
        labels = {
            name: np.array(
                [classes.number_of(one[-1], "label", partial(place, name, row)) for row, one in enumerate(own)],
                dtype=dtype,
            )
            for name, own in samples.items()
        }
        return labels, {"class_names": classes.names}

    def told(self, judgment: float, facts: Mapping[str, Any]) -> Any:
        return facts["class_names"][int(judgment)]

    def spec(self, content: Prepared) -> DataSpec:
        names = tuple(content.facts["class_names"])
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            num_classes=len(names),
            class_names=names,
            class_shares=class_shares(numbers(content.tables["train"], "label"), len(names)),
        )


class LabelledSource(TextSource):
    """A source of labelled texts that knows its classes."""

    kind = "labelled_text"
    class_names: ClassVar[tuple[str, ...]]

    @property
    def form(self) -> LabelledForm:
        return LabelledForm(self.class_names)
