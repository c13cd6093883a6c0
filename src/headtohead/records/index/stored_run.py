"""A record as the index stores it: what is the run's own, and hashes of the sections that runs share.

Ten thousand runs of a study share most of their configuration, costs and environment: each distinct section is stored
once, and the records and summaries that are read back share one object of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from headtohead.files.safe_read import read_text
from headtohead.records.index.index_file import StoredRow
from headtohead.records.record import (
    CheckpointSelection,
    Progress,
    RunRecord,
    RunTiming,
    Seeds,
    StudyPosition,
    WandbLink,
    fields_of,
    record_of,
)
from headtohead.records.run_folder import RECORD
from headtohead.records.run_summary import APART, ConfigSection, RunSummary, bare_summary, flattened_config, unreadable
from headtohead.records.strict_json import decode, encode

SHARED = ("data", "costs", "budget", "cannot", "baselines", "scales", "environment", "comparability")
"""Fields of a record that many runs have in common; the sections of its configuration are shared one by one."""
_OWN = {
    "seeds": Seeds,
    "place": StudyPosition,
    "selection": CheckpointSelection,
    "timing": RunTiming,
    "progress": Progress,
    "wandb": WandbLink,
}
_HEAD = (*(field.name for field in fields(RunSummary) if field.name not in ("path", "latest", *APART)), "sections")
"""The values of a summary that lists and filters need of every run, and the hashes of the sections it shares."""
_BYTES = 16


@dataclass(frozen=True)
class StoredRun:
    """One record as text; the hashes in it are those of `sections`."""

    status: str
    """The status as written in the record; `unreadable` for a record that cannot be read, which is then a sentence."""
    summary: str
    apart: str
    """The parts of the summary that are decoded when somebody asks for them."""
    record: str
    sections: Mapping[str, str]
    """The contents of shared sections, by their hashes."""


def read_stored(path: str, known: SectionCache) -> StoredRun:
    """Read a record, and return what the index stores of it; UsageError or OSError where it cannot be read.

    Fields that many runs share are checked and decoded once for all runs in which they are the same.
    """
    file = Path(path) / RECORD
    data = fields_of(read_text(file), str(file))
    texts: dict[str, str] = {}

    def shared(content: Any) -> str:
        text = json.dumps(content)
        key = hash_of(text)
        texts[key] = text
        return key

    keys = {name: shared(data[name]) for name in SHARED if name in data}
    seen = {name: known.typed(name, key) for name, key in keys.items() if known.has_typed(name, key)}
    record = record_of({**data, **{name: _blank()[name] for name in seen}}, str(file))
    for name in SHARED:
        if name in seen:
            setattr(record, name, seen[name])
        else:
            known.note_typed(name, keys[name], getattr(record, name))
    plain = {name: part for name, part in record.config.items() if not _is_section(part)}
    sections = [shared({name: part}) for name, part in record.config.items() if _is_section(part)]
    whole: dict[str, Any] = {"config": list(record.config), **keys}
    for name in (field.name for field in fields(RunRecord) if field.name not in ("config", "path", *SHARED)):
        whole[name] = _plain(getattr(record, name))
    head, apart = _stored(bare_summary(record, path), sections, plain)
    return StoredRun(record.status, head, apart, json.dumps(whole), texts)


def store_problem(path: str, problem: str) -> StoredRun:
    """Return what the index stores of a record that cannot be read."""
    summary = unreadable(path, problem)
    return StoredRun(summary.status, *_stored(summary, (), {}), json.dumps(problem), {})


def hash_of(text: str) -> str:
    """Return the hash by which a section is found."""
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).hexdigest()


class ParsedRun:
    """A run that the index stored, read back but for the sections that it shares."""

    __slots__ = ("apart", "head", "record", "status")

    def __init__(self, row: StoredRow, head: list[Any], record: Any) -> None:
        self.status, self.apart, self.head, self.record = row.status, row.apart, head, record

    @property
    def sections(self) -> str:
        """Return the hashes of the sections of the configuration, in one text that many runs have in common."""
        return str(self.head[-1])

    @property
    def shared(self) -> list[str]:
        """Return the hashes of the other sections that the record needs, none where it was not requested."""
        return [self.record[name] for name in SHARED] if isinstance(self.record, dict) else []


def hashes_of(runs: Iterable[ParsedRun]) -> set[str]:
    """Return the hashes of the sections that these runs need."""
    texts = {run.sections for run in runs}
    return set().union(*(text.split() for text in texts), *(run.shared for run in runs))


def parse_runs(rows: Sequence[StoredRow]) -> list[ParsedRun]:
    """Return rows as they are read back; many texts are decoded in one piece in two thirds of the time."""
    heads = json.loads(f"[{','.join([row.summary for row in rows])}]")
    records = json.loads(f"[{','.join([row.record or 'null' for row in rows])}]")
    return list(map(ParsedRun, rows, heads, records))


class SectionCache:
    """The sections that were read so far, each decoded once: whoever reads them never writes to them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._flat: dict[str, ConfigSection] = {}
        self._lists: dict[str, list[ConfigSection]] = {}
        self._raw: dict[str, tuple[str, Any]] = {}
        self._typed: dict[tuple[str, str], Any] = {}

    def lacking(self, hashes: Iterable[str]) -> set[str]:
        """Return which of these sections are not known yet."""
        return set(hashes).difference(self._texts)

    def add(self, texts: Mapping[str, str]) -> None:
        """Take sections in."""
        self._texts.update(texts)

    def limit(self, most: int = 50_000) -> None:
        """Forget the sections where very many distinct ones have come together; call it between two pages of runs."""
        if len(self._texts) > most:
            for known in (self._texts, self._flat, self._lists, self._raw, self._typed):
                known.clear()

    def flat(self, hashes: str) -> list[ConfigSection]:
        """Return the sections of a configuration by dotted names; runs with the same sections share the list."""
        if hashes not in self._lists:
            known = self._flat
            for key in hashes.split():
                if key not in known:
                    known[key] = ConfigSection(dict(flattened_config(json.loads(self._texts[key]))))
            self._lists[hashes] = [known[key] for key in hashes.split()]
        return self._lists[hashes]

    def raw(self, key: str) -> tuple[str, Any]:
        """Return the name of a section and the section as the configuration has it."""
        if key not in self._raw:
            self._raw[key] = next(iter(json.loads(self._texts[key]).items()))
        return self._raw[key]

    def has_typed(self, field: str, key: str) -> bool:
        """Return whether the value of that field was decoded already."""
        return (field, key) in self._typed

    def note_typed(self, field: str, key: str, value: Any) -> None:
        """Take in a value that was decoded elsewhere."""
        self._typed[field, key] = value

    def typed(self, field: str, key: str) -> Any:
        """Return the value of that field of a record."""
        if (field, key) not in self._typed:
            self._typed[field, key] = decode(_hints()[field], json.loads(self._texts[key]), field)
        return self._typed[field, key]


