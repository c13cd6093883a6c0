"""A parameter that takes a field group adds its fields to the level of the class; schema and builder read one rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path

import pytest

import headtohead
from from_fields import fields_taken, from_fields
from headtohead.config.compose.choices import choices, groups
from headtohead.config.instantiate import target_of
from headtohead.config.schema.key_checks import fields_of
from headtohead.config.schema.source_code import arguments, field_groups
from headtohead.field_group import FieldGroup

MOST_ARGUMENTS = 10
PACKAGE = Path(headtohead.__file__).parent
TARGETS = {choice.target: group for group in groups() for choice in choices(group) if choice.target}


@dataclass(frozen=True)
class Ends(FieldGroup):
    first: int = 1
    last: int = 2


class Line:
    def __init__(self, colour: str, ends: Ends = Ends(last=9)) -> None:
        self.colour, self.ends = colour, ends


LINE = f"{Line.__module__}.{Line.__name__}"


def test_fields_of_a_group_stand_among_those_of_the_class() -> None:
    known = fields_of("data", {"_target_": LINE})
    assert known is not None
    assert list(known.kinds) == ["colour", "first", "last"] and known.required == {"colour"}
    assert known.examples == {"first": "1", "last": "9"}


@pytest.mark.parametrize(
    ("provided", "expected"),
    [({}, Ends(1, 9)), ({"first": 5}, Ends(5, 9)), ({"last": 2, "first": 0}, Ends(0, 2))],
)
def test_a_group_is_made_of_what_is_given_over_its_defaults(provided: dict[str, int], expected: Ends) -> None:
    made = from_fields(Line, colour="red", **provided)
    assert (made.colour, made.ends) == ("red", expected)


@pytest.mark.parametrize("target", [target for target in TARGETS if field_groups(target)])
def test_source_and_class_say_the_same_of_groups(target: str) -> None:
    """Each field once, with a default where the class has one."""
    read = {item.name: item.default is not None for item in arguments(target) or ()}
    run = list(fields_taken(target_of({"_target_": target})))
    assert len(run) == len({name for name, _ in run}) == len(read)
    assert {name: default is not Parameter.empty for name, default in run} == read


def test_every_architecture_of_a_stack_takes_its_parts_as_one() -> None:
    of_stacks = [
        target
        for target, group in TARGETS.items()
        if group == "model" and {"mixer", "position"} <= {item.name for item in arguments(target) or ()}
    ]
    assert len(of_stacks) >= 5
    assert all("parts" in field_groups(target) for target in of_stacks)


def constructors(source: str) -> Iterator[tuple[str, int]]:
    """Yield each class with a constructor that is written out, and the number of its arguments."""
    for node in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)):
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                taken = item.args
                yield node.name, len([*taken.posonlyargs, *taken.args, *taken.kwonlyargs]) - 1


@pytest.mark.slow
def test_no_constructor_takes_more_than_ten_arguments() -> None:
    """Arguments that belong together travel as one record, whose fields are its content."""
    taken = [(name, number) for file in PACKAGE.rglob("*.py") for name, number in constructors(file.read_text("utf-8"))]
    assert len(taken) > 200 and [pair for pair in taken if pair[1] > MOST_ARGUMENTS] == []


def test_arguments_are_counted_however_they_are_given() -> None:
    source = "class Wide:\n    def __init__(self, a, /, b, c=1, *, d, e=2): ..."
    assert list(constructors(source)) == [("Wide", 5)]
