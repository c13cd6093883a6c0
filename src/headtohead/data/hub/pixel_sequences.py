"""Images as sequences of their pixels, line by line: long rows of tokens whose classes hang on places far apart (Long
Range Arena, Tay et al. 2020, https://arxiv.org/abs/2011.04006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataKind, DataSpec, Split, SplitName
from headtohead.data.decoding import Colours
from headtohead.data.hub.images import HubImages
from headtohead.data.pixel_rows import PixelRows, decoded_pixels, described_pixels, spec_of_pixels
from headtohead.data.storage import numbers
from headtohead.ranges import BatchSize, Length, Probability, Seed


class PixelSequences(HubImages):
    """A token is the level of one pixel, from 0 to 255; where there are colours, all of one before the next."""

    kind: ClassVar[DataKind | None] = "labelled_text"

    def __init__(
        self,
        *,
        name: str | None = None,
        subset: str | None = None,
        revision: str | None = None,
        folder: str | None = None,
        train_split: str | None = None,
        validation_split: str | None = None,
        test_split: str | None = None,
        validation_share: Probability = 0.1,
        test_share: Probability = 0.1,
        image_column: str | None = None,
        label_column: str | None = None,
        image_size: Length = 32,
        colours: Colours = "grey",
        batch_size: BatchSize = 32,
        seed: Seed = 0,
        drop_shared: bool = False,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            name=name,
            subset=subset,
            revision=revision,
            folder=folder,
            train_split=train_split,
            validation_split=validation_split,
            test_split=test_split,
            validation_share=validation_share,
            test_share=test_share,
            image_column=image_column,
            label_column=label_column,
            image_size=image_size,
            colours=colours,
            batch_size=batch_size,
            seed=seed,
            about=about,
        )
        self.drop_shared = drop_shared

    def describe_rows(self) -> DataSpec:
        return spec_of_pixels(super().describe_rows())

    def open_split(self, name: SplitName) -> Split:  # type: ignore[override]
        table = self.content.tables[self.content.facts["splits"][name]]
        places = numbers(self.content.tables[name], "place")
        return PixelRows(self, name, numbers(table, "image"), numbers(table, "label"), places)

    def decode(self, ids: Sequence[int]) -> str:
        return decoded_pixels(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_pixels(batch, self.class_names)
