"""The record of one run: what it was, what it cost and how it ended. docs/record.md explains each field."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from headtohead.errors import UsageError
from headtohead.files.safe_read import DamagedFile, parse_json
from headtohead.metrics import Direction, Metric, metric_named
from headtohead.records.open_fields import check_open_fields
from headtohead.records.secrets import mask_secrets
from headtohead.records.strict_json import RecordError, decode, encode, shortened

SCHEMA_VERSION = 1
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""The migrations from a schema version to the next: raw JSON of version n in, raw JSON of version n + 1 out."""

FOUNDATION = "foundation"
"""The job of a run that others of its study start from."""

Status = Literal["running", "finished", "diverged", "out_of_memory", "out_of_disk", "interrupted", "failed"]
COUNTED: tuple[Status, ...] = ("finished", "diverged")
"""The statuses of an outcome that is the arm's own; other runs ended for other reasons, or have not ended."""
ENDED: tuple[Status, ...] = (*COUNTED, "out_of_memory", "failed")
"""The statuses with which nothing is left to do; everything else is half a run, and counts as none."""


@dataclass
class Seeds:
    """The three sources of randomness, apart."""

    initialisation: int = 0
    data_order: int = 0
    dropout: int = 0


@dataclass
class Progress:
    """Progress says how far a run has come; its fields are also the x-axes of every logged value."""

    step: int = 0
    """Optimizer steps."""
    epoch: int = 0
    tokens: int = 0
    flops: float = 0.0
    """Training FLOPs of the model, by the ledger."""
    seconds: float = 0.0
    """Wall-clock time of training, over all resumes, without pauses between them."""


@dataclass
class StudyPosition:
    """A study position says where in a study a run belongs; it is empty outside studies."""

    study: str | None = None
    arm: str | None = None
    seed: int | None = None
    """That of the study, by which arms are paired; the run's own may be offset."""
    trial: int | None = None
    """The trial of the tuning before the study's own runs."""
    share: float = 1.0
    """The share of the budget, for a run that is a point on its axis."""


@dataclass
class CheckpointSelection:
    """A checkpoint selection says how the reported checkpoint was chosen on validation data."""

    metric: str = "loss"
    direction: Direction = "min"
    step: int | None = None
    value: float | None = None


@dataclass
class RunTiming:
    """The times of a run, in ISO 8601 in UTC."""

    started: str | None = None
    finished: str | None = None
    starts: int = 1
    """1, and 1 more for every resume."""


@dataclass
class Environment:
    """An environment records what can change results; it has no host or user name."""

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
    """Comparability holds what two runs must share to be compared, as hashes or names; None where it does not apply."""

    data: str | None = None
    tokenizer: str | None = None
    evaluation: str | None = None
    texts: str | None = None
    """The evaluation data before any tokenizer read it."""
    loss_normalisation: str | None = None
    precision: str | None = None


VALIDATION_TEXTS = "validation_texts"
"""The fact of a record's data that is there only where validations sampled rows that the run's own tokenizer cut: it
stands for the texts that they read, in place of comparability.texts."""


@dataclass
class WandbLink:
    """A W&B link says where the run is in Weights & Biases."""

    id: str | None = None
    mode: Literal["online", "offline", "none"] = "none"
    url: str | None = None
    directory: str | None = None
    """W&B's files, relative to the run folder."""
    folder: str | None = None
    """The run folder that writes to this id."""
    lost: dict[str, int] = field(default_factory=dict)
    """The amount that W&B's files lacked when the run was over, by its kind: numbers, tables, pictures."""
    upload: str | None = None
    """The command that sends W&B what they lack."""


