"""Operations on the files of leases are counted, since what they take is no measure."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from headtohead.files.lease_files import LeaseFiles


class CountedFiles(LeaseFiles):
    """Files of leases in memory; counted are the names that were read of one folder, and the files looked for and
    opened there."""

    def __init__(self, folder: Path) -> None:
        self._counted = folder
        self._files: defaultdict[Path, dict[str, str]] = defaultdict(dict)
        self.read_names = self.opened = self.looked = 0

    def names(self, folder: Path) -> list[str]:
        self.read_names += len(self._files[folder]) * (folder == self._counted)
        return list(self._files[folder])

    def exists(self, path: Path) -> bool:
        self.looked += path.parent == self._counted
        return path.name in self._files[path.parent]

    def create(self, path: Path, text: str) -> bool:
        self.opened += path.parent == self._counted
        is_new = path.name not in self._files[path.parent]
        self._files[path.parent].setdefault(path.name, text)
        return is_new

    def read(self, path: Path) -> tuple[str, int]:
        self.opened += path.parent == self._counted
        if path.name not in self._files[path.parent]:
            raise FileNotFoundError(path)
        return self._files[path.parent][path.name], 0

    def write(self, path: Path, text: str) -> None:
        self._files[path.parent][path.name] = text

    def remove(self, path: Path) -> None:
        self._files[path.parent].pop(path.name, None)
