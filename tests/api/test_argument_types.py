"""An argument that is not of its type is refused where it is given, by every public function and in its own words."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from functools import reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from beartype import BeartypeConf
from beartype.door import is_bearable
from beartype.vale import Is

import headtohead as h2h
from headtohead import api
from headtohead.api.argument_types import argument_types, checked_arguments, described, fits, listed_texts, own_values
from headtohead.api.configurations import configuration
from headtohead.api.result import upgraded
from headtohead.api.study_definition import arm_overrides
from headtohead.api.training import TrainedRun
from headtohead.config.compose.overrides import field_overrides
from headtohead.errors import UsageError
from headtohead.records.record import RunRecord
from headtohead.records.run_summary import RunSummary

FUNCTIONS = sorted(set(api.PUBLIC) - {"Study"})
ODD: tuple[Any, ...] = (
    None, 3, 3.5, True, "model=cnn", "outputs", b"text", Path("outputs"), ["seed=1"], ("seed=1",), [1, 2], [["a"]], [],
    {"model": "cnn"}, {"a": ["seed=1"]}, {}, dict, print, object(), 2 + 1j,
)  # fmt: skip
TOWER = BeartypeConf(is_pep484_tower=True)


def arguments() -> Iterator[tuple[str, str]]:
    for function in FUNCTIONS:
        for name in argument_types(inspect.unwrap(getattr(h2h, function))):
            yield function, name


def strict(hint: Any) -> Any:
    """Return a type for another reader of annotations, to whom a text is a sequence of texts; a choice that does not
    exist is refused by what lists them, so that any text is of its type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return str
    if origin is Sequence:
        return Annotated[Sequence[strict(inner[0])], Is[lambda value: not isinstance(value, str | bytes)]]  # type: ignore[misc]
    if origin is Mapping:
        return Mapping[inner[0], strict(inner[1])]  # type: ignore[misc, valid-type]
    return reduce(or_, map(strict, inner)) if origin in (Union, UnionType) else hint


@pytest.mark.parametrize(("function", "name"), list(arguments()))
def test_a_value_is_taken_where_it_is_of_the_annotated_type_and_nowhere_else(function: str, name: str) -> None:
    hint = argument_types(inspect.unwrap(getattr(h2h, function)))[name]
    theirs = strict(hint)
    wrong = [value for value in ODD if fits(value, hint) is not is_bearable(value, theirs, conf=TOWER)]
    assert not wrong, f"{function}({name}: {hint})"
    assert any(not fits(value, hint) for value in ODD)


@pytest.mark.parametrize(("function", "name"), list(arguments()))
def test_a_run_is_taken_wherever_its_folder_is(function: str, name: str) -> None:
    """`h2h.evaluate(h2h.train(...))`, and each of `h2h.runs()`, alone or in a list."""
    hint = argument_types(inspect.unwrap(getattr(h2h, function)))[name]
    folder = Path("outputs", "mine").resolve()
    for run in (upgraded(TrainedRun, RunRecord(id="mine", path=folder)), RunSummary(str(folder), "mine")):
        for value, plain in ((run, folder), ([run], [folder])):
            if hint is not object and fits(plain, hint):
                assert own_values(value, hint) == plain and fits(own_values(value, hint), hint)


def test_a_run_among_fields_is_its_folder() -> None:
    run = upgraded(TrainedRun, RunRecord(id="mine", path=Path("out puts", "mine").resolve()))
    taken = checked_arguments(inspect.unwrap(h2h.train), ({"init_from": run},), {})[0][0]
    assert field_overrides(taken) == [f"init_from='{run.path}'"]  # type: ignore[arg-type]


def test_a_run_without_a_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="run mine has no folder here"):
        h2h.evaluate(upgraded(TrainedRun, RunRecord(id="mine")))


def test_a_long_object_is_refused_in_one_line() -> None:
    shown = type("Shown", (), {"__repr__": lambda _: "first\nsecond"})()
    with pytest.raises(ValueError, match=r"takes a mapping.*, and not first \.\.\.$"):
        h2h.match(shown)


CHOICES = [
    (function, name) for function, name in arguments()
    if listed_texts(argument_types(inspect.unwrap(getattr(h2h, function)))[name])
]  # fmt: skip


@pytest.mark.parametrize(("function", "name"), CHOICES)
def test_a_text_that_is_none_of_the_choices_is_refused_with_them(function: str, name: str) -> None:
    """A misspelt rule would be read as the default one."""
    called = getattr(h2h, function)
    types = argument_types(inspect.unwrap(called))
    required = [one.name for one in inspect.signature(called).parameters.values() if one.default is one.empty]
    values: dict[str, object] = {one: "x" if fits("x", types[one]) else [] for one in required}
    for choice in listed_texts(types[name]):
        with pytest.raises(UsageError, match=f"^{name}='{choice}e' is unknown: .*{choice}"):
            called(**{**values, name: f"{choice}e"})


def test_many_arguments_have_choices() -> None:
    assert ("coordinates", "heads") in CHOICES and len(CHOICES) > 8


@pytest.mark.parametrize("function", sorted({function for function, _ in arguments()}))
def test_the_first_argument_is_refused_by_its_name_and_with_what_it_takes(function: str) -> None:
    called = getattr(h2h, function)
    types = argument_types(inspect.unwrap(called))
    first, hint = next(iter(types.items()))
    others = {
        name: "h100x1" if types[name] is str else []
        for name, one in inspect.signature(called).parameters.items()
        if one.default is one.empty and name != first
    }
    for value in (3, object()):
        with pytest.raises(UsageError) as refusal:
            called(**{first: value}, **others)
        message = str(refusal.value)
        assert message.startswith(f"{inspect.unwrap(called).__name__}({first}=...) takes {described(hint)}, and not ")


