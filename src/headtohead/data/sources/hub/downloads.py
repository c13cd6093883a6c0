"""Files of a published set on this machine: fetched once into the Hugging Face cache, verified, read from there."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from headtohead.data.cache.paths import hub_cache, hub_endpoint, is_offline
from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.dataset_location import DatasetLocation
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.hub_answers import hub_errors, unreachable
from headtohead.data.sources.hub.hub_memory import remember_fetched
from headtohead.data.sources.hub.repository_listing import RepositoryFile
from headtohead.progress_lines import ProgressLines

_ABANDONED_AFTER = 60.0
"""Seconds without a byte after which a file is abandoned: the client gives up much earlier."""

_LONG = 2**26
"""Bytes of a file from which on fetching it takes so long that a command without a terminal says so before."""


def fetch_file(located: DatasetLocation, split: str) -> list[Path]:
    """Fetch the files of a split, with a progress bar or a line for each that is not here yet; raise DataError."""
    files, published = located.files(split)[split], located.published
    if published.path is not None:
        return [published.path / file.path for file in files]
    _remove_abandoned(published)
    lines = ProgressLines(len(files), "files")
    paths: list[Path] = []
    for file in files:
        is_long = file.size >= _LONG and _cached(published, located.revision, file.path) is None
        lines.show(len(paths), f"fetching {file.path} of {published.name}", at_once=is_long)
        paths.append(_fetched(published, located.revision, file))
    with hub_errors(published):
        remember_fetched(str(published.name), published.subset, located.revision, split, paths)
    return paths


def _fetched(published: DatasetReference, revision: str, file: RepositoryFile) -> Path:
    if (known := _cached(published, revision, file.path)) is not None:
        return _verified(published, file, known, is_new=False)
    if is_offline():
        raise unreachable(published, "HF_HUB_OFFLINE is set")
    from huggingface_hub import hf_hub_download

    with hub_errors(published):
        path = hf_hub_download(
            str(published.name),
            file.path,
            repo_type="dataset",
            revision=revision,
            cache_dir=hub_cache(),
            endpoint=hub_endpoint(),
        )
    return _verified(published, file, Path(path), is_new=True)


def _cached(published: DatasetReference, revision: str, path: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(
        str(published.name), path, cache_dir=hub_cache(), revision=revision, repo_type="dataset"
    )
    return Path(cached) if isinstance(cached, str) else None


def _verified(published: DatasetReference, file: RepositoryFile, path: Path, *, is_new: bool) -> Path:
    """Verify the size of a file always, and its content after a download; a file that differs from the hub's listing is
    removed."""
    size = path.stat().st_size
    wrong = f"has {size:,} bytes, and the hub lists {file.size:,}" if file.size >= 0 and size != file.size else ""
    if not wrong and is_new and file.sha256 is not None and _sha256(path) != file.sha256:
        wrong = "is not what the hub lists (its SHA-256 differs)"
    if wrong:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise DataError(f"{file.path} of {published} {wrong}: it was removed from {hub_cache()}, so fetch it again.")
    return path


def _remove_abandoned(published: DatasetReference) -> None:
    """Remove what killed downloads left; the client itself removes what fails."""
    for file in (hub_cache() / repository_folder(published) / "blobs").glob("*.incomplete"):
        try:
            if time.time() - file.stat().st_mtime > _ABANDONED_AFTER:
                file.unlink()
        except OSError:
            continue  # another process was faster, or the cache is only to be read


def repository_folder(published: DatasetReference) -> str:
    """Return the client's name of a set's folder in its cache."""
    return f"datasets--{str(published.name).replace('/', '--')}"


def _sha256(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
