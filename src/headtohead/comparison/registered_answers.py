"""Read the registered verdicts from a study's folder, and decide whether another question is the registered one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

from headtohead.comparison.conditions import ConditionMismatch
from headtohead.comparison.contrasts import ALPHA, ComparisonSpec, Verdict
from headtohead.comparison.planned_runs import study_folder
from headtohead.errors import UsageError
from headtohead.files.safe_read import read_object
from headtohead.records.record import COUNTED, VERDICT_FILE, RunRecord
from headtohead.records.strict_json import decode

_REGISTRATIONS = "registrations"
_Outcome = tuple[str, float | None]
"""Status and value of a run."""


@dataclass(frozen=True)
class RegisteredAnswer:
    """The verdicts of one study, as `h2h study` gave them."""

    study: str
    metric: str
    """The metric with its stage: test/loss."""
    direction: Literal["min", "max"]
    baseline: str
    margin: float | None
    solved_at: float | None
    alpha: float
    allow_unlike: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    remarks: tuple[str, ...]
    """The history of its registrations among them."""
    unlike: tuple[ConditionMismatch, ...]
    """Conditions other than what makes the arms in which their runs differ."""
    runs: Mapping[str, _Outcome]
    """Those that the verdicts rest on, by id."""

    def departures(self, records: Sequence[RunRecord], spec: ComparisonSpec, metric: str) -> Iterator[str]:
        """Yield in what a comparison of these runs by this metric is another question; nothing where it is this one."""
        if metric != self.metric:
            yield f"{metric}, not {self.metric}"
        if spec.against != self.baseline:
            yield f"against {spec.against}, not {self.baseline}"
        for name, own in (("direction", spec.direction), ("margin", spec.margin), ("solved_at", spec.solved_at)):
            if own is not None and own != getattr(self, name):
                yield f"{name.replace('_', ' ')} {own}, not {getattr(self, name)}"
        outcomes = {record.id: _outcome(record, self.metric) for record in records}
        ended = {name: outcome for name, outcome in self.runs.items() if outcome[0] in COUNTED}
        if outcomes.keys() - self.runs.keys():
            yield f"runs that no verdict of the study knows ({_few(outcomes.keys() - self.runs.keys())})"
        if ended.keys() - outcomes.keys():
            yield f"without some of the study's runs ({_few(ended.keys() - outcomes.keys())})"
        yield from self.behind(records)

    def behind(self, records: Iterable[RunRecord]) -> Iterator[str]:
        """Say which of these runs ended after the verdict was given; nothing where it rests on all of them."""
        outcomes = {record.id: _outcome(record, self.metric) for record in records}
        changed = [name for name in outcomes.keys() & self.runs.keys() if outcomes[name] != _seen(self.runs[name])]
        if changed:
            yield f"runs that ended after the verdict, which h2h study {self.study} updates ({_few(changed)})"


def answers_of(records: Iterable[RunRecord]) -> dict[Path, RegisteredAnswer | None]:
    """Return the answers in the folders of the studies that these runs belong to; None where a study was registered and
    has given no answer yet, or an older one that cannot be read."""
    folders = dict.fromkeys(folder for record in records if (folder := study_folder(record)) is not None)
    return {folder: _read(folder) for folder in folders if (folder / _REGISTRATIONS).is_dir()}


def registered_baseline(records: Iterable[RunRecord]) -> str | None:
    """Return the baseline of the one study that these runs belong to; None where there is none."""
    answers = list(answers_of(records).values())
    return answers[0].baseline if len(answers) == 1 and answers[0] is not None else None


def not_registered(
    answers: Mapping[Path, RegisteredAnswer | None], records: Sequence[RunRecord], spec: ComparisonSpec, metric: str
) -> str | None:
    """Return why a comparison is not what was registered; empty where it is, None where nothing was registered."""
    if not answers:
        return None
    if len(answers) > 1 or any(study_folder(record) not in answers for record in records):
        return f"not the registered question: runs of {' and '.join(folder.name for folder in answers)} with others"
    ((folder, answer),) = answers.items()
    if answer is None:
        return f"not the registered question: h2h study {folder.name} has given no verdict yet"
    why = "; ".join(answer.departures(records, spec, metric))
    return f"not the registered question of study {answer.study}: {why}" if why else ""


def _read(folder: Path) -> RegisteredAnswer | None:
    file = folder / VERDICT_FILE
    try:
        return _answer(read_object(file), str(file))
    except (OSError, UsageError, KeyError, TypeError, AttributeError, ValueError):
        return None


def _answer(data: Mapping[str, Any], where: str) -> RegisteredAnswer:
    study = data["study"]
    newer = {field.name: field.default for field in fields(Verdict) if field.default is not MISSING}
    names = [field.name for field in fields(Verdict)]
    verdicts = [{name: {**newer, **verdict}[name] for name in names} for verdict in data["verdicts"]]
    return RegisteredAnswer(
        study=study["name"],
        metric=study["metric"],
        direction=study["direction"],
        baseline=study["baseline"],
        margin=study["margin"],
        solved_at=study["solved_at"],
        alpha=study.get("alpha", ALPHA),
        allow_unlike=tuple(study["allow_unlike"]),
        verdicts=tuple(cast("Verdict", decode(Verdict, verdict, f"{where}: verdict")) for verdict in verdicts),
        remarks=(*data.get("history", {}).get("sentences", ()), *data["remarks"]),
        unlike=tuple(
            cast("ConditionMismatch", decode(ConditionMismatch, one, f"{where}: unlike_conditions"))
            for one in data.get("unlike_conditions", ())
        ),
        runs={
            run["id"]: (run["status"], run["value"])
            for run in data["runs"]
            if run["trial"] is None and run["share"] == 1 and not run["is_foundation"]
        },
    )


def _outcome(record: RunRecord, metric: str) -> _Outcome:
    stage, _, name = metric.partition("/")
    value = record.metrics.get(stage, {}).get(name) if record.status == "finished" else None
    return _seen((record.status, value))


def _seen(outcome: _Outcome) -> _Outcome:
    """Return the outcome as a verdict reads it: only a run that came to an end has one."""
    status, value = outcome
    if status not in COUNTED:
        return "", None
    return status, value if value is not None and math.isfinite(value) else None


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
