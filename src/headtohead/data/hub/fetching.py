"""Files of a published set on this machine: fetched once into the Hugging Face cache, verified, read from there."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from headtohead.data.contracts import DataError
from headtohead.data.hub.listing import RepositoryFile
from headtohead.data.hub.locating import Located
from headtohead.data.hub.published import Published
from headtohead.data.hub.refusals import told, unreachable
from headtohead.data.hub.remembering import remember_fetched
from headtohead.data.places import hub_cache, hub_endpoint, is_offline

_ABANDONED_AFTER = 60.0
"""Seconds without a byte after which nobody is still writing a file: the client gives up much earlier."""


def fetched(found: Located, split: str) -> list[Path]:
    """The files of a split, with a progress bar for each that is not here yet; raises DataError."""
    files, published = found.files(split)[split], found.published
    if published.path is not None:
        return [published.path / file.path for file in files]
    _remove_abandoned(published)
    paths = [_fetched(published, found.revision, file) for file in files]
    with told(published):
        remember_fetched(str(published.name), published.subset, found.revision, split, paths)
    return paths


def is_here(found: Located, splits: Sequence[str]) -> bool:
    """Whether the files of these splits are on this machine already."""
    paths = [file.path for split in splits for file in found.files(split)[split]]
    return all(_cached(found.published, found.revision, path) is not None for path in paths)


def _fetched(published: Published, revision: str, file: RepositoryFile) -> Path:
    if (known := _cached(published, revision, file.path)) is not None:
        return _verified(published, file, known, is_new=False)
    if is_offline():
        raise unreachable(published, "HF_HUB_OFFLINE is set")
    from huggingface_hub import hf_hub_download

    with told(published):
        path = hf_hub_download(
            str(published.name),
            file.path,
            repo_type="dataset",
            revision=revision,
            cache_dir=hub_cache(),
            endpoint=hub_endpoint(),
        )
    return _verified(published, file, Path(path), is_new=True)


def _cached(published: Published, revision: str, path: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(
        str(published.name), path, cache_dir=hub_cache(), revision=revision, repo_type="dataset"
    )
    return Path(found) if isinstance(found, str) else None


def _verified(published: Published, file: RepositoryFile, path: Path, *, is_new: bool) -> Path:
    """Its size always, its content when it has just come; a file that is not what the hub lists does not stay."""
    size = path.stat().st_size
    wrong = f"has {size:,} bytes, and the hub lists {file.size:,}" if file.size >= 0 and size != file.size else ""
    if not wrong and is_new and file.sha256 is not None and _sha256(path) != file.sha256:
        wrong = "is not what the hub lists (its SHA-256 differs)"
    if wrong:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise DataError(f"{file.path} of {published} {wrong}: it was removed from {hub_cache()}, so fetch it again.")
    return path


def _remove_abandoned(published: Published) -> None:
    """What a process left that was killed while it fetched; the client itself removes what fails."""
    for file in (hub_cache() / repository_folder(published) / "blobs").glob("*.incomplete"):
        try:
            if time.time() - file.stat().st_mtime > _ABANDONED_AFTER:
                file.unlink()
        except OSError:
            continue  # another process was faster, or the cache is only to be read


def repository_folder(published: Published) -> str:
    """As the client calls the folder of a set in its cache."""
    return f"datasets--{str(published.name).replace('/', '--')}"


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
