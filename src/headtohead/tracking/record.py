"""The record of one run: what it was, what it cost and how it ended. docs/record.md explains each field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from headtohead.files.reading import DamagedFile, parse_json
from headtohead.metrics import Direction, Metric, metric_named
from headtohead.metrics.exact_match import OF_QUESTIONS
from headtohead.metrics.f1 import F1
from headtohead.tracking.moved import as_named_now
from headtohead.tracking.secrets import mask_secrets
from headtohead.tracking.strict_json import RecordError, decode, encode, shortened

SCHEMA_VERSION = 5
_OF_A_STUDY = re.compile(r"(?P<arm>.+)-s(?P<seed>\d+)")


def _with_place(data: dict[str, Any]) -> dict[str, Any]:
    """To version 2: version 1 told the place in a study by group and name alone."""
    found = _OF_A_STUDY.fullmatch(data["name"]) if data["budget"] else None
    place = {"study": data["group"], "arm": found["arm"], "seed": int(found["seed"])} if found else {}
    return {
        **data,
        "place": {"study": None, "arm": None, "seed": None, "trial": None, "share": 1.0, **place},
        "cannot": {},
    }


def _with_data(data: dict[str, Any]) -> dict[str, Any]:
    """To version 3: version 2 told nothing of where rows come from and how they are read."""
    return {"data": {}, **data, "comparability": {"texts": None, **data["comparability"]}}


def _with_scales(data: dict[str, Any]) -> dict[str, Any]:
    """To version 4: version 3 left it to names what a result is, and an exact match beside an F1 was one of texts."""
    questions = any({OF_QUESTIONS.name, F1.name} <= found.keys() for found in data["metrics"].values())
    return {**data, "scales": {OF_QUESTIONS.name: encode(OF_QUESTIONS, "record.scales")} if questions else {}}


def _with_content(data: dict[str, Any]) -> dict[str, Any]:
    """To version 5: version 4 had the content of some runs in their id, and that was the id on W&B too; it knew one
    commit."""
    code: dict[str, Any] = {"package_commit": None, "package_dirty": None, "modules": {}}
    return {
        **data,
        "content_hash": None,
        "wandb": {**data["wandb"], "folder": None},
        "environment": {**data["environment"], **code},
    }


MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _with_place, 2: _with_data, 3: _with_scales, 4: _with_content,
}  # fmt: skip
"""From a schema version to the next: raw JSON of version n in, raw JSON of version n + 1 out."""

FOUNDATION = "foundation"
"""The job of a run that others of its study start from."""

Status = Literal["running", "finished", "diverged", "out_of_memory", "out_of_disk", "interrupted", "failed"]


@dataclass
class Seeds:
    """The three sources of chance, apart."""

    initialisation: int = 0
    data_order: int = 0
    dropout: int = 0


@dataclass
class Progress:
    """How far a run has come; also the x-axes of every logged value."""

    step: int = 0
    """Optimizer steps."""
    epoch: int = 0
    tokens: int = 0
    flops: float = 0.0
    """Training FLOPs of the model, by the ledger."""
    seconds: float = 0.0
    """Wall-clock time of training, over all resumes, without pauses between them."""


@dataclass
class Place:
    """Where in a study a run belongs; outside studies nowhere."""

    study: str | None = None
    arm: str | None = None
    seed: int | None = None
    """That of the study, by which arms are paired; the run's own may be offset."""
    trial: int | None = None
    """Of the tuning before the study's own runs."""
    share: float = 1.0
    """Of the budget, for a run that is a point on its axis."""


@dataclass
class Selection:
    """How the reported checkpoint was chosen, on validation data."""

    metric: str = "loss"
    direction: Direction = "min"
    step: int | None = None
    value: float | None = None


@dataclass
class Timing:
    """When; the times are ISO 8601 in UTC."""

    started: str | None = None
    finished: str | None = None
    starts: int = 1
    """1, and 1 more for every resume."""


@dataclass
class Environment:
    """Where, as far as it can change results; no host or user name."""

    packages: dict[str, str] = field(default_factory=dict)
    python: str = ""
    platform: str = ""
    device: dict[str, Any] = field(default_factory=dict)
    git_commit: str | None = None
    git_dirty: bool | None = None
    package_commit: str | None = None
    package_dirty: bool | None = None
    modules: dict[str, Any] = field(default_factory=dict)
    """The user's own that the configuration names: a hash of each file, its commit, whether it differs from that."""


@dataclass
class Comparability:
    """What two runs must share to be compared; hashes or names, None where it does not apply."""

    data: str | None = None
    tokenizer: str | None = None
    evaluation: str | None = None
    texts: str | None = None
    """The evaluation data before any tokenizer read it."""
    loss_normalisation: str | None = None
    precision: str | None = None


