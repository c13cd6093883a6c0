"""The Python API: every command has a function, documented and typed; refusals name arguments; results are small."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

import headtohead as h2h
from headtohead import api
from headtohead.api.error_translation import Speech, for_typed_commands
from headtohead.api.own_data import overrides_for
from headtohead.api.result import Result, upgraded
from headtohead.cli import COMMANDS
from headtohead.cli.runs import ACTIONS

NOT_OF_PYTHON = {"list", "data"}
"""`list` is `choices`, and `data` is `describe_data`."""
SMALL = [
    "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "tracking=none", "probe=none",
    "trainer.num_samples=0", "model.d_model=16", "data.batch_size=8",
]  # fmt: skip


def test_every_command_is_a_function() -> None:
    assert set(COMMANDS) - NOT_OF_PYTHON <= set(h2h.__all__) == set(api.PUBLIC)


OF_THEIR_OWN = {"compare", "embed", "generate"}
"""They show more than a result: unread files, several retrievers, a text that grows."""


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - NOT_OF_PYTHON - OF_THEIR_OWN))
def test_a_command_calls_its_function(name: str) -> None:
    """So that a command and Python cannot come to differ."""
    module = importlib.import_module(f"headtohead.cli.{name}")
    own = rf"\bapi\.{name}\b|from headtohead\.api\.{api.PUBLIC[name]} import"
    assert re.search(own, inspect.getsource(module))


BEHIND = {
    "evaluate": ("evaluate", "lm_eval"), "probe": ("probe", "probe_data", "probe_positions"),
    "embed": ("search", "measure_retrieval"), "study_new": ("new_study",),
}  # fmt: skip
"""The functions of commands that have several, or that are below others."""


@pytest.mark.parametrize(("command", "function"), [(one, name) for one, names in BEHIND.items() for name in names])
def test_a_command_calls_each_of_its_functions(command: str, function: str) -> None:
    source = inspect.getsource(importlib.import_module(f"headtohead.cli.{command}"))
    assert f"api.{function}(" in source


@pytest.mark.parametrize("name", sorted(set(api.PUBLIC) - {"Study"}))
def test_every_function_is_documented_and_typed(name: str) -> None:
    function = getattr(h2h, name)
    taken = inspect.signature(function).parameters.values()
    assert (inspect.getdoc(function) or "").strip().endswith((".", "`", ":"))
    assert all(one.annotation is not inspect.Parameter.empty for one in taken)
    assert sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in taken) <= 3, "the rest is given by name"


@pytest.mark.parametrize(
    ("typed", "spoken"),
    [
        ("--against none: no run", "against='none': no run"),
        ("give --direction min or max", "give direction='min' or max"),
        ("--metric, measured on one split", "metric=, measured on one split"),
        ("--trust my_norms", "trust=['my_norms']"),
        ("--allow-unlike WHAT", "allow_unlike=WHAT"),
        ("h2h list study shows them", 'h2h.choices("study") shows them'),
        ("h2h train makes one", "h2h.train(...) makes one"),
        ("h2h data a.csv guesses it", 'h2h.describe_data("a.csv") guesses it'),
        ("--shots compares probabilities of words", "shots= compares probabilities of words"),
        ("--stride 4 slides windows", "stride=4 slides windows"),
        ("--to onnx needs a package", "to='onnx' needs a package"),
        ("--against transformers: no run", "against='transformers': no run"),
        ("as its name tells: --direction says otherwise", "as its name tells: direction= says otherwise"),
        (
            "h2h runs prune outputs/a --keep best removes --disk 2",
            "`h2h runs prune outputs/a --keep best` removes disk=2",
        ),
        ("--on h100x8, --on cpu; --against a.", "on='h100x8', on='cpu'; against='a'."),
        ("add --trust mine.Norm, or leave it", "add trust=['mine.Norm'], or leave it"),
        ("--against '' is empty", "against='' is empty"),
        ("call `h2h study mine --plan` first, and copy", "call `h2h study mine --plan` first, and copy"),
        ("h2h plan --devices lists them", "`h2h plan --devices` lists them"),
        ("write it: h2h study new NAME data.csv", "write it: `h2h study new NAME data.csv`"),
        ("h2h train --from-run RUN", "`h2h train --from-run RUN`"),
        ("--shard 3/2 is refused", "shard=(3, 2) is refused"),
        ("upload it with h2h sync, h2h runs shows it", "upload it with h2h.sync(...), h2h.runs(...) shows it"),
    ],
)
def test_words_of_the_command_line_become_those_of_python(typed: str, spoken: str) -> None:
    assert Speech().of(typed) == spoken


@pytest.mark.parametrize("typed", [f"runs {action}" for action in ACTIONS])
def test_a_command_without_a_function_stays_as_it_is_typed(typed: str) -> None:
    sentence = f"h2h {typed} outputs/a frees it, and --disk 2 gives more"
    assert Speech().of(sentence) == f"`h2h {typed} outputs/a` frees it, and disk=2 gives more"


@pytest.mark.parametrize(
    "call",
    [
        lambda: h2h.study("nrms"),
        lambda: h2h.load_run("nowhere"),
        lambda: h2h.export("nowhere", "onnx"),
        lambda: h2h.compare(["nowhere"]),
        lambda: h2h.check("no_package.Class"),
        lambda: h2h.describe_data("nowhere.csv"),
        lambda: h2h.match("nrms"),
        lambda: h2h.sweep("none.yaml"),
    ],
)
def test_refusals_speak_without_words_of_the_command_line(call: object) -> None:
    with pytest.raises(ValueError) as refused:
        call()  # type: ignore[operator]
    assert "--" not in str(refused.value) and "h2h list" not in str(refused.value)


VALUES = {"job", "onnx", "torch", "min", "gpt", "train", "test", "hub", "hydra", "all", "best", "more"}


def test_no_word_of_a_sentence_is_taken_for_the_value_of_an_option() -> None:
    for file in Path(h2h.__file__).parent.rglob("*.py"):
        for typed in re.findall(r"--[a-z][a-z-]*[a-z] [a-z]+ [a-z]+", file.read_text(encoding="utf-8")):
            value = re.search(r"='([a-z]+)'", Speech().of(typed))
            assert value is None or value[1] in VALUES, f"{file.name}: {typed}"


def one_text_for_several() -> Iterator[tuple[Callable[..., object], str]]:
    for function in (getattr(h2h, name) for name in h2h.__all__):
        if inspect.isfunction(function):
            hints = {name: str(one.annotation) for name, one in inspect.signature(function).parameters.items()}
            yield from ((function, name) for name, kind in hints.items() if kind in ("Sequence[str]", "Configured"))


@pytest.mark.parametrize(("function", "name"), list(one_text_for_several()))
def test_one_text_is_not_taken_letter_by_letter(function: Callable[..., object], name: str) -> None:
    required = [one for one in inspect.signature(function).parameters.values() if one.default is one.empty]
    values = {one.name: [] if one.annotation in ("Sequence[str]", "Configured") else "nowhere" for one in required}
    with pytest.raises(ValueError, match=rf"{name}=\.\.\.\) takes .*, and not 'one': write \['one'\]"):
        function(**{**values, name: "one"})


def test_one_path_is_compared_as_a_list_of_one() -> None:
    with pytest.raises(ValueError, match="nowhere does not exist"):
        h2h.compare("nowhere")


def test_a_typed_command_is_refused_in_its_own_words() -> None:
    with for_typed_commands(), pytest.raises(ValueError, match="config-dir"):
        h2h.compose("train", [], "nowhere")
    with pytest.raises(ValueError, match="config_dir="):
        h2h.compose("train", [], "nowhere")


@pytest.mark.slow
def test_a_record_prints_in_a_few_lines_and_gives_frames_and_figures(tmp_path: Path) -> None:
    run = h2h.train(["data=copy", "data.num_train=64", "data.num_validation=8", "data.num_test=8", *SMALL[:-1],
                     f"output_dir={tmp_path}"])  # fmt: skip
    assert len(repr(run)) < 1500 and len(repr(h2h.load_run(str(run.path)).record)) < 300
    (listed,) = h2h.runs(tmp_path)
    assert run.name in repr(listed) and f"{listed.stage}/{listed.metric} {listed.value:.4g}" in repr(listed)
    assert len(repr(listed)) < 300 and len(repr(h2h.runs(tmp_path)).splitlines()) == 3
    assert "<table>" in run._repr_html_()
    assert list(run.curve("train/loss")["step"]) == [1, 2] or len(run.curve("train/loss")) > 0
    assert {"split", "metric", "value", "baseline"} == set(run.to_frame().columns)
    assert run.plot().axes[0].lines
    with pytest.raises(ValueError, match="was not logged"):
        run.curve("none")
    assert h2h.read_record(str(run.path)).metrics == run.metrics
    assert h2h.evaluate(run, split="validation").as_rows()[0]["loss"] > 0
    assert h2h.probe(h2h.load_run(str(run.path)), rows=[0]).to_frame().shape[0] == 2 * 4
    with pytest.raises(ValueError, match="second goes with text, and there is none"):
        h2h.probe(str(run.path), rows=[0], second="b")
    with pytest.raises(ValueError, match="split=train is of rows, and text is given"):
        h2h.probe(str(run.path), "a", split="train")
    with pytest.raises(ValueError, match="seed=3 is for draws"):
        h2h.generate(str(run.path), "a", seed=3)


def _derived(kind: type[Any]) -> Iterator[type[Any]]:
    for derived in kind.__subclasses__():
        yield from (derived, *_derived(derived))


for _module in pkgutil.iter_modules(api.__path__):
    importlib.import_module(f"{api.__name__}.{_module.name}")
SHOWING = [
    kind for kind in _derived(Result) if not is_dataclass(kind.__bases__[0]) and is_dataclass(kind.__bases__[-1])
]
"""Results that show a plain object, whose class is the last that they derive from."""


@pytest.mark.parametrize("kind", SHOWING)
def test_a_result_equals_the_plain_object_that_it_shows(kind: type[Any]) -> None:
    plain: type[Any] = kind.__bases__[-1]
    first, second = (SimpleNamespace(**{field.name: object() for field in fields(plain)}) for _ in range(2))
    shown, held, other = upgraded(kind, first), upgraded(plain, first), upgraded(plain, second)
    assert shown == held and held == shown and shown == upgraded(kind, held)
    assert shown != other and other != shown and shown != object()


def reviews() -> pd.DataFrame:
    rows = [(f"a {word} film number {number}", word) for number in range(30) for word in ("good", "bad")]
    return pd.DataFrame(rows, columns=["review", "verdict"])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["pandas", "datasets", "polars", "images", "tokens", "labelled tokens"])
def test_data_of_a_notebook_train_a_run(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    frame: object = reviews()
    if form == "datasets":
        frame = __import__("datasets").Dataset.from_pandas(reviews(), preserve_index=False)
    elif form == "polars":
        frame = pytest.importorskip("polars").from_pandas(reviews())
    labels = torch.arange(60) % 2
    data = {
        "images": (torch.rand(60, 1, 8, 8), labels),
        "tokens": torch.randint(0, 30, (200, 12)),
        "labelled tokens": (torch.randint(0, 30, (60, 12)), labels),
    }.get(form, frame)
    assert overrides_for(data) == overrides_for(data)
    run = h2h.train([*overrides_for(data), *SMALL, f"output_dir={tmp_path / 'outputs'}"])
    assert run.status == "finished" and run.metrics["test"]["loss"] > 0
