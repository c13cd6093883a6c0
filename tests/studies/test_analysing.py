"""Effects, laws and rankings of a whole study, from its records."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from headtohead.config.errors import ConfigurationError
from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import Progress, RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.ablation import AblationField
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.planning.registration import register
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.analyses_tables import show_aliases, show_analysed
from headtohead.studies.results.report_content import report_data, results_from_study
from headtohead.studies.results.study_report import StudyReport, report_of
from studies.small_studies import WRITTEN, small_study, write_run

SIZES = (8, 16, 32, 64, 128)
ABLATION = {
    "kind": "factorial",
    "factors": {
        "norm": {"layer": ["model/norm=layer_norm"], "rms": ["model/norm=rms_norm"]},
        "width": {f"w{size}": [f"model.d_model={size}"] for size in SIZES},
    },
}
SHARES = [0.25, 0.5, 1.0]


def loss_of(levels: Any, share: float) -> float:
    """Return a loss of N = width^2 parameters; rms is better by 0.1; on a quarter of the budget only w8 learns."""
    size = float(levels["width"][1:]) ** 2
    early = 2.0 * (levels["width"] != "w8" and share == 0.25)
    return 1.5 + 8.0 * size**-0.4 - 0.1 * (levels["norm"] == "rms") + early


def finished_study(folder: Path, **changes: Any) -> tuple[StudyPlan, StudyReport]:
    """Every run of it has a record, as if it had been trained."""
    rest = {key: value for key, value in WRITTEN.items() if key not in ("arms", "baseline")}
    written = {**rest, "ablation": ABLATION, "shares": SHARES, "scaling": {"families": "norm", "axes": ["parameters"]}}
    study = study_from("small", {**written, **changes})
    assert study.ablation is not None
    design, rng = study.ablation.design(), np.random.default_rng(0)
    runs = [
        RunSpec(arm, seed, (), {"trainer": {"max_steps": 4}, "seed": seed}, f"{arm}{seed}{share}", "small", None, share)
        for seed in study.seeds
        for share in study.shares
        for arm in study.arms
    ]
    plan = StudyPlan(study, tuple(runs), folder / "small", {spec.arm: spec.config for spec in runs})
    register(plan)
    for spec in runs:
        value = loss_of(design[spec.arm], spec.share) + 0.001 * float(rng.normal())
        size = int(design[spec.arm]["width"][1:]) ** 2
        position = StudyPosition("small", spec.arm, spec.seed, None, spec.share)
        record = write_run(plan.run_folder(spec), value=value, place=position, costs={"totals": {"parameters": size}})
        tokens = int(1e6 * spec.share)
        progress = Progress(step=4, tokens=tokens, flops=6.0 * size * tokens)
        RunFolder(plan.run_folder(spec)).write_record(replace(record, progress=progress))
    return plan, report_of(plan)


@pytest.mark.slow
def test_a_study_tells_its_effects_laws_and_ranking(tmp_path: Path) -> None:
    plan, report = finished_study(tmp_path)
    findings = results_from_study(plan, report)
    assert findings.effects is not None and findings.scaling is not None and findings.ranking is not None
    norm = findings.effects.effects[0]
    assert norm.name == "norm=rms" and norm.kind == "better" and norm.difference == pytest.approx(-0.1, abs=0.01)
    assert [family.name for family in findings.scaling.families] == ["layer", "rms"]
    for family, floor in zip(findings.scaling.families, (1.5, 1.4), strict=True):
        (fit,) = family.fits
        assert fit.floor is not None and fit.floor.value == pytest.approx(floor, abs=0.02)
        assert fit.exponent is not None and fit.exponent.low < 0.4 < fit.exponent.high
    assert findings.ranking.changes and findings.ranking.shares[0].standings[0].arm == "rms+w8"
    message = json.loads(json.dumps(report_data(report, findings), allow_nan=False))
    assert {"effects", "scaling", "ranking"} <= message.keys()


@pytest.mark.slow
def test_a_terminal_shows_effects_laws_and_who_leads_when(tmp_path: Path) -> None:
    plan, report = finished_study(tmp_path)
    console = Console(width=160, file=StringIO())
    for each in show_analysed(results_from_study(plan, report)):
        console.print(each)
    assert isinstance(console.file, StringIO)
    message = console.file.getvalue()
    assert "effects on test/loss" in message and "scaling laws" in message and "at 25% of the budget: rms+w8" in message


def test_the_plan_of_a_fraction_tells_its_aliases(tmp_path: Path) -> None:
    """The resolution is 3: each main effect hides behind one interaction."""
    factors = {name: {f"{name}0": [], f"{name}1": [f"model.{name}=1"]} for name in "abc"}
    plan, _ = finished_study(tmp_path, shares=[1.0], scaling=None)
    study = replace(
        plan.study, ablation=AblationField().read({"kind": "fractional", "factors": factors, "resolution": 3})
    )
    assert study.ablation is not None
    plan = replace(plan, study=replace(study, arms=study.ablation.arms()))
    message = [text.plain for text in show_aliases(plan)]
    assert (
        "estimable if b=b1 x c=c1 is zero: a=a1" in message
        and "not estimable: a=a1 x b=b1, aliased with c=c1" in message
    )


def test_effects_say_where_arms_press_against_the_best_there_is(tmp_path: Path) -> None:
    plan, report = finished_study(tmp_path, shares=[1.0], scaling=None)
    at_best = max(value for run in report.runs if (value := run.value) is not None)
    plan = replace(plan, study=replace(plan.study, best=at_best))
    records = {spec: replace(record, baselines={"loss": 99.0}) for spec, record in report.records.items() if record}
    findings = results_from_study(plan, replace(report, records=records))
    assert findings.effects is not None
    assert any("are close to the best value" in remark for remark in findings.effects.remarks)


@pytest.mark.slow
def test_the_command_of_a_run_names_the_folder_of_its_files_and_the_threads_it_had(tmp_path: Path) -> None:
    plan, report = finished_study(tmp_path)
    spec = plan.family[0]
    record = replace(report.records[spec] or RunRecord("r"), config={"trainer": {"threads": 2}})
    report = replace(report, records={**report.records, spec: record})
    first, *others = results_from_study(plan, report, config_dir="my conf").runs
    assert first.command == "h2h train trainer.threads=2 --config-dir 'my conf'"
    assert {run.command for run in others} == {"h2h train --config-dir 'my conf'"}


def test_a_study_that_asks_for_none_of_it_has_none(tmp_path: Path) -> None:
    plan, report = finished_study(tmp_path, shares=[1.0], scaling=None)
    findings = results_from_study(plan, report)
    assert findings.effects is not None and findings.scaling is None and findings.ranking is None


def test_families_may_be_written_out_too() -> None:
    study = small_study(scaling={"families": {"all": ["a", "b"]}})
    assert study.families == {"all": ("a", "b")}


@pytest.mark.parametrize(
    ("scaling", "sentence"),
    [
        ({"families": "norm"}, "scaling.families=norm is not a factor of the ablation"),
        ({"families": {"f": ["c"]}}, "scaling.families.f names c, which is not an arm"),
        ({"axes": ["parameters"]}, "scaling has no families"),
        ({"families": {"f": ["a"]}, "axes": ["time"]}, r"scaling.axes=\[time\] is refused"),
        ({"familie": "norm"}, r"familie is not a field of scaling: did you mean families\?"),
    ],
)
def test_laws_of_what_is_not_there_are_refused(scaling: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^study small: {sentence}"):
        small_study(scaling=scaling)