def restore_summary(path: str, stored: ParsedRun, sections: SectionCache) -> RunSummary:
    """Return the summary that was stored."""
    values = dict(zip(_HEAD, stored.head, strict=True))
    shared = sections.flat(values.pop("sections"))
    return RunSummary.stored({"path": path, **values}, stored.apart, shared)


def restore_record(path: str, stored: ParsedRun, sections: SectionCache) -> RunRecord:
    """Return the record that was stored; it shares its sections with others, so that it is read and never written."""
    values = dict(stored.record)
    for name in SHARED:
        values[name] = sections.typed(name, values[name])
    for name, kind in _OWN.items():
        values[name] = kind(**values[name])
    parts = {**json.loads(stored.apart)[-1], **dict(map(sections.raw, stored.sections.split()))}
    values["config"] = {name: parts[name] for name in values["config"]}
    return RunRecord(**values, path=Path(path))


def _is_section(part: Any) -> bool:
    return isinstance(part, Mapping) and bool(part)


def _stored(summary: RunSummary, sections: Iterable[str], plain: Mapping[str, object]) -> tuple[str, str]:
    """Return the head of a summary as text, and what is stored apart, `plain` the configuration outside sections."""
    head = [getattr(summary, name) for name in _HEAD[:-1]]
    apart = [getattr(summary, name) for name in APART[:-1]]
    return json.dumps([*head, " ".join(sections)]), json.dumps([*apart, plain])


def _plain(value: Any) -> Any:
    return dict(vars(value)) if is_dataclass(value) else value


@cache
def _blank() -> dict[str, Any]:
    """Return shared fields that say nothing, in place of those that need no second look."""
    blank: dict[str, Any] = encode(RunRecord(id=""), "record")
    return blank


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(RunRecord)
