"""The files of a repository are assigned to the splits of a subset: by its card, else by their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.repository_listing import Listing, RepositoryFile
from headtohead.data.sources.image_folder import SUFFIXES as PICTURES
from headtohead.data.sources.local_files import SPLIT_OF_NAME

SUFFIXES = (".parquet", ".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".jsonl.gz", ".json.gz")
"""The suffixes that can be read, the most exact first."""
_ABOUT = frozenset({"dataset_infos.json", "dataset_info.json", "dataset_dict.json", "state.json", "config.json"})
"""JSON files that hold no rows."""
_PART = re.compile(r"[-_.]?\d*([-_]of[-_]\d+(-[0-9a-f]{16})?)?$")
"""The number of a file among those of its split: -00000-of-00002, with a digest behind it or without."""

_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

Splits = dict[str, tuple[RepositoryFile, ...]]


def splits_of(published: DatasetReference, listing: Listing) -> Splits:
    """Return the files of each published split of the subset, in the order of the card, or of their names."""
    readable = [file for file in listing.files if is_readable(file.path)]
    if not readable:
        raise _nothing_to_read(published, listing)
    configs = _configs(listing.card)
    with_files = {name: config for name, config in configs.items() if config.get("data_files") is not None}
    if with_files:
        chosen = _chosen(published, with_files)
        return _as_the_card_says(published, with_files[chosen], readable)
    return _by_names(published, readable)


def is_readable(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return name.endswith(SUFFIXES) and name not in _ABOUT


def _configs(card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = card.get("configs") or ()
    return {str(entry.get("config_name", "default")): entry for entry in entries if isinstance(entry, Mapping)}


def _chosen(published: DatasetReference, configs: Mapping[str, Mapping[str, object]]) -> str:
    if published.subset is not None:
        if published.subset not in configs:
            raise _no_subset(published, list(configs))
        return published.subset
    marked = [name for name, config in configs.items() if config.get("default")]
    if marked or len(configs) == 1 or "default" in configs:
        return (marked or [name for name in configs if name == "default"] or list(configs))[0]
    raise _no_subset(published, list(configs))


def _no_subset(published: DatasetReference, subsets: Sequence[str]) -> DataError:
    known = ", ".join(subsets[:30]) + (" ..." if len(subsets) > 30 else "")
    if published.subset is None:
        return DataError(f"{published} has several subsets ({known}): give data.subset={subsets[0]}, or another.")
    return DataError(f"{published}: there is no such subset, it has {known}: correct data.subset.")


def _as_the_card_says(
    published: DatasetReference, config: Mapping[str, object], readable: Sequence[RepositoryFile]
) -> Splits:
    splits: Splits = {}
    above = str(config.get("data_dir") or "").strip("/")
    for split, patterns in _patterns(config["data_files"]):
        full_patterns = [f"{above}/{pattern}" if above else pattern.removeprefix("./") for pattern in patterns]
        matching = [file for file in readable if any(_matches(file.path, pattern) for pattern in full_patterns)]
        if split is None:
            splits.update(_by_split_name(matching, "", all_are_meant=True))
        elif not matching:
            raise DataError(
                f"{published} has no file {' or '.join(full_patterns)}, which its card names for its {split} split."
            )
        else:
            splits[split] = tuple(matching)
    return splits


def _patterns(data_files: Any) -> Iterator[tuple[str | None, list[str]]]:
    """Yield splits and their patterns; None where file names determine the split."""
    if isinstance(data_files, str):
        yield None, [data_files]
    elif isinstance(data_files, Mapping):
        for split, paths in data_files.items():
            yield str(split), _listed(paths)
    elif data_files and all(isinstance(entry, Mapping) for entry in data_files):
        for entry in data_files:
            yield str(entry.get("split", "train")), _listed(entry["path"])
    else:
        yield None, [str(entry) for entry in data_files]


def _listed(paths: Any) -> list[str]:
    return [paths] if isinstance(paths, str) else [str(path) for path in paths]


def _matches(path: str, pattern: str) -> bool:
    """Match a pattern: one star stays within a folder, two do not
    (https://huggingface.co/docs/hub/datasets-manual-configuration)."""
    return (
        re.fullmatch("".join(_WILD.get(part) or re.escape(part) for part in _PIECES.findall(pattern)), path) is not None
    )


def _by_names(published: DatasetReference, readable: Sequence[RepositoryFile]) -> Splits:
    """Assign files without a card: folders may be subsets, and names determine splits."""
    subset = published.subset
    if subset is not None:
        inside = [file for file in readable if file.path.startswith(f"{subset}/")]
        if not inside:
            raise _no_subset(published, sorted({file.path.split("/")[0] for file in readable if "/" in file.path}))
        return _by_split_name(inside, f"{subset}/")
    tops = sorted({top for file in readable if (top := _subset_folder(file.path)) is not None})
    if len(tops) > 1:
        raise _no_subset(published, tops)
    return _by_split_name(readable, f"{tops[0]}/" if tops else "")


def _subset_folder(path: str) -> str | None:
    """Return the top-level folder that may be a subset: it is not a split's, and not called data."""
    top, slash, _ = path.partition("/")
    return top if slash and top != "data" and _split_in(top) is None else None


def _by_split_name(files: Sequence[RepositoryFile], above: str, *, all_are_meant: bool = False) -> Splits:
    """Return the files by split, in the most exact format only, when a set is published in several. Files that name no
    split are for training where none names that; beside train.csv, all.csv may well contain the test rows too, and is
    left out, unless a card names it."""
    suffix = next(suffix for suffix in SUFFIXES if any(file.path.lower().endswith(suffix) for file in files))
    named = [
        (_split_named(file.path.removeprefix(above), suffix), file)
        for file in files
        if file.path.lower().endswith(suffix)
    ]
    has_train = any(split is not None and _ours(split) == "train" for split, _ in named)
    splits: dict[str, list[RepositoryFile]] = {}
    for split, file in named:
        if split is not None or all_are_meant or not has_train:
            splits.setdefault(split or "train", []).append(file)
    return {split: tuple(paths) for split, paths in splits.items()}


def _split_named(path: str, suffix: str) -> str | None:
    """Return validation_matched of validation_matched-00000-of-00001.parquet, and test of test/0000.parquet."""
    *folders, last = path.split("/")
    for part in (last[: -len(suffix)], *reversed(folders)):
        if (split := _split_in(part)) is not None:
            return split
    return None


def _ours(split: str) -> str | None:
    return SPLIT_OF_NAME.get(re.split(r"[-_.]", split.lower())[0])


def _split_in(part: str) -> str | None:
    named = _PART.sub("", part)
    first, *rest = re.split(r"[-_.]", named.lower())
    if first in SPLIT_OF_NAME:
        return named
    # SET-train, as converters call files
    return rest[-1] if rest and rest[-1] in SPLIT_OF_NAME else None


def _nothing_to_read(published: DatasetReference, listing: Listing) -> DataError:
    scripts = [file.path for file in listing.files if file.path.endswith(".py")]
    if scripts and published.folder is None:
        return DataError(
            f"{published} holds no data but a script that fetches it ({scripts[0]}), and no script of others is run: "
            f"most such sets have a copy as Parquet, data.revision=refs/convert/parquet; else give data.folder=PATH."
        )
    if scripts:
        return DataError(f"{published} holds a script ({scripts[0]}), which is not run: add its {_suffixes()} files.")
    held = ", ".join(file.path for file in listing.files[:5]) or "nothing"
    pictures = any(PurePosixPath(file.path).suffix.lower() in PICTURES for file in listing.files)
    folder = published.folder if pictures else None
    otherwise = f", or read folders of images by data=image_folder data.path={folder}" if folder else ""
    return DataError(f"{published} has no {_suffixes()} file, it holds {held}: choose a set of such files{otherwise}.")


def _suffixes() -> str:
    return f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
