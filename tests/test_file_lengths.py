"""A file is read in one sitting: none of the package has more than 350 lines."""

from __future__ import annotations

from pathlib import Path

import headtohead

MOST_LINES = 350


def test_no_file_of_the_package_is_longer_than_one_sitting() -> None:
    files = list(Path(headtohead.__file__).parent.rglob("*.py"))
    assert len(files) > 500
    lengths = {str(file): len(file.read_text().splitlines()) for file in files}
    assert not {file: length for file, length in lengths.items() if length > MOST_LINES}