def test_a_text_in_the_place_of_a_list_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match=r"config=\.\.\.\) takes a mapping or a list of texts.*write \['model=cnn'\]"):
        h2h.train("model=cnn")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"root=\.\.\.\) takes a text"):
        h2h.compose(["model=cnn"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"arms=\.\.\.\) takes a mapping or a text"):
        h2h.match({"a": "model=cnn"})  # type: ignore[dict-item]


def test_what_can_be_gone_through_is_a_sequence() -> None:
    """A column of a frame, an array and a generator are lists of texts to whoever hands them over."""
    import numpy
    import pandas

    for texts in (pandas.Series(["a", "b"]), numpy.array(["a", "b"]), iter(["a", "b"]), {"a": 1, "b": 2}.keys()):
        assert checked_arguments(inspect.unwrap(h2h.embed), ["run", texts], {}) == (("run", ["a", "b"]), {})
    for wrong in (pandas.Series([1, 2]), numpy.array([1]), iter([1])):
        with pytest.raises(UsageError, match=r"texts=\.\.\.\) takes a list of texts"):
            checked_arguments(inspect.unwrap(h2h.embed), ["run", wrong], {})


def test_numbers_of_other_libraries_are_numbers_of_python() -> None:
    """Records are JSON, which has no number of NumPy."""
    import numpy

    function = inspect.unwrap(h2h.evaluate)
    lengths = (numpy.array([16, 32]), [numpy.int64(16), numpy.int32(32)], (one for one in numpy.array([16, 32])))
    for two in lengths:
        _, named = checked_arguments(function, ["run"], {"lengths": two, "by_position": numpy.bool_(True)})
        assert json.loads(json.dumps(named)) == {"lengths": [16, 32], "by_position": True}
    _, named = checked_arguments(inspect.unwrap(h2h.generate), ["run", "a"], {"top_p": numpy.float32(0.1)})
    assert named == {"top_p": 0.1}


def test_a_configuration_may_be_a_container_of_omegaconf() -> None:
    from omegaconf import OmegaConf

    whole = h2h.compose("train", ["tags=[a,b]"])
    ((config,), _) = checked_arguments(inspect.unwrap(h2h.train), [OmegaConf.create(whole)], {})
    assert json.dumps(config) == json.dumps(whole)


@pytest.mark.parametrize("root", ["train", "bench"])
def test_a_configuration_without_a_part_is_refused_by_its_name(root: str) -> None:
    whole = h2h.compose(root)
    of_root = {"train": (h2h.build_model, h2h.build_parts, h2h.inspect, h2h.train), "bench": (h2h.bench,)}
    for name in set(whole) - {"choices"}:
        partial = {key: value for key, value in whole.items() if key != name}
        for function in of_root[root]:
            with pytest.raises(UsageError, match=rf"configuration has no {name}: "):
                function(partial)


@pytest.mark.slow
def test_fields_alone_make_the_configuration_that_their_overrides_make() -> None:
    fields = {"model": {"d_model": 32, "num_layers": 1}, "data": "copy", "seed": 1}
    overrides = ["model.d_model=32", "model.num_layers=1", "data=copy", "seed=1"]
    assert configuration(fields) == h2h.compose("train", overrides)
    assert h2h.inspect(fields) == h2h.inspect(overrides)


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "null",
        "a, b",
        "c = 'd'",
        "{e}",
        "[f]",
        "g\\",
        "h\\'i",
        "",
        " j ",
        "a\nb",
        "é",
        "1_000",
        "007",
        "#k",
        "x" * 900,
    ],
)
def test_a_text_among_fields_is_that_text(text: str) -> None:
    config = configuration({"notes": text, "tags": ["a", text or "b"]})
    assert config["notes"] == text and config["tags"] == ["a", text or "b"]
    assert configuration({"output_dir": Path("/runs") / text})["output_dir"] == str(Path("/runs") / text)
    assert configuration(arm_overrides({"notes": text})) == configuration({"notes": text})


def test_columns_of_a_table_are_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("model,loss\na,1\n")
    with pytest.raises(UsageError, match=r"columns has no 'arms': did you mean arm\?"):
        h2h.compare(tmp_path / "results.csv", metric="loss", columns={"arms": "model"})


@pytest.mark.parametrize("field", fields(h2h.Study), ids=lambda field: field.name)
def test_a_field_of_a_study_is_of_its_type(field: Field[Any]) -> None:
    hint = get_type_hints(h2h.Study)[field.name]
    for value in (value for value in ODD if not fits(value, hint)):
        with pytest.raises(UsageError):
            h2h.Study(**{field.name: value}).fields()


def test_a_text_is_no_list_of_overrides_of_a_study() -> None:
    with pytest.raises(UsageError, match=r"Study\(base=...\) takes a list of texts.*: write \['seed=1'\]"):
        h2h.Study(base="seed=1")


def test_fields_of_a_study_may_be_values_of_other_libraries() -> None:
    import numpy
    from omegaconf import OmegaConf

    arms = {"a": ["model.d_model=32"], "b": {"model": {"d_model": 16}}}
    plain = h2h.Study(question="q?", arms=arms, seeds=[1, 2], margin=0.1, base=["data=copy"]).fields()
    for seeds in (numpy.array([1, 2]), OmegaConf.create([1, 2]), (numpy.int64(seed) for seed in (1, 2)), range(1, 3)):
        other = {
            "arms": OmegaConf.create(arms),
            "seeds": seeds,
            "margin": numpy.float32(0.1),
            "base": iter(["data=copy"]),
        }
        assert h2h.Study(question="q?", **other).fields() == plain
