"""Files of named arrays (.npz), which may be a stranger's: nothing in them is executed, and damage has one name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from headtohead.errors import UsageError
from headtohead.files.safe_read import DamagedFile, open_regular

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile

_DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, NotImplementedError, MemoryError, BadZipFile,
    zlib.error,
)  # fmt: skip
"""What NumPy and zipfile raise for bytes that are no archive, and what is done with arrays of another shape."""


@contextmanager
def open_archive(path: Path) -> Iterator[NpzFile]:
    """Open a file of arrays; DamagedFile where it, or what is read of it inside, is not as it was written."""
    import numpy as np

    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            yield archive
    except (FileNotFoundError, UsageError):
        raise
    except _DAMAGE as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise DamagedFile(path, f"is no whole file of arrays ({why})") from None
