"""Report each error of the hub in one sentence with the remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from headtohead.data.cache.paths import hub_cache, hub_endpoint
from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.dataset_reference import DatasetReference

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def hub_errors(published: DatasetReference) -> Iterator[None]:
    """Turn whatever the hub's client raises into a DataError."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # httpx, requests, OSError: it depends on the version of the client
        raise _refusal(published, error) from error


def unreachable(published: DatasetReference, reason: str) -> DataError:
    """Return the error of a missing network, a hub that is down, or an environment that forbids asking."""
    return DataError(
        f"{hub_endpoint()} cannot be reached ({reason}), and {published} is not whole in {hub_cache()}: connect once, "
        f"or give a copy of the repository, data.folder=PATH."
    )


def _refusal(published: DatasetReference, error: Exception) -> DataError:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    card = f"{hub_endpoint()}/datasets/{published.name}"
    if isinstance(error, GatedRepoError):
        return DataError(
            f"{published} is gated: accept its terms at {card}, then log in (hf auth login, or HF_TOKEN=...), or give "
            f"a copy of the repository, data.folder=PATH."
        )
    if isinstance(error, RepositoryNotFoundError):
        return DataError(
            f"{published} is not on {hub_endpoint()}, or it is private: correct the name (OWNER/SET), or log in "
            f"(hf auth login, or HF_TOKEN=...)."
        )
    if isinstance(error, RevisionNotFoundError):
        return DataError(
            f"{published} has no data.revision={published.revision}: give a commit, branch or tag of {card}, or null."
        )
    if isinstance(error, OSError) and error.errno in _FULL:
        return DataError(
            f"the disk is full ({os.strerror(error.errno or 0)}) while {published} was fetched to {hub_cache()}, and "
            f"nothing half-written is left: free some space, or set HF_HUB_CACHE to a folder on a larger disk."
        )
    if isinstance(error, HfHubHTTPError) and error.response is not None and error.response.status_code in (401, 403):
        return DataError(
            f"{hub_endpoint()} does not let you read {published} (HTTP {error.response.status_code}): log in "
            f"(hf auth login, or HF_TOKEN=...) with an account that may."
        )
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return DataError(
            f"{published} lists a file that {hub_endpoint()} does not have ({_first_line(error)}): try again, or pin "
            f"another data.revision."
        )
    if isinstance(error, PermissionError):
        return DataError(f"{hub_cache()} cannot be written ({error.strerror}): set HF_HUB_CACHE to a folder of yours.")
    if "Consistency check failed" in str(error):
        return DataError(
            f"a file of {published} arrived cut short ({_first_line(error)}), and nothing of it is kept: try again."
        )
    return unreachable(published, f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    lines = str(error.__cause__ or error).strip().splitlines()
    return lines[0] if lines else "no reason given"
