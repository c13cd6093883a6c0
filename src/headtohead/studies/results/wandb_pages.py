"""A study's page and report in W&B: verdict.json as a table in Markdown, and who makes what of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from headtohead.comparison.arm_colours import light_colours
from headtohead.comparison.tables.run_table import chance_text, count, memory, number
from headtohead.comparison.verdicts.verdict_text import coverage
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.wandb_client.connection import TrackingSettings

_UNKNOWN = "-"
_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]<>|#"})


def wants_page(plan: StudyPlan) -> bool:
    """Return whether tracking.workspace=true."""
    return _settings(plan).workspace


def make_pages(plan: StudyPlan, data: Mapping[str, Any]) -> Iterator[str]:
    """Lines for the user: where the pages are, or, in one, what was not made and how to make it later."""
    from headtohead.wandb_client.addresses import WandbError
    from headtohead.wandb_client.workspace_pages import build_report, build_study_workspace

    study, settings = plan.study.name, _settings(plan)
    later = f"h2h study {study} tracking.workspace=true writes them later"
    if settings.mode == "none":
        yield "no page or report in W&B, since tracking=none sends nothing: use tracking=auto for further runs"
        return
    if settings.mode == "offline":
        yield f"no page or report in W&B, since tracking=offline sends nothing: h2h sync {plan.folder}, then {later}"
        return
    try:
        colours = light_colours(arm["arm"] for arm in data["arms"])
        yield f"W&B page: {build_study_workspace(study, arms_table(data), settings, colours)}"
        yield f"W&B report: {build_report(study, as_markdown(data), settings, colours)}"
    except WandbError as trouble:
        yield f"no page or report in W&B for now: {trouble}; {later}"


def as_markdown(data: Mapping[str, Any]) -> str:
    """Write verdict.json for a reader: the question, a line for each arm, every verdict in words."""
    study = data["study"]
    arrow = "larger is better" if study["direction"] == "max" else "smaller is better"
    parts = [
        f"**{_plain(study['question'])}**",
        f"Hypothesis: {_plain(study['hypothesis'])}",
        arms_table(data),
        f"{_plain(study['metric'])}: mean and {coverage(study['alpha'])} interval over seeds, {arrow}; differences are "
        f"to {_plain(study['baseline'])}." + ("" if data["complete"] else " Some runs are not done yet."),
        chance_text(data["chance"]) or "",
        _listed(verdict["sentence"] for verdict in data["verdicts"]),
        _listed(data["remarks"]),
    ]
    return "\n\n".join(part for part in parts if part)


def arms_table(verdict_data: Mapping[str, Any]) -> str:
    """Return a line of Markdown for each arm of verdict.json."""
    study = verdict_data["study"]
    heads = (study["metric"], "difference", "verdict", "seeds", "failures", "parameters", "FLOPs", "tokens/s", "memory")
    against = {v["arm"]: v for v in verdict_data["verdicts"] if v["baseline"] == study["baseline"]}
    return _table(
        ("arm", *heads), [_row(arm, against.get(arm["arm"]), study["baseline"]) for arm in verdict_data["arms"]]
    )


def _row(arm: Mapping[str, Any], verdict: Mapping[str, Any] | None, baseline: str) -> tuple[str, ...]:
    costs = arm["costs"]
    if verdict is None:
        answer = ("baseline" if arm["arm"] == baseline else _UNKNOWN, _UNKNOWN)
    else:
        answer = (_figure(verdict["difference"], verdict["interval"]), _kind(verdict))
    speeds = (costs["parameters"], costs["flops"], costs["tokens_per_second"])
    return (
        arm["arm"],
        _figure(arm["mean"], arm["interval"]),
        *answer,
        str(arm["finished"]),
        str(arm["failures"]),
        *map(count, speeds),
        memory(costs["peak_memory_bytes"]),
    )


def _kind(verdict: Mapping[str, object]) -> str:
    return f"{verdict['answer']}{' (exploratory)' if verdict['exploratory'] else ''}"


def _figure(value: float | None, bounds: Sequence[float] | None) -> str:
    spread = "" if bounds is None else f" [{number(bounds[0])}, {number(bounds[1])}]"
    return _UNKNOWN if value is None else f"{number(value)}{spread}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *([_plain(run) for run in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(sentence)}" for sentence in sentences)


def _plain(text: str) -> str:
    """A user's words as they are: Markdown reads nothing into them."""
    return " ".join(str(text).split()).translate(_SPECIAL)


def _settings(plan: StudyPlan) -> TrackingSettings:
    written: Mapping[str, Any] = plan.drafts[plan.study.baseline]["tracking"]
    known = {field.name for field in fields(TrackingSettings)}
    return TrackingSettings(**{name: value for name, value in written.items() if name in known})
