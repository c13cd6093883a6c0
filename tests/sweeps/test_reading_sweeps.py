"""Sweep files: what is refused, in which words, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.sweeps.read_sweep_file import read_sweep, sweep_from
from headtohead.sweeps.sweep import from_first, to_last
from headtohead.sweeps.sweep_plan import sweep_proposals
from sweeps.small_sweeps import WRITTEN, small_sweep, written_sweep

SWEEPS = Path(__file__).parents[2] / "sweeps"


@pytest.mark.parametrize("file", sorted(SWEEPS.glob("*.yaml")), ids=lambda file: file.stem)
def test_sweep_files_that_ship_are_read_and_say_in_their_first_line_what_they_ask(file: Path) -> None:
    sweep = read_sweep(file)
    assert sweep.swept and sweep_proposals(sweep, [])
    assert file.read_text().startswith("# ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metod": "grid"}, "metod is not a key of a sweep file that can be run here: did you mean method?"),
        ({"method": "gird"}, "method=gird is refused: it must be grid or random or bayes"),
        ({"metric": {"nam": "validation/loss"}}, "metric.nam is not a key .* did you mean metric.name?"),
        ({"metric": {"name": "test/loss"}}, "never on test data: write validation/loss"),
        ({"method": "random"}, "run_cap is missing: random search has no end of its own"),
        ({"run_cap": 0}, "run_cap=0 is refused"),
        ({"command": ["h2h", "train", "${args}"]}, r"has \$\{args\}, which no run understands"),
        ({"command": ["python", "train.py", "${args_no_hyphens}"]}, "it must run h2h train"),
        ({"parameters": {}}, "parameters is empty"),
        ({"parameters": {"seed": {"value": 1}}}, "every parameter has one value"),
        ({"parameters": {"seed": 1}}, "seed=1 is refused: it must be a mapping, such as {value: 1}"),
        ({"parameters": {"seed": {"valeus": [1]}}}, "seed.valeus is not a key of a parameter: did you mean values?"),
        ({"parameters": {"schedule": {"values": ["linear", "wsd"]}, "choices.schedule": {"value": "noam"}}},
         "parameters.schedule is given twice"),
        ({"parameters": {"optimizer.lr": {"min": "1e-4", "max": 1.0}}, "method": "random", "run_cap": 2},
         "optimizer.lr has no values|YAML reads numbers like 1e-4 as text, write 0.0001"),
        ({"parameters": {"optimizer.lr": {"min": 2.0, "max": 1.0}}}, "goes from 2.0 to 1.0: min must be below max"),
        ({"parameters": {"optimizer.lr": {"min": 0.1, "max": 1.0}}}, "has no grid .* give values, or method: random"),
        ({"parameters": {"optimizer.lr": {"distribution": "log_unifrom", "min": 0.1, "max": 1.0}}},
         "distribution=log_unifrom is unknown: did you mean"),
        ({"parameters": {"optimizer.lr": {"distribution": "log_uniform_values", "min": 0.0, "max": 1.0}}},
         "takes numbers above 0"),
        ({"early_terminate": {"type": "hyperband"}}, "takes min_iter, or max_iter and s"),
        ({"early_terminate": {"type": "hyperband", "min_iter": 3, "eta": 1}}, "eta=1 is refused: it must be above 1"),
        ({"early_terminate": {"type": "hyperband", "max_iter": 2, "s": 2}}, "max_iter=2 has no brackets"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_a_sentence_that_names_the_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        small_sweep(**changes)


@pytest.mark.parametrize("key", ["method", "parameters", "command"])
def test_a_file_without_what_it_needs_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} is missing"):
        sweep_from("small", {name: value for name, value in WRITTEN.items() if name != key})


def test_refusals_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"small\.yaml: method=gird"):
        read_sweep(written_sweep(tmp_path, method="gird"))
    with pytest.raises(ConfigurationError, match="is not a file"):
        read_sweep(tmp_path / "missing.yaml")


def test_nested_parameters_are_paths_and_lists_are_one_value() -> None:
    nested = {"optimizer": {"parameters": {"betas": {"values": [[0.9, 0.95], [0.9, 0.999]]}, "lr": {"value": 1e-05}}}}
    sweep = small_sweep(parameters=nested)
    assert [setting.overrides for setting in sweep_proposals(sweep, [])] == [
        ("optimizer.betas=[0.9, 0.95]",),
        ("optimizer.betas=[0.9, 0.999]",),
    ]
    assert sweep.overrides() == ("optimizer.lr=1e-05",)


@pytest.mark.parametrize("null", [None, "null"])
def test_null_is_a_value_in_quotes_or_not_and_so_it_is_inside_lists(null: str | None) -> None:
    sweep = small_sweep(parameters={"notes": {"values": [null, [null, "a"]]}, "name": {"value": null}})
    assert [setting.overrides for setting in sweep_proposals(sweep, [])] == [("notes=null",), ("notes=[null, a]",)]
    assert sweep.overrides() == ("name=null",)


def test_a_group_may_be_written_as_what_the_configuration_calls_its_choice() -> None:
    nested = {"choices": {"parameters": {"model/norm": {"value": "rms_norm"}}}}
    sweep = small_sweep(parameters={"choices.schedule": {"values": ["linear", "wsd"]}, **nested})
    assert [setting.overrides for setting in sweep_proposals(sweep, [])] == [("schedule=linear",), ("schedule=wsd",)]
    assert sweep.overrides() == ("model/norm=rms_norm",)


def test_what_stands_in_the_command_and_beside_the_file_is_given_to_every_trial() -> None:
    sweep = small_sweep("seed=3", command=["${env}", "h2h", "train", "trainer=cpu", "${args_no_hyphens}"])
    assert sweep.overrides() == ("trainer=cpu", "seed=3")
    with pytest.raises(ConfigurationError, match=r"optimizer\.lr=1 is refused, since optimizer\.lr is swept"):
        small_sweep("optimizer.lr=1")


def test_a_command_may_name_a_folder_of_choices_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_DATA", "books.txt")
    words = ["${interpreter}", "-m", "headtohead", "train", "--config-dir=mine", "data.path=${envvar:MY_DATA}"]
    sweep = small_sweep(command=[*words, "${args_no_hyphens}"])
    assert (sweep.overrides(), sweep.config_dir) == (("data.path=books.txt",), "mine")
    with pytest.raises(ConfigurationError, match="command holds --retry, which does not belong to a trial"):
        small_sweep(command=["h2h", "train", "--retry", "${args_no_hyphens}"])


def test_brackets_are_those_that_wandb_documents() -> None:
    assert from_first(3, 3)[:4] == (3, 9, 27, 81)
    assert to_last(27, 3, 2) == (3, 9)


def test_bayesian_search_here_without_optuna_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headtohead.sweeps.read_sweep_file.find_spec", lambda _: None)
    file = written_sweep(tmp_path, method="bayes", run_cap=4)
    with pytest.raises(ConfigurationError, match=r"needs Optuna: pip install 'headtohead\[tuning\]'"):
        read_sweep(file)
    assert read_sweep(file, searched_here=False).method == "bayes"
