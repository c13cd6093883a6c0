"""Signatures and class variables as they are read from source."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headtohead.building import schema, sources
from headtohead.building.kinds import Either, Flag, ListOf, Null, Number, OneOf, Part, Record, Whole

PACKAGE = {
    "__init__.py": "raise RuntimeError('imported, not read')\n",
    "base.py": """
from typing import ClassVar, Literal
Shade = Literal["light", "dark"]

class Base:
    careful: ClassVar[bool] = True
    colours: ClassVar[tuple[str, ...]] = ("red", "blue")
    undecided: ClassVar[int]

    def __init__(self, width: int, *, shade: Shade = "light", parts: "list[float] | None" = None) -> None: ...
""",
    "derived.py": """
from __future__ import annotations
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Optional
from .base import Base as Ancestor, Shade

class Child(Ancestor):
    careful = False

@dataclass(frozen=True)
class Box:
    depth: int
    label: Optional[str] = None
    kind: ClassVar[str] = "box"
    sides: tuple[float, float] = (1.0, 2.0)
    tags: list[str] = field(default_factory=list)

@dataclass
class Crate(Box):
    make: Callable[[int], Ancestor] | None = None
    inner: Box | None = None

def function(model, *, rates: Sequence[float] = (), on: bool = True, shade: Shade | None = None): ...

def open_ended(**kwargs): ...
""",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    name = "package_read_from_source"
    folder = tmp_path_factory.mktemp("path") / name
    folder.mkdir()
    for file, text in PACKAGE.items():
        (folder / file).write_text(text)
    sys.path.append(str(folder.parent))
    yield name
    sys.path.remove(str(folder.parent))


def kinds(target: str) -> dict:
    fields = schema.fields_of("", {"_target_": target})
    assert fields is not None
    return dict(fields.kinds)


def test_reading_a_signature_imports_nothing(package: str) -> None:
    assert kinds(f"{package}.base.Base")
    assert package not in sys.modules


def test_inherited_constructor_is_found_through_a_renamed_relative_import(package: str) -> None:
    assert kinds(f"{package}.derived.Child") == {
        "width": Whole(),
        "shade": OneOf(("light", "dark")),
        "parts": Either((ListOf(Number()), Null())),
    }


def test_class_variables_are_those_of_the_nearest_class(package: str) -> None:
    assert sources.class_value(f"{package}.derived.Child", "careful") is False
    assert sources.class_value(f"{package}.base.Base", "careful") is True
    assert sources.class_value(f"{package}.derived.Child", "colours") == ("red", "blue")
    assert sources.class_value(f"{package}.derived.Child", "undecided") is None


def test_dataclass_fields_are_its_arguments_and_class_variables_are_not(package: str) -> None:
    found = kinds(f"{package}.derived.Crate")
    assert list(found) == ["depth", "label", "sides", "tags", "make", "inner"]
    assert found["make"] == Either((Part(), Null()))
    assert found["inner"] == Either((Record(f"{package}.derived.Box"), Null()))
    assert found["sides"].items == (Number(), Number())


def test_only_arguments_without_a_default_are_required(package: str) -> None:
    fields = schema.fields_of("", {"_target_": f"{package}.derived.Crate"})
    assert fields is not None and fields.required == {"depth"}


def test_function_signatures_are_read_too(package: str) -> None:
    found = kinds(f"{package}.derived.function")
    assert found["rates"] == ListOf(Number())
    assert found["on"] == Flag()
    assert found["shade"] == Either((OneOf(("light", "dark")), Null()))


def test_a_signature_with_keywords_of_any_name_says_nothing(package: str) -> None:
    assert sources.arguments(f"{package}.derived.open_ended") is None


def test_missing_modules_and_names_are_not_found(package: str) -> None:
    assert sources.module_path(f"{package}.nowhere") is None
    assert sources.module_path("no_such_package_at_all.module") is None
    assert sources.find_target(f"{package}.derived.Nothing") is None


def test_the_package_is_found_where_it_lies() -> None:
    path = sources.module_path("headtohead.building.sources")
    assert path is not None and path.samefile(Path(sources.__file__))


def test_a_class_behind_a_re_export_is_found() -> None:
    found = kinds("torch.optim.AdamW")
    assert "weight_decay" in found
