"""Images as sequences of their pixels, line by line: long rows of tokens whose classes depend on distant positions
(Long Range Arena, Tay et al. 2020, https://arxiv.org/abs/2011.04006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.image_decoding import PictureSize
from headtohead.data.cache.arrow_columns import numbers
from headtohead.data.data_source import DataKind, DataSpec, Split, SplitName
from headtohead.data.row_formats.image_rows import PixelRows, decoded_pixels, described_pixels, spec_of_pixels
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.hub_images import HubImages
from headtohead.data.sources.hub.image_columns import PictureColumns
from headtohead.data.sources.hub.split_choice import PublishedSplits
from headtohead.ranges import BatchSize, Seed


class PixelSequences(HubImages):
    """A token is the level of one pixel, from 0 to 255; where there are colours, all of one before the next."""

    kind: ClassVar[DataKind | None] = "labelled_text"

    def __init__(
        self,
        *,
        published: DatasetReference = DatasetReference(),
        splits: PublishedSplits = PublishedSplits(0.1, 0.1),
        columns: PictureColumns = PictureColumns(),
        pictures: PictureSize = PictureSize(colours="grey"),
        batch_size: BatchSize = 32,
        seed: Seed = 0,
        drop_shared: bool = False,
        about: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            published=published,
            splits=splits,
            columns=columns,
            pictures=pictures,
            batch_size=batch_size,
            seed=seed,
            drop_shared=drop_shared,
            about=about,
        )

    def describe_rows(self) -> DataSpec:
        return spec_of_pixels(super().describe_rows())

    def open_split(self, name: SplitName) -> Split:  # type: ignore[override]
        table = self.content.tables[self.content.facts["splits"][name]]
        indices = numbers(self.content.tables[name], "place")
        return PixelRows(self, name, numbers(table, "image"), numbers(table, "label"), indices)

    def decode(self, ids: Sequence[int]) -> str:
        return decoded_pixels(ids)

    def describe(self, batch: Batch) -> list[dict[str, Any]]:
        return described_pixels(batch, self.class_names)
