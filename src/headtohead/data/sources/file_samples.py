"""Samples read from the user's files: which files belong to which split, and where each sample is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.batches.disk_backed_texts import Origins, selected_samples
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.row_formats.text_source import BucketedRows, TextSource, check_max_length
from headtohead.data.sources.local_files import (
    TO_BE_APART,
    FileSplits,
    content_digest,
    duplicates,
    existing_path,
    files_below,
    overrides_for_share,
    split_of,
)
from headtohead.data.sources.missing_values import check_missing, missing_parts, refuse_missing
from headtohead.data.splits.left_out_rows import LeftOutFacts, LeftOutRows
from headtohead.data.splits.sample_splits import Keys, group_ids_of, with_all_classes_left

_DRAWN: tuple[SplitName, ...] = ("test", "validation")
"""The splits that are drawn from train, in this order."""


class FileSamples(TextSource):
    """Validation and test have files of their own, where there are any; a missing split is a share of the samples of
    the train files, drawn by the seed. In a folder, names determine the split: train.csv, dev.csv, test/part-1.csv;
    where none does, everything is for training, and shares."""

    name: ClassVar[str]
    suffixes: tuple[str, ...]
    """The suffixes of the files that are read where a folder is given."""
    vocabulary_follows_texts = True
    share_by: tuple[str, ...] = ()
    """Columns: samples with the same value in one of them stand in one split, where splits are drawn."""

    def __init__(
        self,
        files: FileSplits,
        rows: BucketedRows,
        *,
        max_length: int | None,
        seed: int,
        drop_shared: bool,
    ) -> None:
        super().__init__(rows)
        check_missing(files.missing)
        self.paths, self.shares, self.seed, self.missing = files.paths(), files.shares(), seed, files.missing
        self._left_out = LeftOutRows()
        self.drop_shared = drop_shared
        self.max_length = check_max_length(max_length)
        self._origins: dict[SplitName, Sequence[tuple[str, int]]] = {}

    @abstractmethod
    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        """Yield the samples of a file that are complete, each with the number that `where` takes."""

    def begin_count(self, file: Path) -> None:
        """Forget what was counted of a file, which is read now."""
        self._left_out.open(file)

    def is_complete(self, row: Mapping[str, object], file: Path, number: int) -> bool:
        """Count a row of a file, and return whether it has all values that it needs; refuse it where it has not and
        such rows are not to be left out."""
        missing = missing_parts(row)
        if missing and self.missing == "refuse":
            refuse_missing(row, missing[0], self.where(file, number))
        self._left_out.count(file, missing)
        return not missing

    def left_out_facts(self) -> LeftOutFacts:
        return self._left_out.facts()

    def where(self, file: Path | str, number: int) -> str:
        """Return the location of a sample in words, for messages."""
        return f"{file}, line {number}"

    @cached_property
    def files(self) -> dict[SplitName, list[Path]]:
        """Return the files of each split; validation and test may have none."""
        example = f"a {' or '.join(self.suffixes)} file, or a folder of them (data={self.name} data.path=...)"
        root = existing_path(self.paths["train"], "data.path", example)
        files: dict[SplitName, list[Path]] = {"train": files_below(root, self.suffixes, "data.path")}
        if root.is_dir():
            by_name = {name: [file for file in files["train"] if split_of(file, root) == name] for name in SPLIT_NAMES}
            files = by_name if any(by_name.values()) else files
        if not files["train"]:
            raise DataError(f"data.path={root} has files for {_those_of(files)}, and none for train: add one.")
        for name in ("validation", "test"):
            if self.paths[name] is not None:
                field = f"data.{name}_path"
                files[name] = files_below(existing_path(self.paths[name], field, example), self.suffixes, field)
        self._check_apart(files)
        _check_unlike(files)
        return files

    def _check_apart(self, files: Mapping[SplitName, Sequence[Path]]) -> None:
        for ours, other in TO_BE_APART:
            known = {file.resolve() for file in files.get(other, ())}
            both = next((file for file in files.get(ours, ()) if file.resolve() in known), None)
            if both is not None:
                configured, its = (ours, other) if self.paths[ours] is not None else (other, ours)
                if configured == "train":
                    raise DataError(
                        f"data.path={self.paths['train']} has {both} for {its} and for train: make them two files."
                    )
                raise DataError(
                    f"data.{configured}_path={self.paths[configured]} has {both}, which is read for {its} too: give a "
                    f"file that "
                    f"{its} does not read, or null for rows of their own."
                )

    def overrides_for_share(self, share: float, lacking: Sequence[SplitName]) -> Sequence[str]:
        drawn = {name: own for name, own in self.shares.items() if not self.files.get(name)}
        return overrides_for_share(drawn, share, lacking)

    def sample_parameters(self) -> Mapping[str, object]:
        return {"files": self.file_identities(), "shares": self.shares, "seed": self.seed, "missing": self.missing}

    def file_identities(self) -> Mapping[str, object]:
        """Return the digests of the files, which change with their content."""
        return {name: [content_digest(file) for file in files] for name, files in self.files.items()}

    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        samples: dict[SplitName, Sequence[object]] = {}
        for name in SPLIT_NAMES:
            samples[name], self._origins[name] = self._gathered(self.files.get(name, []))
            if self.files.get(name) and not samples[name]:
                raise self.nothing_in(name)
        self._share_out(samples)
        return samples

    def _gathered(self, files: Sequence[Path]) -> tuple[Sequence[object], Origins]:
        samples, origins = self.form.new_samples(), Origins()
        for file in files:
            for sample, number in self.read(file):
                samples.append(sample)
                origins.append((str(file), number))
        return samples, origins

    def _share_out(self, samples: dict[SplitName, Sequence[object]]) -> None:
        """Draw missing splits from the train samples, which stay in order."""
        size = len(samples["train"])
        if all(samples[name] for name in SPLIT_NAMES):
            return
        drawn_sizes = [max(round(self.shares[name] * size), 1) for name in _DRAWN if not samples[name]]
        classes = self._classes_in(samples["train"])
        order, starts = with_all_classes_left(
            *self._drawn(samples["train"], self._origins["train"]), classes, drawn_sizes
        )
        start = 0
        for name in _DRAWN:
            if not samples[name]:
                end = start + max(round(self.shares[name] * size), 1)
                stop = int(starts[np.searchsorted(starts, end)])
                drawn = np.sort(order[start:stop])
                start = stop
                samples[name] = selected_samples(samples["train"], drawn)
                self._origins[name] = selected_samples(self._origins["train"], drawn)
        left = {name for row in order[start:].tolist() for name in classes[row]} if classes else set()
        if start >= size or any(name not in left for own in classes for name in own):
            groups = self._describe_groups(min(len(starts) - 2, size), size)
            of, purpose = "", ""
            if start < size:
                several = len({name for own in classes for name in own})
                of, purpose = f" of {several} classes", ", of which train has every class"
            raise DataError(
                f"{self.source_description()} has {size} sample{'' if size == 1 else 's'}{of}{groups}, too few to "
                f"share out to three splits{purpose}: give more, or files for validation and test "
                "(data.validation_path, data.test_path)."
            )
        remaining = np.sort(order[start:])
        samples["train"] = selected_samples(samples["train"], remaining)
        self._origins["train"] = selected_samples(self._origins["train"], remaining)

    def _drawn(self, samples: Sequence[object], origins: Sequence[tuple[str, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return an order of the samples drawn by the seed, and the positions where it may be divided: groups stay
        together."""
        generator, size = np.random.default_rng(self.seed), len(samples)
        if not any(key is not None for own in self._keys(samples, origins) for key in own):
            return generator.permutation(size), np.arange(2 * size + 1)
        group_of = group_ids_of(list(self._keys(samples, origins)))
        if group_of.max() + 1 < len(SPLIT_NAMES) and not self.share_by:
            return generator.permutation(size), np.arange(2 * size + 1)
        indices = generator.permutation(group_of.max() + 1) + self._too_large(group_of) * size
        order = np.argsort(indices[group_of], kind="stable")
        begins = np.flatnonzero(np.diff(group_of[order], prepend=-1))
        return order, np.append(begins, [size, 2 * size])

    def _classes_in(self, samples: Sequence[object]) -> Sequence[Sequence[Hashable]]:
        """Return what of each sample the train split must have; empty where that is nothing."""
        form = self.form
        if not samples or not form.classes_in(samples[0]):
            return []
        return [form.classes_in(sample) for sample in samples]

    def _keys(self, samples: Sequence[object], origins: Sequence[tuple[str, int]]) -> Iterator[Keys]:
        form = self.form
        for sample, origin in zip(samples, origins, strict=True):
            yield form.together(sample), *self.shared_of(origin)

    def _describe_groups(self, groups: int, size: int) -> str:
        if self.share_by:
            return f" in {groups} groups by data.share_by={','.join(self.share_by)}"
        return f" in {groups} groups, each of which stands in one split" if groups < size else ""

    def _too_large(self, group_of: np.ndarray) -> np.ndarray:
        """Return the groups with more samples than a split is to have, which stay for training."""
        return np.bincount(group_of) > max(round(max(self.shares.values()) * len(group_of)), 1)

    def shared_of(self, origin: tuple[str, int]) -> Keys:
        """Return what a sample of this file and number shares with others, besides the keys of its row format."""
        del origin
        return ()

    def nothing_in(self, name: SplitName) -> DataError:
        """Return the error of a split whose files contain no sample."""
        left_out = self.left_out_facts().get("rows")
        reason = (
            f": {left_out:,} rows lack a value, and data.missing=drop leaves them out" if left_out else ": give some"
        )
        return DataError(f"{self.files[name][0]} has no samples for the {name} split{reason}.")

    def source_description(self) -> str:
        """Return where the samples come from, in words, for messages."""
        return f"data.path={self.paths['train']}"

    def keep_of_train(self, rows: np.ndarray) -> None:
        self._origins["train"] = selected_samples(self._origins["train"], rows)

    def origin_of(self, name: SplitName, row: int) -> str:
        return self.where(*self._origins[name][row])

    def make(self) -> PreparedContent:
        content = super().make()
        self._origins.clear()
        return content


def _check_unlike(files: Mapping[SplitName, Sequence[Path]]) -> None:
    for ours, other in TO_BE_APART:
        if twice := duplicates(files.get(ours, ()), files.get(other, ())):
            raise DataError(
                f"{twice[0]}, which is read for {ours}, holds the same as {twice[1]}, which is read for {other}: "
                f"give "
                "other rows, or leave it out for rows that are drawn from those of train."
            )


def _those_of(files: Mapping[SplitName, list[Path]]) -> str:
    return " and ".join(name for name, paths in files.items() if paths)