VALIDATION_TEXTS = "validation_texts"
"""Among the facts of a record's data, only where validations sampled rows that the run's own tokenizer cut: what stands
for the texts that they read, in place of comparability.texts."""


@dataclass
class WandbLink:
    """Where the run is in Weights & Biases."""

    id: str | None = None
    mode: Literal["online", "offline", "none"] = "none"
    url: str | None = None
    directory: str | None = None
    """W&B's files, relative to the run folder."""
    folder: str | None = None
    """The run folder that writes to this id."""


@dataclass
class RunRecord:
    """One run. Everything but `id` has a default, and is filled in as it becomes known."""

    id: str
    name: str = ""
    group: str = "default"
    job_type: str = "train"
    tags: list[str] = field(default_factory=list)
    notes: str | None = None
    status: Status = "running"
    reason: str | None = None
    seed: int = 0
    seeds: Seeds = field(default_factory=Seeds)
    config: dict[str, Any] = field(default_factory=dict)
    content_hash: str | None = None
    """Of what decides the result: runs with the same one are repetitions of each other."""
    data: dict[str, Any] = field(default_factory=dict)
    """Where its rows were published: set, subset, revision (as resolved), licence; empty for rows of one's own."""
    costs: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] = field(default_factory=dict)
    place: Place = field(default_factory=Place)
    metrics: dict[str, dict[str, float]] = field(default_factory=lambda: {"validation": {}, "test": {}})
    cannot: dict[str, str] = field(default_factory=dict)
    """Stages of metrics that were asked for and cannot be measured, each with the reason."""
    baselines: dict[str, float] = field(default_factory=dict)
    """What a guess gets that knows the train split's targets and no input, on the test split by name, on others with
    the stage in front: validation/loss."""
    scales: dict[str, Metric] = field(default_factory=dict)
    """What each result is, by name."""
    selection: Selection = field(default_factory=Selection)
    throughput: dict[str, float | None] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    progress: Progress = field(default_factory=Progress)
    environment: Environment = field(default_factory=Environment)
    comparability: Comparability = field(default_factory=Comparability)
    wandb: WandbLink = field(default_factory=WandbLink)
    links: dict[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    path: Path | None = field(default=None, compare=False, metadata={"stored": False})
    """The run folder it was read from; not stored."""

    def metric(self, name: str) -> Metric | None:
        """Return what the result of this name is, as the run recorded it, else as the name tells."""
        return self.scales.get(name) or metric_named(name)

    def baseline(self, stage: str, name: str) -> float | None:
        """Return what knowing nothing of the inputs gets in that stage; in one that was not measured apart, what it
        gets on the test split."""
        return self.baselines.get(f"{stage}/{name}", self.baselines.get(name))


_SECTIONS = ("model", "data", "task", "trainer", "optimizer", "tracking")
"""Parts of a configuration that are objects of fields wherever they are."""


def to_json(record: RunRecord) -> str:
    """The text of record.json: valid JSON, secrets masked."""
    data = encode(record, "record")
    data["config"] = mask_secrets(data["config"])
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def from_json(text: str, *, where: str = "record") -> RunRecord:
    """The record in the text, of this schema version or an older one; `where` names its file in errors."""
    try:
        data = parse_json(text, where)
    except DamagedFile as damage:
        raise RecordError(str(damage)) from None
    if not isinstance(data, dict):
        raise RecordError(f"{where} is {type(data).__name__}; expected an object")
    record: RunRecord = decode(RunRecord, _migrate(data, where), where)
    for name in ("started", "finished"):
        _check_time(getattr(record.timing, name), f"{where}.timing.{name}")
    for name in _SECTIONS:
        if not isinstance(record.config.get(name, {}), dict):
            raise RecordError(f"{where}.config.{name} is {shortened(record.config[name])}; expected an object")
    record.config = as_named_now(record.config)
    return record


def _check_time(text: str | None, where: str) -> None:
    try:
        if text is not None:
            datetime.fromisoformat(text)
    except ValueError:
        raise RecordError(f"{where} is {shortened(text)}; expected a time such as 2026-01-31T12:00:00+00:00") from None


def _migrate(data: dict[str, Any], where: str) -> dict[str, Any]:
    version = data.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordError(
            f"{where}: schema_version is {shortened(version)}; expected a number from 1 to {SCHEMA_VERSION}"
        )
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{where}: schema_version is {version}, and this headtohead reads up to {SCHEMA_VERSION}: "
            "it was written by a newer headtohead, so upgrade"
        )
    while version < SCHEMA_VERSION:
        try:
            data = MIGRATIONS[version](data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RecordError(f"{where} is no record of version {version}, whatever it says: {error!r}") from None
        version += 1
    return {**data, "schema_version": SCHEMA_VERSION}
