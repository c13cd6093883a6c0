"""Runs below folders that match a filter, in an order: what `h2h list runs`, `h2h.runs` and the dashboard ask. The
words that choose among runs, `d_model=64 status=running loss<2`, are the same in lists, Python and the page."""

from __future__ import annotations

import difflib
import heapq
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.metrics import own_metric
from headtohead.records.index.run_index import RunIndex
from headtohead.records.run_summary import UNREADABLE, RunSummary

STATUSES = (
    "running", "failed", "diverged", "out_of_memory", "out_of_disk", UNREADABLE, "interrupted", "finished",
)  # fmt: skip
"""The statuses, those that need a look first."""
_Key = Callable[[RunSummary], Any]


RESULT = "result"
"""The column of the metric by which a run was selected, with its value."""


def runs(
    paths: str | Path | Sequence[str | Path] = "outputs", *, where: str = "", sort: str = "newest", limit: int = 0
) -> list[RunSummary]:
    """Return the runs below folders that a filter lets through, in an order; `limit` keeps the first of them, 0 all."""
    folders = [paths] if isinstance(paths, str | Path) else list(paths)
    for path in map(Path, folders):
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder: give the folder of a run, or one above it such as outputs")
    chosen = ordered(filter(run_filter(where), _distinct(folders)), sort, limit)
    if sort not in _orders():
        check_fields(chosen, [sort.removeprefix("-")], "--sort", folders)
    return chosen


def check_fields(
    chosen: Sequence[RunSummary], names: Iterable[str], option: str, folders: Sequence[str | Path] = ()
) -> None:
    """Raise UsageError for the first name that is a field neither of these runs, nor of any below the folders that they
    were chosen from, nor of runs in general."""
    for name in names if chosen else ():
        if name in _ALWAYS or own_metric(name.rpartition("/")[2]):
            continue
        if any(_has(run, name) for run in chosen) or any(_has(run, name) for run in _distinct(folders)):
            continue
        known = list(dict.fromkeys(_names_of(chosen[0])))
        close = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
        listed = f"did you mean {' or '.join(close)}?" if close else f"choose among {', '.join(known[:_FEW])}, ..."
        raise UsageError(
            f"{option} {name} is not a field of these runs: {listed} (config.yaml of a run has its fields)"
        )


def check_columns(
    chosen: Sequence[RunSummary], names: Iterable[str], option: str, folders: Sequence[str | Path] = ()
) -> None:
    """Raise UsageError for the first name that is neither a field nor the result in short."""
    check_fields(chosen, [name for name in names if name != RESULT], option, folders)


def _has(run: RunSummary, name: str) -> bool:
    return _typed(run, name) is not _MISSING


def _names_of(run: RunSummary) -> Iterator[str]:
    """Yield the names that may be typed: fields of the run, results, and of the configuration the last parts too."""
    yield from (*_ALWAYS, *run.results, *(name.rpartition("/")[2] for name in run.results))
    for section in run.sections:
        yield from section.values
        yield from (name.rpartition(".")[2] for name in section.values)


def _distinct(paths: Iterable[str | Path]) -> Iterator[RunSummary]:
    """Yield the runs below several folders; one that two of them hold comes once."""
    seen: set[str] = set()
    with RunIndex() as index:
        for path in paths:
            for run in index.summaries(path):
                if run.path not in seen:
                    seen.add(run.path)
                    yield run


def ordered(chosen: Iterable[RunSummary], sort: str, limit: int = 0) -> list[RunSummary]:
    """Return the runs in an order, or the first of them: no more than these are held in memory."""
    key, is_reversed = order_of(sort)
    if not limit:
        return sorted(chosen, key=key, reverse=is_reversed)
    return (heapq.nlargest if is_reversed else heapq.nsmallest)(limit, chosen, key=key)


def order_of(sort: str) -> tuple[_Key, bool]:
    """Return the key by which runs are sorted, and whether from the largest down."""
    named = _orders()
    if sort in named:
        return named[sort]
    is_reversed, name = sort.startswith("-"), sort.removeprefix("-")
    return (lambda run: _key_of(named_value(run, name), is_reversed)), is_reversed


def _orders() -> Mapping[str, tuple[_Key, bool]]:
    return {
        "newest": (lambda run: run.started or "", True),
        "oldest": (lambda run: run.started or "", False),
        "name": (lambda run: (natural(run.name), run.seed), False),
        "result": (_worse, False),
        "status": (lambda run: STATUSES.index(run.status), False),
        "parameters": (lambda run: _or_infinite(run.costs.get("parameters")), False),
        "step": (lambda run: -run.progress.get("step", 0), False),
    }


def _key_of(value: Any, is_reversed: bool) -> tuple[Any, ...]:
    """Return a key that puts numbers before texts, and what a run does not say last, in whichever direction."""
    if value is None or value != value:
        return (-1 if is_reversed else 2, 0)
    if isinstance(value, int | float):
        return (0, value)
    return (1, natural(as_text(value)))


