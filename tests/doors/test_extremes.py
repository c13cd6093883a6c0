"""Extreme numbers at every door: each field of every choice and each option takes one, or refuses it in a sentence."""

from __future__ import annotations

import io
import logging
import random
import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest

from fresh_runs import ROWS
from headtohead.cli import COMMANDS, main, options
from headtohead.config.build import make_model
from headtohead.config.compose.choices import choices, groups
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.schema.key_checks import fields_of
from headtohead.config.schema.value_kinds import Either, Kind, ListOf, NumberKind, WholeNumber
from headtohead.ranges import Range

VALUES = (
    "0", "-1", "1", "1.5", "1e9", "1e18", "-1e18", "1e400", "nan", "inf", "-inf", "''", "[]", "[1e18]", "[nan]", "null",
    "true", "{}", "1" + "0" * 40, "-1" + "0" * 400, "1" + "0" * 5000,
)  # fmt: skip
SECONDS = 5.0
"""The most seconds of processor time, where a second is usual."""
LONGEST = 600
ROOTS = {"budget": "match", "launcher": "launch"}
NEEDED = {"model/cross": ("model=encoder_decoder",)}


def ranges(kind: Kind) -> list[Range]:
    """Those of the numbers that a field takes."""
    if isinstance(kind, Either):
        return [result for each in kind.kinds for result in ranges(each)]
    if isinstance(kind, ListOf):
        return [result for each in kind.items or (kind.item,) for result in ranges(each)]
    return [kind.range] if isinstance(kind, WholeNumber | NumberKind) else []


def numeric_fields(node: Any, group: str = "") -> Iterator[tuple[str, Kind]]:
    """The paths of the fields that take numbers, in a composed configuration."""
    if not isinstance(node, Mapping):
        return
    for key, value in node.items():
        yield from numeric_fields(value, f"{group}/{key}" if group else key)
    if "_target_" in node and (fields := fields_of(group, node)) is not None:
        yield from ((f"{group}/{name}".replace("/", "."), kind) for name, kind in fields.kinds.items() if ranges(kind))


@cache
def all_choices() -> list[tuple[str, tuple[str, ...]]]:
    """The root and the overrides of each choice, and of what is not a choice."""
    chosen = [choice for group in groups() if group not in ("experiment", "model/size") for choice in choices(group)]
    named = [(choice.group, f"{choice.group}={choice.name}") for choice in chosen]
    of_choices = [(ROOTS.get(group, "train"), (*NEEDED.get(group, ()), name)) for group, name in named]
    return [*of_choices, ("bench", ()), ("train", ())]


def drawn_field(rng: random.Random) -> tuple[str, tuple[str, ...], str, Kind]:
    """The root, the overrides that choose, the path and the kind of a numeric field."""
    while True:
        root, chosen = rng.choice(all_choices())
        own = chosen[-1].partition("=")[0].replace("/", ".") if chosen else root.replace("train", "trainer")
        fields = [field for field in numeric_fields(compose(root, list(chosen))) if field[0].startswith(f"{own}.")]
        if not chosen and root == "train":
            fields.append(("seed", WholeNumber(Range(0, 2**32 - 1))))
        if fields:
            return root, chosen, *rng.choice(fields)


def drawn_value(rng: random.Random, kind: Kind) -> str:
    """One of the extremes, or an end of the field's own range, or a step beyond."""
    limit = rng.choice(ranges(kind))
    ends = [end + beyond for end in (limit.low, limit.high) if abs(end) < 1e40 for beyond in (-1, 0, 1)]
    return rng.choice([*VALUES, *(str(end) for end in ends)])


def check_refusal(error: str, path: str, chosen: tuple[str, ...]) -> None:
    """It names the field, unless the choice is refused by itself."""
    assert error.startswith("error: ") and error.count("\n") == 1 and len(error) < LONGEST, error
    assert "Traceback" not in error and "HEADTOHEAD_DEBUG" not in error, error
    if path.rpartition(".")[2] not in error:
        with pytest.raises(ConfigurationError) as usual:
            compose_checked("train", list(chosen))
        assert error == f"error: {usual.value}\n"


def test_an_extreme_number_in_any_field_is_refused_in_a_sentence_or_taken(
    draw_seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(draw_seed)
    root, chosen, path, kind = drawn_field(rng)
    value = drawn_value(rng, kind)
    began, trained = time.process_time(), Mock(return_value=0)
    if root == "train":
        monkeypatch.setattr(logging.getLogger("headtohead"), "handlers", [])  # of another test's terminal
        monkeypatch.setattr("headtohead.cli.train.train_and_summarise", trained)
        few = ROWS if path == "trainer.max_epochs" else ()  # an epoch is as long as the data, which is made for it
        code = main(["train", *chosen, *few, f"{path}={value}"])
        assert time.process_time() - began < SECONDS, (chosen, path, value)
        shown = capsys.readouterr()
        assert (code, trained.call_count) in ((0, 1), (2, 0)), (chosen, path, value, shown.err)
        if code:
            *message, error = shown.err.splitlines(keepends=True)
            assert len(message) < 3 and "Traceback" not in shown.err
            check_refusal(error, path, chosen)
        elif path.startswith("model."):
            check_buildable(trained.call_args.args[0], path)
        return
    try:
        compose_checked(root, [*chosen, f"{path}={value}"])
    except ConfigurationError as error:
        check_refusal(f"error: {error}\n", path, chosen)
    assert time.process_time() - began < SECONDS, (chosen, path, value)


def check_buildable(config: dict[str, Any], path: str) -> None:
    """Build on the meta device; what does not go together is refused in a sentence of ours, however long the rows
    are."""
    sizes = {"vocab_size": 64, "max_length": 32, "max_target_length": 32, "num_classes": 4, "image_shape": [3, 32, 32]}
    filled = {name: size for name, size in sizes.items() if config["model"].get(name, 0) is None}
    try:
        make_model({**config, "model": {**config["model"], **filled}}, "meta")
    except ValueError as error:
        assert type(error).__module__.startswith("headtohead."), (path, error)


def options_of(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that take a number."""
    seen: list[options.Parser] = []

    def noted(self: options.Parser, *provided: Any) -> None:
        seen.append(self)
        raise ConfigurationError("seen")

    with monkeypatch.context() as patched:
        for name in ("parse_known_args", "parse_known_intermixed_args"):
            patched.setattr(options.Parser, name, noted)
        assert main([command]) == 2
    return [
        action.option_strings[0]
        for action in (seen[0]._actions if seen else ())
        if action.option_strings and action.type is not None and action.option_strings[0] != "--parent"
    ]


def test_an_extreme_number_in_any_option_is_refused_in_a_sentence(
    draw_seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    """Values that it takes are followed by a refusal of what does not exist."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    rng = random.Random(draw_seed)
    options = [(command, option) for command in COMMANDS for option in options_of(command, monkeypatch)]
    assert len(options) > 25
    command, option = rng.choice(options)
    capsys.readouterr()
    value = rng.choice(VALUES)
    assert main([command, "there/is/none", f"{option}={value}"]) == 2, (command, option, value)
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and len(error) < LONGEST, error
    assert "HEADTOHEAD_DEBUG" not in error, error
