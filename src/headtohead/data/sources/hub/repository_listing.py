"""The files of a repository and its card are requested from the hub once for each revision, or read from a folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.data.cache.paths import hub_endpoint, is_offline
from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.dataset_reference import DatasetReference, is_commit
from headtohead.data.sources.hub.hub_answers import hub_errors, unreachable
from headtohead.data.sources.hub.hub_memory import SAVED, listing_of, recall, remember

CARD = "README.md"
_TIMEOUT = 30.0
"""Seconds to wait for the hub's answer."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RepositoryFile:
    path: str
    """The path within the repository."""
    size: int = -1
    sha256: str | None = None
    """The hub's digest; None for small files, and in a folder."""


@dataclass(frozen=True)
class Listing:
    """The facts about a repository at one revision that are known before any of its data is fetched."""

    revision: str
    """A commit; empty for a folder that no revision was named for."""
    files: tuple[RepositoryFile, ...]
    card: Mapping[str, object] = field(default_factory=dict)
    """The metadata at the top of the card, between two lines of ---."""


def listing(published: DatasetReference) -> Listing:
    """List a folder; else return what was remembered; else ask the hub and remember the answer."""
    if published.path is not None:
        return _of_folder(published, published.path)
    if not published.has_name:
        wrong = "data.name is missing" if published.name is None else f"data.name={published.name} names no set"
        raise DataError(f"{wrong}: give data.name=OWNER/SET, as at {hub_endpoint()}/datasets, or data.folder=PATH.")
    revision = published.revision
    known = revision or recall(str(published.name), SAVED)
    if isinstance(known, str) and is_commit(known) and (result := _remembered(published, known)) is not None:
        return result
    if is_offline():
        raise unreachable(published, "HF_HUB_OFFLINE is set")
    result = _listing_of_hub(published)
    with hub_errors(published):
        remember(str(published.name), listing_of(result.revision), _as_json(result))
        if revision is None:
            remember(str(published.name), SAVED, result.revision)
            _log.info("%s is read at revision %s from now on: data.revision pins it", published, result.revision)
    return result


def _listing_of_hub(published: DatasetReference) -> Listing:
    from huggingface_hub import HfApi

    with hub_errors(published):
        info = HfApi(endpoint=hub_endpoint()).dataset_info(
            str(published.name), revision=published.revision, files_metadata=True, timeout=_TIMEOUT
        )
    if info.sha is None:
        raise unreachable(published, "its answer names no commit")
    files = tuple(
        RepositoryFile(
            sibling.rfilename, -1 if sibling.size is None else sibling.size, sibling.lfs.sha256 if sibling.lfs else None
        )
        for sibling in info.siblings or ()
    )
    return Listing(info.sha, files, info.card_data.to_dict() if info.card_data else {})


def _of_folder(published: DatasetReference, folder: Path) -> Listing:
    if not folder.is_dir():
        raise DataError(
            f"data.folder={published.folder} is not a folder (from {Path.cwd()}): give one that holds its files."
        )
    visible = (file for file in sorted(folder.rglob("*")) if file.is_file())
    paths = [file.relative_to(folder) for file in visible]
    files = tuple(
        RepositoryFile(path.as_posix(), (folder / path).stat().st_size)
        for path in paths
        if not any(part.startswith(".") for part in path.parts)
    )
    return Listing(published.revision or "", files, _card_of(folder / CARD))


def _card_of(file: Path) -> Mapping[str, object]:
    from huggingface_hub import DatasetCard

    if not file.is_file():
        return {}
    try:
        card: dict[str, Any] = DatasetCard.load(file, ignore_metadata_errors=True).data.to_dict()
    except (ValueError, OSError) as error:
        raise DataError(f"{file} is not a card that can be read ({str(error).splitlines()[0]}): correct it.") from error
    return card


def _remembered(published: DatasetReference, revision: str) -> Listing | None:
    known = recall(str(published.name), listing_of(revision))
    try:
        files = tuple(RepositoryFile(str(path), size, sha256) for path, size, sha256 in known["files"])
        return Listing(str(known["revision"]), files, dict(known["card"]))
    except (TypeError, KeyError, ValueError):
        return None


def _as_json(listing: Listing) -> dict[str, Any]:
    files = [[file.path, file.size, file.sha256] for file in listing.files]
    return {"revision": listing.revision, "files": files, "card": listing.card}
