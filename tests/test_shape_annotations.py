"""Every shape that a signature declares is whole, understood by the import hook, and checked."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from jaxtyping import AbstractArray, TypeCheckError, install_import_hook

from headtohead.components.component import Context, Position
from headtohead.components.positions.image_positions import Rotary2d
from headtohead.components.positions.rotary import Rotary, turn
from headtohead.components.positions.xpos import Xpos
from headtohead.data.batches.batch import Batch
from shape_hook import DECLARED, annotated_modules

pytestmark = pytest.mark.shapes
Function = ast.FunctionDef | ast.AsyncFunctionDef


def shape_types(tree: ast.Module) -> set[str]:
    """Return the names that a module imports from jaxtyping."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping"]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def declarations(node: ast.AST, names: set[str]) -> Iterator[ast.Subscript]:
    """Yield every shape below a node, as `Float[Tensor, "B L"]`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript) and isinstance(inner.value, ast.Name) and inner.value.id in names:
            yield inner


def axes(declaration: ast.Subscript) -> str | None:
    """Return the axes that the source names, or None where there is no string, or one of blanks alone."""
    match declaration.slice:
        case ast.Tuple(elts=[_, ast.Constant(value=str(text))]) if text == "" or text.strip():
            return " ".join(text.split())
    return None


def broken(source: str) -> list[str]:
    """Return the declarations of a source that name no axes, and the imports that would hide some from this search."""
    tree = ast.parse(source)
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    hidden = [ast.unparse(node) for node in whole if any(alias.name.startswith("jaxtyping") for alias in node.names)]
    return hidden + [ast.unparse(result) for result in declarations(tree, shape_types(tree)) if axes(result) is None]


def understood(hint: Any) -> set[str]:
    """Return the axes of all jaxtyping types in a type."""
    if isinstance(hint, type) and issubclass(hint, AbstractArray):
        return {" ".join(hint.dim_str.split())}
    parts = hint if isinstance(hint, list | tuple) else get_args(hint)
    return {result for part in parts for result in understood(part)}


def signatures(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, str, ast.expr]]:
    """Yield the qualified function, the argument and the annotation of each annotated argument, result and dataclass
    field; functions inside functions are left out, which the hook meets when the outer one runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            is_dataclass = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
            for field in node.body if is_dataclass else ():
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield f"{outer}{node.name}.__init__", field.target.id, field.annotation
            yield from signatures(node, f"{outer}{node.name}.")
        elif isinstance(node, Function):
            provided = node.args
            starred = [part for part in (provided.vararg, provided.kwarg) if part is not None]
            for argument in [*provided.posonlyargs, *provided.args, *provided.kwonlyargs, *starred]:
                if argument.annotation is not None:
                    yield f"{outer}{node.name}", argument.arg, argument.annotation
            if node.returns is not None:
                yield f"{outer}{node.name}", "return", node.returns
        else:
            yield from signatures(node, outer)


def unchecked(module: str, source: str) -> list[str]:
    """Return what a module declares and the hook did not understand."""
    tree = ast.parse(source)
    names = shape_types(tree)
    faults = []
    for function, argument, annotation in signatures(tree):
        declared = {axes(result) for result in declarations(annotation, names)}
        if declared - understood(DECLARED.get((module, function), {}).get(argument)):
            faults.append(f"{module}.{function}: {argument}: {ast.unparse(annotation)}")
    return faults


@pytest.mark.slow
def test_every_declared_shape_names_its_axes() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in annotated_modules().items()}
    assert (
        sum(len(list(declarations(ast.parse(text), shape_types(ast.parse(text))))) for text in sources.values()) > 1000
    )
    assert {name: faults for name, text in sources.items() if (faults := broken(text))} == {}


@pytest.mark.slow
def test_the_hook_understands_every_declared_shape_of_the_package() -> None:
    for name in annotated_modules():
        import_module(name)
    checked = {name for name, _ in DECLARED}
    assert {"headtohead.data.batches.batch", "headtohead.tasks.tagging", "headtohead.components.component"} <= checked
    texts = {name: path.read_text(encoding="utf-8") for name, path in annotated_modules().items()}
    assert [fault for name, text in texts.items() for fault in unchecked(name, text)] == []