def _worse(run: RunSummary) -> float:
    """Return a number that is smaller for better results; without a result, infinity."""
    if run.value is None or not math.isfinite(run.value) or run.metric is None:
        return math.inf
    return run.value if run.direction == "min" else -run.value


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts run2 before run10, whatever their capitals."""
    parts = _DIGITS.split(text.lower())
    return [(1, int(part), "") if index % 2 else (0, 0, part) for index, part in enumerate(parts) if part]


Predicate = Callable[[RunSummary], bool]
OWN = dict.fromkeys((
    "arm", "name", "seed", "status", "group", "study", "trial", "share", "id", "job_type", "metric", "stage", "value",
    "baseline", "started", "notes", "reason", "path", "max_steps", "tags", "direction", "selected_by",
))  # fmt: skip
"""Fields of a run that are neither its configuration nor its results."""
_ALWAYS = (
    *OWN, "step", "epoch", "tokens", "flops", "seconds", "parameters", "flops_per_token", "tokens_per_second",
    "samples_per_second", "peak_memory_bytes", "joules", "joules_per_token",
)  # fmt: skip
"""The fields that a run may have, whatever it is."""
_FEW = 12
STAGES = ("test", "validation", "train")
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_TERM = re.compile(r"(-?)([^\s=<>!~]+)(!=|<=|>=|=|<|>|~)(.*)", re.DOTALL)
_MISSING = object()


def value_of(run: RunSummary, name: str) -> Any:
    """Return the value of an exact name: a field of the run, of its configuration, results, progress or costs; None
    where it has none."""
    value = _exact(run, name)
    return None if value is _MISSING else value


def named_value(run: RunSummary, name: str) -> Any:
    """Return the same of a name typed by hand, whose last part is enough: d_model for model.d_model, loss for
    test/loss."""
    value = _typed(run, name)
    return None if value is _MISSING else value


def column_value(run: RunSummary, name: str) -> Any:
    """Return what a column shows of a run: a field, or the result in short."""
    if name != RESULT:
        return named_value(run, name)
    if run.value is None:
        return None
    return f"{run.metric} {run.value:.4g}{'' if run.stage == 'test' else f' ({run.stage})'}"


def run_filter(text: str) -> Predicate:
    """Return whether a run matches every word: FIELD=VALUE with = != < <= > >= or ~ (contains), or a text that its
    name, arm, group, study, status, notes or tags contain; - in front turns a word round, * stands for anything."""
    tests = [_test(word.replace('"', "")) for word in _WORD.findall(text)]
    return lambda run: all(holds(run) for holds in tests)


def as_text(value: Any) -> str:
    """Return a value as one would type it: 64, true, null, [1,2]."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def cut_to_cell(text: str, *, most: int = 300) -> str:
    """Return a text as a table shows it: one that somebody made long hides no other line."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _exact(run: RunSummary, name: str) -> Any:
    if name in OWN:
        value = getattr(run, name)
        return _MISSING if value is None or value == [] else value
    if (value := run.setting(name, _MISSING)) is not _MISSING:
        return value
    for values in (run.results, run.progress, run.costs):
        if (value := values.get(name)) is not None:
            return value
    value = run.latest.get(name) if "/" in name else None  # last, since they may have to be read
    return _MISSING if value is None else value


def _typed(run: RunSummary, name: str) -> Any:
    if (value := _exact(run, name)) is not _MISSING:
        return value
    if (value := _by_stage(run.results, name)) is not None:
        return value
    for section in run.sections:
        if (key := section.ending(name)) is not None:
            return section.values[key]
    value = _by_stage(run.latest, name)
    return _MISSING if value is None else value


def _by_stage(values: Mapping[str, float | None], name: str) -> float | None:
    results = (values.get(f"{stage}/{name}") for stage in STAGES)
    return next((value for value in results if value is not None), None)


def _test(word: str) -> Predicate:
    if term := _TERM.fullmatch(word):
        minus, name, sign, expected = term.groups()
        compare = _comparison(sign, expected)
        return lambda run: compare(_typed(run, name)) != bool(minus)
    is_not = word.startswith("-") and len(word) > 1
    part = (word[1:] if is_not else word).lower()
    return lambda run: (part in _words_of(run)) != is_not


def _words_of(run: RunSummary) -> str:
    parts = (run.id, run.name, run.arm, run.group, run.study, run.status, run.notes, *run.tags)
    return "\n".join(str(part) for part in parts if part is not None).lower()


def _comparison(sign: str, expected: str) -> Callable[[Any], bool]:
    number = _number(expected)
    pattern = re.compile(".*".join(map(re.escape, expected.lower().split("*"))), re.DOTALL)

    def is_same(value: Any) -> bool:
        if isinstance(value, list) and any(map(is_same, value)):
            return True
        if number is not None and _is_number(value):
            return bool(value == number)
        return pattern.fullmatch(as_text(value).lower()) is not None

    def holds(value: Any) -> bool:
        if value is _MISSING:
            return sign == "!="
        if sign == "~":
            return expected.lower() in as_text(value).lower()
        if sign in ("=", "!="):
            return is_same(value) == (sign == "=")
        if number is None or not _is_number(value):
            return False
        above, below = value > number, value < number
        return bool({"<": below, "<=": below or value == number, ">": above, ">=": above or value == number}[sign])

    return holds


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
