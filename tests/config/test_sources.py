"""Signatures and class variables as they are read from source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.config.schema import key_checks, source_code
from headtohead.config.schema.value_kinds import (
    BoolKind,
    Either,
    ListOf,
    NullKind,
    NumberKind,
    OneOf,
    PartKind,
    RecordKind,
    WholeNumber,
)

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
    "lazy.py": """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    try:
        import torch
    except ImportError:
        from .stand_ins import Child
    else:
        from .derived import Child
""",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    name = "package_read_from_source"
    folder = tmp_path_factory.mktemp("path") / name
    folder.mkdir()
    for file, text in PACKAGE.items():
        (folder / file).write_text(text)
    sys.path.append(str(folder.parent))
    yield name
    sys.path.remove(str(folder.parent))


def kinds(target: str) -> dict:
    fields = key_checks.fields_of("", {"_target_": target})
    assert fields is not None
    return dict(fields.kinds)


def test_reading_a_signature_imports_nothing(package: str) -> None:
    assert kinds(f"{package}.base.Base")
    assert package not in sys.modules


def test_inherited_constructor_is_found_through_a_renamed_relative_import(package: str) -> None:
    assert kinds(f"{package}.derived.Child") == {
        "width": WholeNumber(),
        "shade": OneOf(("light", "dark")),
        "parts": Either((ListOf(NumberKind()), NullKind())),
    }


def test_class_variables_are_those_of_the_nearest_class(package: str) -> None:
    assert source_code.class_value(f"{package}.derived.Child", "careful") is False
    assert source_code.class_value(f"{package}.base.Base", "careful") is True
    assert source_code.class_value(f"{package}.derived.Child", "colours") == ("red", "blue")
    assert source_code.class_value(f"{package}.derived.Child", "undecided") is None


def test_dataclass_fields_are_its_arguments_and_class_variables_are_not(package: str) -> None:
    result = kinds(f"{package}.derived.Crate")
    assert list(result) == ["depth", "label", "sides", "tags", "make", "inner"]
    assert result["make"] == Either((PartKind(), NullKind()))
    assert result["inner"] == Either((RecordKind(f"{package}.derived.Box"), NullKind()))
    assert result["sides"].items == (NumberKind(), NumberKind())


def test_only_arguments_without_a_default_are_required(package: str) -> None:
    fields = key_checks.fields_of("", {"_target_": f"{package}.derived.Crate"})
    assert fields is not None and fields.required == {"depth"}


def test_function_signatures_are_read_too(package: str) -> None:
    result = kinds(f"{package}.derived.function")
    assert result["rates"] == ListOf(NumberKind())
    assert result["on"] == BoolKind()
    assert result["shade"] == Either((OneOf(("light", "dark")), NullKind()))


def test_a_signature_with_keywords_of_any_name_says_nothing(package: str) -> None:
    assert source_code.arguments(f"{package}.derived.open_ended") is None


def test_a_name_that_is_there_where_another_package_is_installed_is_found(package: str) -> None:
    """transformers 4 names its models so."""
    located = source_code.find_target(f"{package}.lazy.Child")
    assert located is not None and located.module == f"{package}.derived"
    assert source_code.may_be_made_when_imported(f"{package}.lazy.Child.from_config")


def test_missing_modules_and_names_are_not_found(package: str) -> None:
    assert source_code.module_path(f"{package}.nowhere") is None
    assert source_code.module_path("no_such_package_at_all.module") is None
    assert source_code.find_target(f"{package}.derived.Nothing") is None


def test_the_package_is_found_where_it_lies() -> None:
    path = source_code.module_path("headtohead.config.schema.source_code")
    assert path is not None and path.samefile(Path(source_code.__file__))


def test_a_class_behind_a_re_export_is_found() -> None:
    result = kinds("torch.optim.AdamW")
    assert "weight_decay" in result
