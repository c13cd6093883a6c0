"""A tokenizer named on the command line: data.tokenizer=FOLDER, =tokenizer.json, a run's too, or =hf:NAME@REVISION
of the hub."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from headtohead.data.cache.paths import hub_cache, hub_endpoint, is_offline
from headtohead.data.data_source import DataError
from headtohead.data.tokenizers.published_tokenizer import FILE, FILES_OF_NAMES, published_tokenizer
from headtohead.data.tokenizers.tokenizer import Tokenizer, TokenizerKind
from headtohead.files.safe_read import read_json, read_text

HUB = "hf:"
_CONFIG = "config.json"
Open = Callable[[str], Path | None]
"""A file by its name; None where there is none."""


def is_named(name: str) -> bool:
    """Return whether this names an existing tokenizer, rather than a kind that is learned."""
    is_no_kind = bool(name) and name not in get_args(TokenizerKind)
    return is_no_kind and (
        name.startswith(HUB) or "/" in name or name.endswith(".json") or Path(name).expanduser().exists()
    )


def named_tokenizer(name: str) -> Tokenizer:
    """Read the named tokenizer; raise DataError in one sentence."""
    origin = f"data.tokenizer={name}"
    index = Path(name.removeprefix(HUB)).expanduser()
    if index.is_file():
        return _read(lambda file: index if file == FILE else _existing(index.parent / file), origin)
    if index.is_dir():
        return _read(lambda file: _existing(index / file), origin)
    if name.startswith(HUB) and not name.removeprefix(HUB).startswith(("/", ".", "~")):
        repository, _, revision = name.removeprefix(HUB).partition("@")
        description = _fetched(repository, FILE, revision or None, origin)
        commit = description.parent.name  # the hub's cache keeps the files of a commit in a folder of its name
        return _read(lambda file: description if file == FILE else _fetched_if_any(repository, file, commit), origin)
    raise DataError(
        f"{origin}: there is no such file or folder (from {Path.cwd()}): correct the path, or write hf:NAME for one of "
        f"the hub."
    )


def _existing(path: Path) -> Path | None:
    return path if path.is_file() else None


def _read(opened: Open, origin: str) -> Tokenizer:
    description = opened(FILE)
    if description is None:
        raise DataError(
            f"{origin} has no {FILE}: save a fast tokenizer there (save_pretrained of transformers, or save of the "
            f"tokenizers library)."
        )
    try:
        text = read_text(description)
        named = {key: value for file in FILES_OF_NAMES for key, value in _json(opened(file)).items()}
        config = _json(opened(_CONFIG))
    except (OSError, ValueError) as error:
        raise DataError(f"{origin}: its files cannot be read ({error})") from None
    return _of_a_run(text) or published_tokenizer(text, named=named, config=config, origin=origin)


def _of_a_run(description: str) -> Tokenizer | None:
    """Return the tokenizer that a run left in its folder, where this is one."""
    try:
        stored = json.loads(description)
    except (ValueError, RecursionError):
        return None
    is_ours = isinstance(stored, dict) and {"kind", "pieces", "merges"} <= stored.keys()
    return Tokenizer.from_dict(stored) if is_ours else None


def _json(path: Path | None) -> dict[str, Any]:
    read = {} if path is None else read_json(path)
    return read if isinstance(read, dict) else {}


def _fetched(repository: str, file: str, revision: str | None, origin: str) -> Path:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return _download(repository, file, revision)
    except GatedRepoError:
        reason = f"is gated: accept its terms at {hub_endpoint()}/{repository}, then log in (hf auth login)"
    except RevisionNotFoundError:
        reason = f"has no revision {revision}: give one that its page lists, or none"
    except (RepositoryNotFoundError, HFValidationError):
        reason = f"is not on {hub_endpoint()}, or it is private: correct the name (hf:OWNER/NAME), or log in"
    except LocalEntryNotFoundError:
        reason = (
            f"is not in {hub_cache()}, and {hub_endpoint()} cannot be reached: connect once, or give a folder that "
            f"holds its {FILE}, data.tokenizer=FOLDER"
        )
    except EntryNotFoundError:
        reason = f"has no {file}: choose a repository with a fast tokenizer"
    except Exception as error:  # httpx, requests or OSError: it depends on the version of the client
        reason = f"could not be fetched from {hub_endpoint()} ({type(error).__name__}): try again, or give a folder"
    raise DataError(f"{origin} {reason}.")


def _fetched_if_any(repository: str, file: str, commit: str) -> Path | None:
    """Download an optional file of a tokenizer."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return _download(repository, file, commit)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
        return None


def _download(repository: str, file: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(
        hf_hub_download(
            repository,
            file,
            revision=revision,
            cache_dir=hub_cache(),
            endpoint=hub_endpoint(),
            local_files_only=is_offline(),
        )
    )
