"""Whatever was recorded and differs between the arms of a contrast is named, unless it is what makes the arms."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.comparison.comparison import comparison_of
from headtohead.comparison.conditions import (
    CONDITIONS,
    COSMETIC,
    NAMES_AND_PATHS,
    sentences_on,
    unlike_conditions,
)
from headtohead.comparison.contrasts import ComparisonSpec
from headtohead.config.compose.choices import choice_names, groups
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.layer_patterns import PATTERNS, LayerPattern
from headtohead.config.errors import ConfigurationError
from headtohead.records.record import CheckpointSelection, Comparability, Environment, RunRecord, StudyPosition
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.read_study_file import read_study

OUTCOMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("id", "name", "group", "tags", "notes", "wandb", "links", "path", "schema_version", "content_hash"), "a name"
    ),
    **dict.fromkeys(("job_type", "place"), "it says which runs are compared"),
    **dict.fromkeys(("seed", "seeds"), "seeds pair the runs of arms"),
    **dict.fromkeys(("metrics", "cannot", "selection", "status", "reason"), "a result"),
    **dict.fromkeys(("costs", "progress", "throughput", "timing"), "a cost, which the line on costs compares"),
    "scales": "what its metrics are, of which chance follows from the data, whose conditions are compared",
    "baselines": "what a model gets that learned nothing of the data, whose conditions are compared",
}
"""The other fields, each with why it is not a condition."""

COMPOSED = compose_checked("train", ["experiment=parity"])


def record(arm: str, seed: int, **fields: Any) -> RunRecord:
    """Return a record such as a run of a small model on a GPU leaves."""
    config = copy.deepcopy(COMPOSED)
    device = {"type": "cuda", "name": "a GPU", "count": 1, "memory_gib": 80.0, "kernels": {"stack": "torch"}}
    return RunRecord(
        id=f"{arm}-{seed}",
        name=arm,
        seed=seed,
        status="finished",
        config={**config, "seed": seed, "name": arm},
        data={"train_rows": 1000, "tokenizer": "char", "max_length": 64, "cut_share": {"test": 0.0}},
        budget={"kind": "equal_tokens"},
        metrics={"validation": {"loss": 1.0}, "test": {"loss": 1.0 + seed + len(arm)}},
        comparability=Comparability("d", "t", "e", "x", "mean", "32-true"),
        environment=Environment({"torch": "2.9", "numpy": "2.0"}, "3.11", "Linux", device, "c0ffee", git_dirty=False),
        selection=CheckpointSelection("loss"),
        **fields,
    )


def runs(change: dict[str, Any] | None = None) -> dict[str, list[RunRecord]]:
    """Two arms whose records are alike, but for what is changed in the second."""
    result = {arm: [record(arm, seed) for seed in range(3)] for arm in ("a", "b")}
    for own in result["b"]:
        for path, value in (change or {}).items():
            put(own, path, value)
    return result


def put(record: RunRecord, path: str, value: Any) -> None:
    first, *rest = path.split(".")
    if not rest:
        setattr(record, first, value)
        return
    node: Any = getattr(record, first)
    for name in rest[:-1]:
        node = node[name] if isinstance(node, dict) else getattr(node, name)
    if isinstance(node, dict):
        node[rest[-1]] = value
    else:
        setattr(node, rest[-1], value)


def named(change: dict[str, Any], made_by: dict[str, list[str]] | None = None) -> list[str]:
    result = unlike_conditions(runs(change), [("b", "a")], made_by)
    return [condition.name for unlike in result for condition in unlike.conditions]


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}")
    else:
        yield path, value


EXAMPLE = record("a", 0)
HELD = {name: getattr(EXAMPLE, name) for name in CONDITIONS}
HELD |= {name: asdict(HELD[name]) for name in ("comparability", "environment")}
EVERY = [leaf for name, part in HELD.items() for leaf in leaves(part, name)]
UNSEEN = {f"config.{name}" for name in (*NAMES_AND_PATHS, "seed")} | {f"config.trainer.{name}" for name in COSMETIC}


def test_every_field_of_a_record_is_a_condition_or_listed_with_the_reason_why_not() -> None:
    assert {*CONDITIONS} | OUTCOMES.keys() == {field.name for field in fields(RunRecord)}
    assert not {*CONDITIONS} & OUTCOMES.keys() and all(OUTCOMES.values())


def test_alike_arms_have_nothing_to_be_named() -> None:
    assert named({}) == [] and len(EVERY) > 60


@pytest.mark.parametrize(("path", "value"), EVERY, ids=[path for path, _ in EVERY])
def test_each_recorded_condition_that_differs_is_named(path: str, value: Any) -> None:
    """Mutated one by one; what makes the arm is left out where somebody says that it does."""
    change = {path: not value if isinstance(value, bool) else "another"}
    shown = path.removeprefix("config.").removesuffix("._target_")
    hidden = any(path == name or path.startswith(f"{name}.") for name in UNSEEN)
    assert named(change) == ([] if hidden else [shown])
    if path.startswith("config.") and not hidden:
        assert named(change, {"a": [], "b": [f"{path.removeprefix('config.')}=another"]}) == []


@pytest.mark.parametrize("field", ["data", "tokenizer", "evaluation", "texts"])
def test_a_hash_is_named_by_what_it_stands_for(field: str) -> None:
    changed = runs({f"comparability.{field}": "0aff4502a5a72a70"})
    (sentence,) = sentences_on(unlike_conditions(changed, [("b", "a")]))
    assert "0aff4502" not in sentence and "comparability" not in sentence
    assert sentence.startswith("b and a differ in these conditions: the ")


def test_a_commit_is_named_by_its_first_letters() -> None:
    changed = runs({"environment.package_commit": "4c3e8cfe35cbd78368832c5d4db784a8475d14d7"})
    (sentence,) = sentences_on(unlike_conditions(changed, [("b", "a")]))
    assert "4c3e8cfe35cb against" in sentence and "4c3e8cfe35cbd" not in sentence


def test_what_an_override_brings_about_is_part_of_the_arm() -> None:
    change = {"config.precision.name": "bf16-mixed", "comparability.precision": "bf16-mixed"}
    assert named(change, {"a": [], "b": ["precision=bf16-mixed"]}) == []
    assert named(change, {"a": [], "b": ["model/norm=rms_norm"]}) == ["precision.name", "comparability.precision"]
    assert named(change, {"a": [], "b": ["+experiment=other"]}) == ["comparability.precision"]


def composed_difference(base: Sequence[str], arm: Sequence[str], baseline: Sequence[str] = ()) -> list[str]:
    """Return what is named beside the overrides that make two arms, whose configurations are composed."""
    overrides = {"b": arm, "a": baseline}
    composed = {name: compose_checked("train", [*base, *own]) for name, own in overrides.items()}
    both = {name: [replace(record(name, 0), config=dict(config))] for name, config in composed.items()}
    return sentences_on(unlike_conditions(both, [("b", "a")], overrides))


def contrasts_of_unlike_keys(name: str) -> Iterator[tuple[str, str]]:
    """Yield those contrasts of a shipped study whose arms set other fields than those of a contrast before."""
    study, seen = read_study(name), set()
    for pair in study.contrasts:
        keys = tuple(frozenset(override.partition("=")[0] for override in study.arms[arm]) for arm in pair)
        starts = [override for arm in pair for override in study.arms[arm] if override.startswith("init_from=")]
        if keys not in seen and not starts:
            seen.add(keys)
            yield pair


@pytest.mark.parametrize(
    ("name", "pair"), [(name, pair) for name in choice_names("study") for pair in contrasts_of_unlike_keys(name)]
)
def test_arms_of_shipped_studies_differ_in_what_makes_them_alone(name: str, pair: tuple[str, str]) -> None:
    study = read_study(name)
    assert composed_difference(study.base, *(study.arms[arm] for arm in pair)) == []


SETS_OTHER_FIELDS = (
    *([f"model/size={name}"] for name in choice_names("model/size")),
    ["model.pattern=[mamba2,softmax_attention]"],
    ["+model/mixer@model.mixers.own=mamba2", "model.pattern=[own]"],
    ["+model/feedforward@model.early_feedforward=swiglu", "model.num_early_layers=1"],
    ["model.feedforward_pattern=[swiglu,moe]"],
    ["trainer.max_epochs=2"],
    ["trainer.batch_tokens=4096"],
)


@pytest.mark.slow
@pytest.mark.parametrize("arm", SETS_OTHER_FIELDS, ids="".join)
def test_fields_that_an_override_sets_beside_its_own_are_part_of_the_arm(arm: list[str]) -> None:
    base = ["task=causal_lm", "data=grammar_lm", "data.num_train=300", "model=decoder_only", "model/position=learned"]
    assert composed_difference(base, arm) == []


@pytest.mark.parametrize("side", ["", "encoder.", "decoder."])
@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.field)
def test_what_a_pattern_names_is_part_of_the_arm_on_either_side(pattern: LayerPattern, side: str) -> None:
    base = ["task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder", "model.num_layers=2"]
    names = [name for name in choice_names(f"model/{pattern.slot}") if name in ("linear_attention", "relu", "swiglu")]
    assert (
        composed_difference([*base, "model/position=none"], [f"model.{side}{pattern.field}=[{','.join(names)}]"]) == []
    )


@pytest.mark.slow
def test_every_choice_sets_its_own_fields_or_what_follows_is_known() -> None:
    named, num_composed = {}, 0
    for group in groups():
        for choice in choice_names(group) if group not in ("launcher", "experiment") else ():
            with suppress(ConfigurationError):  # it does not go with this experiment
                named[f"{group}={choice}"] = composed_difference(["experiment=copy"], [f"{group}={choice}"])
                num_composed += 1
    assert num_composed > 150 and {choice: sentences for choice, sentences in named.items() if sentences} == {}


def test_another_class_is_named_and_not_what_it_was_built_with() -> None:
    change = {"config.optimizer._target_": "here.Sgd", "config.optimizer.lr": 1.0}
    assert named(change) == ["optimizer"]


def test_kernels_are_compared_where_the_model_is_the_same() -> None:
    changed = runs()
    for own in changed["b"]:
        own.environment.device["kernels"] = {"stack": "fla"}
    (unlike,) = unlike_conditions(changed, [("b", "a")])
    assert [one.name for one in unlike.conditions] == ["environment.device.kernels.stack"]


def test_a_single_run_of_an_arm_under_other_conditions_is_named_with_both_values() -> None:
    changed = runs()
    changed["b"][1].config["data"]["batch_size"] = 7
    (sentence,) = sentences_on(unlike_conditions(changed, [("b", "a")]))
    batch = EXAMPLE.config["data"]["batch_size"]
    assert sentence == f"b and a differ in these conditions: data.batch_size ({batch} or 7 against {batch})"


def test_what_changes_with_the_seed_in_both_arms_is_no_difference() -> None:
    changed = runs()
    for own in (*changed["a"], *changed["b"]):
        own.config["data"]["seed"] = own.seed
    assert unlike_conditions(changed, [("b", "a")]) == []


def test_records_of_other_programs_have_no_conditions_to_compare() -> None:
    external = [RunRecord(id=f"b{seed}", name="b", seed=seed, status="finished") for seed in range(3)]
    assert unlike_conditions({**runs(), "b": external}, [("b", "a")]) == []


def test_a_comparison_of_found_runs_names_precision_rows_and_batch_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {
        "comparability.precision": "bf16-mixed", "config.trainer.train_rows": 100, "config.data.batch_size": 8,
    }  # fmt: skip
    for own in [own for arm in runs(change).values() for own in arm]:
        RunFolder.create_at(tmp_path / own.id).write_record(own)
    assert main(["compare", str(tmp_path), "--against", "a"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    rows, batch = EXAMPLE.config["trainer"]["train_rows"], EXAMPLE.config["data"]["batch_size"]
    assert f"data.batch_size (8 against {batch})" in shown and f"trainer.train_rows (100 against {rows})" in shown
    assert "comparability.precision (bf16-mixed against 32-true)" in shown
    assert main(["compare", str(tmp_path), "--against", "a", "--json"]) == 0
    (unlike,) = json.loads(capsys.readouterr().out)["unlike_conditions"]
    assert len(unlike["conditions"]) == 3 and not unlike["arm_is_known"]


def test_the_registration_beside_the_runs_says_what_makes_their_arms(tmp_path: Path) -> None:
    result = [own for arm in runs({"config.optimizer.lr": 0.5, "config.data.batch_size": 8}).values() for own in arm]
    for own in result:
        own.path, own.place = tmp_path / "runs" / own.id, StudyPosition("s", own.name, own.seed)
    (tmp_path / "registrations").mkdir()
    arms = {"a": [], "b": ["optimizer.lr=0.5"]}
    (tmp_path / "registrations" / "x.json").write_text(json.dumps({"study": {"arms": arms}}))
    (unlike,) = comparison_of(result, ComparisonSpec("a")).unlike
    assert [one.name for one in unlike.conditions] == ["data.batch_size"] and unlike.arm_is_known


def test_experts_balanced_over_parts_of_a_batch_are_told_from_others() -> None:
    changed = {"config.model.feedforward.balance": "micro_batch", "config.trainer.accumulate": 4}
    assert named(changed) == ["model.feedforward.balance", "trainer.accumulate"]


def test_a_module_of_the_users_is_a_condition_where_both_arms_name_it() -> None:
    both = runs()
    for arm, digest in (("a", "4e3a"), ("b", "91c0")):
        for own in both[arm]:
            put(own, "environment.modules", {"mine": {"sha256": digest, "commit": None}})
    (unlike,) = unlike_conditions(both, [("b", "a")], {"a": [], "b": ["model/mixer=mine"]})
    assert [condition.name for condition in unlike.conditions] == ["environment.modules.mine.sha256"]
    alone = {"environment.modules": {"mine": {"sha256": "91c0", "commit": None}}}
    assert named(alone, {"a": [], "b": ["model/mixer=mine"]}) == []


def test_a_module_that_was_edited_between_the_runs_of_its_arm_is_a_condition() -> None:
    edited = runs()
    for digest, own in zip(("4e3a", "91c0", "91c0"), edited["b"], strict=False):
        put(own, "environment.modules", {"mine": {"sha256": digest, "commit": None}})
    (unlike,) = unlike_conditions(edited, [("b", "a")], {"a": [], "b": ["model/mixer=mine"]})
    assert [condition.name for condition in unlike.conditions] == ["environment.modules.mine.sha256"]