@pytest.mark.parametrize(
    "annotation",
    [
        "Float[Tensor, two]",
        "Float[Tensor, (\n    two  # B 1 L R\n)]",
        "Float[Tensor, (  # B 1 L R\n)]",
        "Float[Tensor, ...]",
        'Float[Tensor, " "]',
        "Float[Tensor]",
        'Float[Tensor, "B", "L"]',
        'tuple[Float[Tensor, "B L"], Float[Tensor, B] | None]',
    ],
)
@pytest.mark.parametrize("form", ["def f(x: {}): ...", "def f() -> {}: ...", "class C:\n    x: {}", "Alias = {}"])
def test_a_shape_that_lost_axes_is_found(annotation: str, form: str) -> None:
    source = "from jaxtyping import Float\n" + form.format(annotation.replace("\n", "\n    "))
    assert len(broken(source)) == 1
    assert broken(source.replace(annotation.replace("\n", "\n    "), 'Float[Tensor, "two #B 1 L R"]')) == []


def test_an_import_that_hides_shapes_is_found() -> None:
    assert broken("import jaxtyping as jt\n") == ["import jaxtyping as jt"]


def test_a_shape_that_the_hook_cannot_read_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is defined below makes an annotation unreadable when the hook reads it, and jaxtyping then checks
    nothing of it."""
    source = textwrap.dedent("""
        from __future__ import annotations
        from dataclasses import dataclass
        from jaxtyping import Float
        from torch import Tensor
        @dataclass
        class Early:
            read: Float[Tensor, "B L"]
            lost: tuple[Float[Tensor, "B L"], Late]
            def method(self, lost: Float[Tensor, "B"] | Late) -> Float[Tensor, "B"]: ...
        class Late: ...
        def late(read: Float[Tensor, "B"] | Late): ...
    """)
    (tmp_path / "planted_shapes.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with install_import_hook("planted_shapes", "shape_hook.checked"):
        import_module("planted_shapes")
    monkeypatch.delitem(sys.modules, "planted_shapes")
    assert [fault.split(": ")[:2] for fault in unchecked("planted_shapes", source)] == [
        ["planted_shapes.Early.__init__", "lost"],
        ["planted_shapes.Early.method", "lost"],
    ]


def rotations() -> Iterator[tuple[Position, int]]:
    options: dict[str, Any] = {"num_heads": 2, "max_length": None, "causal": True}
    yield Rotary(16, **options), 5
    yield Xpos(16, **options), 5
    yield Rotary2d(16, num_heads=2, max_length=None, causal=False, grid=(2, 2)), 5


@pytest.mark.parametrize(
    "wrong", [lambda made: made[0], lambda made: made[:1], lambda made: made.repeat(1, 1, 2, 1, 1)]
)
def test_a_wrong_shape_of_a_rotation_is_refused(wrong: Any) -> None:
    for position, length in rotations():
        rotation = position.rotation(torch.arange(length)[None], torch.float32)
        assert rotation is not None
        x = torch.randn(1, 2, length, 8)
        assert position.rotate(x, rotation).shape == x.shape
        name = type(position).__name__
        with pytest.raises(TypeCheckError, match=rf"{name}\.rotate"):
            position.rotate(x, wrong(rotation))
        with pytest.raises(TypeCheckError, match=r"rotary\.turn"):
            turn(x, wrong(rotation), interleaved=False)
        with pytest.raises(TypeCheckError, match=r"Context\.__init__"):
            Context(rotation=wrong(rotation))


def test_what_a_rotation_gives_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rotary, "frequencies", lambda *_: torch.ones(1, 4))
    with pytest.raises(TypeCheckError, match=r"rotary_angles"):
        next(rotations())[0].rotation(torch.arange(5)[None], torch.float32)


@pytest.mark.parametrize("field", ["rows", "labels"])
def test_a_wrong_shape_in_a_batch_is_refused(field: str) -> None:
    whole = {"rows": torch.arange(3), "labels": torch.zeros(3, dtype=torch.long)}
    Batch(**whole)
    with pytest.raises(TypeCheckError, match=field):
        Batch(**{**whole, field: torch.zeros(3, 2, dtype=torch.long)})