@dataclass(repr=False)
class RunRecord:
    """One run. Everything but `id` has a default, and is filled in as it becomes known."""

    id: str
    """The name of its folder, and its id on W&B."""
    name: str = ""
    """A readable name, composed from the run's choices unless one was set."""
    group: str = "default"
    """The folder below outputs/, and the group on W&B: a study, a sweep, an idea."""
    job_type: str = "train"
    """The job: train, foundation, or foreign for a run of another program."""
    tags: list[str] = field(default_factory=list)
    """The labels, which W&B shows too."""
    notes: str | None = None
    """The user's notes."""
    status: Status = "running"
    """The way in which it ended: running, finished, diverged, out_of_memory, out_of_disk, interrupted or failed."""
    reason: str | None = None
    """The reason why it did not finish."""
    seed: int = 0
    """The configured seed, from which the three of `seeds` follow."""
    seeds: Seeds = field(default_factory=Seeds)
    """The seeds of first weights, order of rows and dropout."""
    config: dict[str, Any] = field(default_factory=dict)
    """The whole resolved configuration, secrets masked."""
    content_hash: str | None = None
    """The hash of what decides the result: runs with the same one are repetitions of each other."""
    data: dict[str, Any] = field(default_factory=dict)
    """The source of its rows: set, subset, revision (as resolved), licence; empty for rows of the user's own."""
    costs: dict[str, Any] = field(default_factory=dict)
    """The ledger: totals, by kind, and rows by component."""
    budget: dict[str, Any] = field(default_factory=dict)
    """The cost that its study holds equal between arms; empty outside studies."""
    place: StudyPosition = field(default_factory=StudyPosition)
    """The study, arm and seed that it belongs to."""
    metrics: dict[str, dict[str, float]] = field(default_factory=lambda: {"validation": {}, "test": {}})
    """The results of the selected checkpoint by stage and name: validation, test, test_2x."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Stages of metrics that were requested and cannot be measured, each with the reason."""
    baselines: dict[str, float] = field(default_factory=dict)
    """The score of a guess that knows the train split's targets and no input, on the test split by name, on others with
    the stage in front: validation/loss."""
    scales: dict[str, Metric] = field(default_factory=dict)
    """The scale of each result, by name."""
    selection: CheckpointSelection = field(default_factory=CheckpointSelection)
    """The metric and step by which the checkpoint was selected."""
    throughput: dict[str, float | None] = field(default_factory=dict)
    """The speed, peak memory and energy of training."""
    timing: RunTiming = field(default_factory=RunTiming)
    """The times of its first start and of its end."""
    progress: Progress = field(default_factory=Progress)
    """The steps, tokens, FLOPs and seconds that it has come to."""
    environment: Environment = field(default_factory=Environment)
    """The versions, device and commits under which it ran."""
    comparability: Comparability = field(default_factory=Comparability)
    """The hashes and names that two runs must share to be compared."""
    wandb: WandbLink = field(default_factory=WandbLink)
    """The run's id and address in W&B."""
    links: dict[str, str] = field(default_factory=dict)
    """The files of the run by purpose, relative to its folder."""
    schema_version: int = SCHEMA_VERSION
    """The version of these fields."""
    path: Path | None = field(default=None, compare=False, metadata={"stored": False})
    """The run folder it was read from; not stored."""

    @property
    def arm(self) -> str:
        """Return the contestant whose run this is: an arm of its study, else what is called so under any seed."""
        return self.place.arm or self.name.removesuffix(f"-s{self.seed}") or self.id

    @property
    def one_line(self) -> str:
        """Return name, status and the result by which it was selected, for whoever prints it."""
        name, stage = self.selection.metric, "test" if self.metrics.get("test") else "validation"
        value = self.metrics.get(stage, {}).get(name)
        result = "" if value is None else f", {stage}/{name} {value:.4g}"
        return f"{self.name or self.id}: {self.status.replace('_', ' ')} at step {self.progress.step:,}{result}"

    def __fspath__(self) -> str:
        """Return the run's folder, so that the record stands wherever a run is taken by its path."""
        if self.path is None:
            raise UsageError(f"run {self.id} has no folder here: give a run that has one")
        return str(self.path)

    def __repr__(self) -> str:
        """All fields are thousands of letters, which `vars` still shows."""
        return f"<RunRecord {self.one_line}, {self.path}>"

    def metric(self, name: str) -> Metric | None:
        """Return what the result of this name is, as the run recorded it, else as the name tells."""
        return self.scales.get(name) or metric_named(name)

    def baseline(self, stage: str, name: str) -> float | None:
        """Return what knowing nothing of the inputs gets in that stage; in one that was not measured apart, what it
        gets on the test split."""
        return self.baselines.get(f"{stage}/{name}", self.baselines.get(name))


def to_json(record: RunRecord) -> str:
    """Return the text of record.json: valid JSON, secrets masked."""
    data = encode(record, "record")
    data["config"] = mask_secrets(data["config"])
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def from_json(text: str, *, where: str = "record") -> RunRecord:
    """Return the record in the text, of this schema version or an older one; `where` names its file in errors."""
    return record_of(fields_of(text, where), where)


def fields_of(text: str, where: str) -> dict[str, Any]:
    """Return the fields of a record as JSON has them, brought to this schema version."""
    try:
        data = parse_json(text, where)
    except DamagedFile as damage:
        raise RecordError(str(damage)) from None
    if not isinstance(data, dict):
        raise RecordError(f"{where} is {type(data).__name__}; expected an object")
    return _migrate(data, where)


def record_of(data: dict[str, Any], where: str) -> RunRecord:
    """Return the record that these fields are, each of the right type."""
    record: RunRecord = decode(RunRecord, data, where)
    for name in ("started", "finished"):
        _check_time(getattr(record.timing, name), f"{where}.timing.{name}")
    check_open_fields(data, where)
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
            raise RecordError(f"{where} is not a record of version {version}, whatever it says: {error!r}") from None
        version += 1
    return {**data, "schema_version": SCHEMA_VERSION}


VERDICT_FILE = "verdict.json"
