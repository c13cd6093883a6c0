"""Operations on the files of leases are counted, since what they take is no measure."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path

from headtohead.files.lease_files import LeaseFiles


class CountedFiles(LeaseFiles):
    """Files of leases in memory; counted are the names that were read of one folder, and the files looked for and
    opened there, by the thread that counts: another touches leases every few seconds, whatever is measured."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._thread = folder, threading.get_ident()
        self._files: defaultdict[Path, dict[str, str]] = defaultdict(dict)
        self.read_names = self.opened = self.looked = 0

    def names(self, folder: Path) -> list[str]:
        self.read_names += len(self._files[folder]) * self._is_counted(folder)
        return list(self._files[folder])

    def exists(self, path: Path) -> bool:
        self.looked += self._is_counted(path.parent)
        return path.name in self._files[path.parent]

    def create(self, path: Path, text: str) -> bool:
        self.opened += self._is_counted(path.parent)
        is_new = path.name not in self._files[path.parent]
        self._files[path.parent].setdefault(path.name, text)
        return is_new

    def read(self, path: Path) -> tuple[str, int]:
        self.opened += self._is_counted(path.parent)
        if path.name not in self._files[path.parent]:
            raise FileNotFoundError(path)
        return self._files[path.parent][path.name], 0

    def write(self, path: Path, text: str) -> None:
        self._files[path.parent][path.name] = text

    def remove(self, path: Path) -> None:
        self._files[path.parent].pop(path.name, None)

    def _is_counted(self, folder: Path) -> bool:
        return folder == self._folder and threading.get_ident() == self._thread
