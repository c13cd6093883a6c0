"""A published checkpoint in the hub's on-disk format: config.json, safetensors, tokenizer.json; from a folder or the
hub. Weights are read from safetensors alone: a pickled file runs whatever code was put into it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from headtohead.data.data_source import DataError
from headtohead.data.tokenizers.published_tokenizer import FILE, FILES_OF_NAMES, published_tokenizer
from headtohead.data.tokenizers.tokenizer import Tokenizer
from headtohead.files.safe_read import DamagedFile, read_json, read_text
from headtohead.pretrained.checkpoint_reference import PREFIX, missing_folder
from headtohead.pretrained.safetensor_files import CheckpointError, FileTensors

_CONFIG, _WHOLE, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_TEXTS = (_CONFIG, _INDEX, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_PATIENCE = 5
"""Seconds to wait for the hub to answer at all."""
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")


def is_published(origin: str | Path) -> bool:
    """Return whether a starting point is a published checkpoint rather than a run."""
    return str(origin).startswith(PREFIX)


@dataclass(frozen=True)
class Checkpoint:
    """Its small files are at hand; its weights are fetched when they are read."""

    origin: str
    """The reference as it was given, hf:NAME@REVISION or hf:FOLDER."""
    folder: Path
    name: str | None = None
    """That on the hub; None for a folder."""
    revision: str | None = None
    """The commit, which names the same files forever."""

    @property
    def pinned(self) -> str:
        """Return the reference that finds the same files again."""
        return f"{PREFIX}{self.name}@{self.revision}" if self.name else f"{PREFIX}{self.folder}"

    @cached_property
    def config(self) -> dict[str, Any]:
        config = self.json(_CONFIG)
        if config is None:
            raise CheckpointError(f"init_from={self.origin} has no {_CONFIG}: give a checkpoint in the hub's format")
        return config

    def json(self, name: str) -> dict[str, Any] | None:
        """Read one of its small files; None where there is no such file."""
        path = self.folder / name
        if not path.is_file():
            return None
        try:
            read = read_json(path)
        except DamagedFile as damage:
            raise CheckpointError(f"init_from={self.origin}: its {name} {damage.what}") from None
        if not isinstance(read, dict):
            raise CheckpointError(f"init_from={self.origin}: its {name} holds no fields")
        return read

    def weights(self) -> FileTensors:
        """Return all weights; each is read when it is used."""
        return FileTensors.of(self.origin, self._weight_files())

    def names(self) -> frozenset[str]:
        """Return the names of its tensors, without their numbers."""
        return frozenset(self.weights())

    def _weight_files(self) -> Iterator[Path]:
        index = self.json(_INDEX)
        weight_map = {"": _WHOLE} if index is None else index.get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise CheckpointError(f"init_from={self.origin}: its {_INDEX} lists no weights; fetch it again")
        for name in sorted(set(map(str, weight_map.values()))):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise CheckpointError(
                    f"init_from={self.origin}: its {_INDEX} names {name}, which is not a file beside it"
                )
            path = self.folder / name
            if self.name is not None and not path.is_file():
                path = _fetched(self.name, name, self.revision, self.origin)
            if not path.is_file():
                raise CheckpointError(f"init_from={self.origin} {_without_weights(self.folder, name)}")
            yield path


def open_checkpoint(origin: str) -> Checkpoint:
    """Open hf:FOLDER, hf:NAME or hf:NAME@REVISION; raise CheckpointError where that fails."""
    reference = origin.removeprefix(PREFIX)
    if not reference:
        raise CheckpointError(f"init_from={origin} names nothing: write hf:NAME, hf:NAME@REVISION or hf:FOLDER")
    folder = Path(reference).expanduser()
    if folder.is_dir():
        return Checkpoint(origin, folder.resolve())
    if (sentence := missing_folder(origin)) is not None:
        raise CheckpointError(sentence)
    name, _, revision = reference.partition("@")
    config = _fetched(name, _CONFIG, revision or None, origin)
    # The hub's cache keeps the files of a commit in a folder of its name.
    commit = config.parent.name
    for other in _TEXTS[1:]:
        _fetched_if_any(name, other, commit)
    return Checkpoint(origin, config.parent, name, commit)


def _fetched(name: str, file: str, revision: str | None, origin: str) -> Path:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return _download(name, file, revision)
    except GatedRepoError:
        reason = "is behind a licence: accept it on its page and log in with `hf auth login`"
    except RevisionNotFoundError:
        reason = f"has no revision {revision}: give one that its page lists, or none"
    except (RepositoryNotFoundError, HFValidationError):
        reason = "is neither a folder here nor a name on the hub: correct it, or log in where it is private"
    except LocalEntryNotFoundError:
        reason = (
            f"is not a folder here, and the hub cannot be reached for {name}: go online once, or give a folder, "
            "init_from=hf:/PATH/TO/FOLDER"
        )
    except EntryNotFoundError:
        reason = (
            f"has no {file}: give a checkpoint in the hub's format" if file == _CONFIG else _without_weights(None, file)
        )
    except OSError as error:
        reason = f"could not be fetched ({type(error).__name__}): try again, or give a downloaded folder"
    raise CheckpointError(f"init_from={origin} {reason}") from None


def _fetched_if_any(name: str, file: str, commit: str) -> None:
    """Download an optional file of a checkpoint."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        _download(name, file, commit)
    except (HfHubHTTPError, OSError):
        return


def _download(name: str, file: str, revision: str | None) -> Path:
    """Download a file from the hub, or use an earlier download where the hub is out of reach: trying in vain takes half
    a minute and many lines."""
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(name, file, revision=revision, local_files_only=not _reachable()))


@lru_cache(maxsize=1)
def _reachable() -> bool:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():  # a proxy finds hosts that this machine does not
        return True
    there = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((there.hostname or "", there.port or 443), timeout=_PATIENCE).close()
    except OSError:
        return False
    return True


def _without_weights(folder: Path | None, name: str) -> str:
    pickled = folder is None or any((folder / other).is_file() for other in _PICKLED)
    kind = "its weights are pickled, and reading them would run whatever code is in them" if pickled else "it has none"
    return (
        f"has no {name}: {kind}; give a revision with safetensors, or save it with save_pretrained of a recent "
        "transformers, which writes them"
    )


def tokenizer_of(checkpoint: Checkpoint) -> Tokenizer | None:
    """Return the checkpoint's tokenizer; None where it has none in a single file."""
    path = checkpoint.folder / FILE
    if not path.is_file():
        return None
    named = {key: value for file in FILES_OF_NAMES for key, value in (checkpoint.json(file) or {}).items()}
    try:
        return published_tokenizer(
            read_text(path),
            named=named,
            config=checkpoint.config,
            origin=f"init_from={checkpoint.origin}",
        )
    except DamagedFile as damage:
        raise CheckpointError(f"init_from={checkpoint.origin}: its {FILE} {damage.what}") from None
    except DataError as error:
        raise CheckpointError(str(error)) from None
