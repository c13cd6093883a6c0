"""Samples read from files of one's own: which files make which split, and where each sample stands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headtohead.data.caching import Prepared
from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.files import TO_BE_APART, content_digest, existing, files_below, split_of, twins
from headtohead.data.keeping import Origins, chosen
from headtohead.data.sharing import Keys, groups_of
from headtohead.data.texts import TextSource, check_max_length
from headtohead.data.tokenizers import TokenizerName


class FileSamples(TextSource):
    """Validation and test are files of their own, where there are such; what is missing is a share of the samples of
    the train files, drawn by the seed. Of a folder, names tell the split: train.csv, dev.csv, test/part-1.csv; where
    none does, all of it is for training, and shares."""

    name: ClassVar[str]
    suffixes: tuple[str, ...]
    """Of the files that are read where a folder is given."""
    share_by: tuple[str, ...] = ()
    """Columns: samples with the same value in one of them stand in one split, where splits are drawn."""

    def __init__(
        self,
        *,
        paths: Mapping[SplitName, str | None],
        shares: Mapping[SplitName, float],
        max_length: int | None,
        seed: int,
        batch_size: int,
        tokenizer: TokenizerName,
        vocab_size: int | None,
        bucket_by_length: bool,
    ) -> None:
        super().__init__(
            batch_size=batch_size, tokenizer=tokenizer, vocab_size=vocab_size, bucket_by_length=bucket_by_length
        )
        self.paths, self.shares, self.seed = dict(paths), dict(shares), seed
        self.max_length = check_max_length(max_length)
        self._origins: dict[SplitName, Sequence[tuple[str, int]]] = {}

    @abstractmethod
    def read(self, file: Path) -> Iterator[tuple[Any, int]]:
        """Samples of a file, each with the number that `where` says."""

    def where(self, file: Path | str, number: int) -> str:
        """In words, for messages."""
        return f"{file}, line {number}"

    @cached_property
    def files(self) -> dict[SplitName, list[Path]]:
        """The files of each split; validation and test may have none."""
        example = f"a {' or '.join(self.suffixes)} file, or a folder of them (data={self.name} data.path=...)"
        root = existing(self.paths["train"], "data.path", example)
        files: dict[SplitName, list[Path]] = {"train": files_below(root, self.suffixes, "data.path")}
        if root.is_dir():
            by_name = {name: [file for file in files["train"] if split_of(file, root) == name] for name in SPLIT_NAMES}
            files = by_name if any(by_name.values()) else files
        if not files["train"]:
            raise DataError(f"data.path={root} has files for {_those_of(files)}, and none for train: add one.")
        for name in ("validation", "test"):
            if self.paths[name] is not None:
                field = f"data.{name}_path"
                files[name] = files_below(existing(self.paths[name], field, example), self.suffixes, field)
        self._check_apart(files)
        _check_unlike(files)
        return files

    def _check_apart(self, files: Mapping[SplitName, Sequence[Path]]) -> None:
        for ours, other in TO_BE_APART:
            known = {file.resolve() for file in files.get(other, ())}
            both = next((file for file in files.get(ours, ()) if file.resolve() in known), None)
            if both is not None:
                given, its = (ours, other) if self.paths[ours] is not None else (other, ours)
                if given == "train":
                    raise DataError(
                        f"data.path={self.paths['train']} has {both} for {its} and for train: make them two files."
                    )
                raise DataError(
                    f"data.{given}_path={self.paths[given]} has {both}, which is read for {its} too: give a file that "
                    f"{its} does not read, or null for rows of their own."
                )

    def sample_parameters(self) -> Mapping[str, Any]:
        return {"files": self.told_files(), "shares": self.shares, "seed": self.seed}

    def told_files(self) -> Mapping[str, Any]:
        """What tells these files from others, and from what they were before."""
        return {name: [content_digest(file) for file in files] for name, files in self.files.items()}

    def samples(self) -> Mapping[SplitName, Sequence[Any]]:
        samples: dict[SplitName, Sequence[Any]] = {}
        for name in SPLIT_NAMES:
            samples[name], self._origins[name] = self._gathered(self.files.get(name, []))
            if self.files.get(name) and not samples[name]:
                raise self.nothing_in(name)
        self._share_out(samples)
        return samples

    def _gathered(self, files: Sequence[Path]) -> tuple[Sequence[Any], Origins]:
        samples, origins = self.form.keeping(), Origins()
        for file in files:
            for sample, number in self.read(file):
                samples.append(sample)
                origins.append((str(file), number))
        return samples, origins

    def _share_out(self, samples: dict[SplitName, Sequence[Any]]) -> None:
        """Missing splits are drawn from the train samples, which keep their order."""
        size = len(samples["train"])
        if all(samples[name] for name in SPLIT_NAMES):
            return
        order, begins = self._drawn(samples["train"], self._origins["train"])
        start = 0
        for name in ("test", "validation"):
            if not samples[name]:
                wanted = start + max(round(self.shares[name] * size), 1)
                stop = int(begins[np.searchsorted(begins, wanted)])
                drawn = np.sort(order[start:stop])
                start = stop
                samples[name] = chosen(samples["train"], drawn)
                self._origins[name] = chosen(self._origins["train"], drawn)
        if start >= size:
            groups = self._told_groups(min(len(begins) - 2, size), size)
            raise DataError(
                f"{self.told_source()} has {size} samples{groups}, too few to share out to three splits: give more, "
                f"or files for validation and test (data.validation_path, data.test_path)."
            )
        kept = np.sort(order[start:])
        samples["train"] = chosen(samples["train"], kept)
        self._origins["train"] = chosen(self._origins["train"], kept)

    def _drawn(self, samples: Sequence[Any], origins: Sequence[tuple[str, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Samples in an order of the seed's, and where this order may be cut: those that belong together stay so."""
        generator, size = np.random.default_rng(self.seed), len(samples)
        if not any(key is not None for own in self._keys(samples, origins) for key in own):
            return generator.permutation(size), np.arange(2 * size + 1)
        group_of = groups_of(list(self._keys(samples, origins)))
        if group_of.max() + 1 < len(SPLIT_NAMES) and not self.share_by:
            return generator.permutation(size), np.arange(2 * size + 1)
        places = generator.permutation(group_of.max() + 1) + self._too_large(group_of) * size
        order = np.argsort(places[group_of], kind="stable")
        begins = np.flatnonzero(np.diff(group_of[order], prepend=-1))
        return order, np.append(begins, [size, 2 * size])

    def _keys(self, samples: Sequence[Any], origins: Sequence[tuple[str, int]]) -> Iterator[Keys]:
        form = self.form
        for sample, origin in zip(samples, origins, strict=True):
            yield form.together(sample), *self.shared_of(origin)

    def _told_groups(self, groups: int, size: int) -> str:
        if self.share_by:
            return f" in {groups} groups by data.share_by={','.join(self.share_by)}"
        return f" in {groups} groups, each of which stands in one split" if groups < size else ""

    def _too_large(self, group_of: np.ndarray) -> np.ndarray:
        """Groups of more samples than a split is to have: they stay for training."""
        return np.bincount(group_of) > max(round(max(self.shares.values()) * len(group_of)), 1)

    def shared_of(self, origin: tuple[str, int]) -> Keys:
        """What a sample of this file and number has in common with others, besides what its form says."""
        del origin
        return ()

    def nothing_in(self, name: SplitName) -> DataError:
        """The files of a split hold no sample."""
        return DataError(f"{self.files[name][0]} has no samples for the {name} split: give some.")

    def told_source(self) -> str:
        """Where the samples come from, in words, for messages."""
        return f"data.path={self.paths['train']}"

    def keep_of_train(self, rows: np.ndarray) -> None:
        self._origins["train"] = chosen(self._origins["train"], rows)

    def place(self, name: SplitName, row: int) -> str:
        return self.where(*self._origins[name][row])

    def make(self) -> Prepared:
        content = super().make()
        self._origins.clear()
        return content


def _check_unlike(files: Mapping[SplitName, Sequence[Path]]) -> None:
    for ours, other in TO_BE_APART:
        if found := twins(files.get(ours, ()), files.get(other, ())):
            raise DataError(
                f"{found[0]}, which is read for {ours}, holds the same as {found[1]}, which is read for {other}: give "
                "other rows, or leave it out for rows that are drawn from those of train."
            )


def _those_of(files: Mapping[SplitName, list[Path]]) -> str:
    return " and ".join(name for name, found in files.items() if found)
