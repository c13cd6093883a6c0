"""Matchings that are kept with a study: an arm is brought to its budget by whoever plans first, and never again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headtohead.files.leases import Leases
from headtohead.files.reading import DamagedFile, read_object
from headtohead.files.writing import SUFFIX, replace_text
from headtohead.studying.matching.costing import Timing
from headtohead.studying.matching.matching import MatchedArm, Matching

FOLDER = "matchings"
_LEASE = "matching"
_ANOTHER = "put a copy of it back; without it, remove the file, and the arm is matched anew"
_WAIT_SECONDS = 0.5
Solve = Callable[[Sequence[str]], Matching]
"""Brings the arms of these names to the baseline."""


@dataclass(frozen=True)
class Kept:
    """One arm as it was matched, and the baseline as it was measured beside it."""

    arm: MatchedArm
    baseline: MatchedArm


class KeptMatchings:
    """Those in a study's folder, one file for each arm."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._leases = folder / FOLDER, Leases(folder / "leases")

    def has(self, key: str) -> bool:
        return self._file(key).is_file()

    def completed(self, keys: Mapping[str, str], solve: Solve) -> dict[str, Kept]:
        """By arm, given a hash of all that its matching depends on; what nobody solved yet is solved by one."""
        while missing := self._missing(keys):
            lease = self._leases.take(_LEASE)
            if lease is None:
                time.sleep(_WAIT_SECONDS)
                continue
            try:
                if missing := self._missing(keys):  # another may have been quicker
                    matching = solve(missing)
                    for name in missing:
                        self._keep(keys[name], Kept(matching.arm(name), matching.arm(matching.baseline)))
            finally:
                lease.give_back()
        return {name: _read(self._file(key)) for name, key in keys.items()}

    def known(self, keys: Mapping[str, str]) -> dict[str, Kept]:
        """Those that were solved already."""
        return {name: _read(self._file(key)) for name, key in keys.items() if self.has(key)}

    def _missing(self, keys: Mapping[str, str]) -> list[str]:
        return [name for name, key in keys.items() if not self.has(key)]

    def _keep(self, key: str, found: Kept) -> None:
        """The first stays: runs may have begun by it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._file(key)
        own = file.with_name(f".{file.name}.{os.getpid()}{SUFFIX}")
        replace_text(own, json.dumps(asdict(found), indent=2) + "\n")
        try:
            os.link(own, file)
        except FileExistsError:
            pass
        finally:
            own.unlink()

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _read(file: Path) -> Kept:
    written = read_object(file, way_out=_ANOTHER)
    try:
        return Kept(_arm(written["arm"]), _arm(written["baseline"]))
    except (KeyError, TypeError, AttributeError):
        raise DamagedFile(file, "holds no matching of an arm", _ANOTHER) from None


def _arm(written: Mapping[str, Any]) -> MatchedArm:
    timing = written["timing"]
    timed = None if timing is None else Timing(**{**timing, "turns": tuple(timing["turns"])})
    return MatchedArm(**{**written, "overrides": tuple(written["overrides"]), "timing": timed})
