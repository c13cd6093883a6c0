"""Write the reference of the Python API, of the metrics and of the statistics, from their sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from headtohead.api import OTHER_NAMES, PUBLIC
from headtohead.comparison import statistics as statistics_package
from headtohead.config.schema.source_code import LocatedDefinition, bases, find, parse
from headtohead.metrics import Metric, metrics
from headtohead.metrics import __path__ as metrics_path
from headtohead.studies.definition.study import Study
from page_parts import code, table
from study_headers import linked

_API = "headtohead.api"
_WIDTH = 88
_PROPERTY = ("property", "cached_property")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def pages() -> dict[str, str]:
    """Return the three pages by name."""
    return {
        "api": "\n".join(_api()),
        "metrics": "\n".join(_metrics()),
        "statistics": "\n".join(_statistics()),
    }


def _api() -> Iterator[str]:
    yield "# Python API"
    yield ""
    yield "Every public name of `import headtohead as h2h`, from its source. [From Python](../python.md) introduces"
    yield "them."
    yield ""
    returned: dict[str, LocatedDefinition] = {}
    for name, module in PUBLIC.items():
        located = _definition(f"{_API}.{module}", OTHER_NAMES.get(name, name))
        if isinstance(located.node, ast.ClassDef):
            yield from _class(f"h2h.{name}", located)
            continue
        assert isinstance(located.node, Function)
        yield from _function(f"h2h.{name}", located.node, "##")
        for result in _results(located):
            returned.setdefault(getattr(result.node, "name", ""), result)
    yield "## What the functions return"
    yield ""
    yield "The classes of their results, with every public field, property and method."
    yield ""
    for name, located in returned.items():
        yield from _class(name, located, "###")


def _definition(module: str, name: str) -> LocatedDefinition:
    """Return what a name of a module stands for."""
    located = find(module, name)
    assert located is not None, f"{module} does not define {name}"
    return located


def _results(located: LocatedDefinition) -> Iterator[LocatedDefinition]:
    """Yield the classes of the API that a function's annotation says it returns."""
    annotation = getattr(located.node, "returns", None)
    if annotation is not None:
        yield from _classes_in(annotation, located.module)


def _classes_in(expression: ast.expr, module: str) -> Iterator[LocatedDefinition]:
    """Yield the classes of the package that a type names, and those that it is a list of."""
    for node in ast.walk(expression):
        result = find(module, node.id) if isinstance(node, ast.Name) else None
        if result is not None and isinstance(result.node, ast.ClassDef) and result.module.startswith("headtohead."):
            yield result
            for base in result.node.bases:
                if isinstance(base, ast.Subscript):
                    yield from _classes_in(base.slice, result.module)


def _function(name: str, node: Function, mark: str) -> Iterator[str]:
    yield f"{mark} {name}"
    yield ""
    yield from _signature(name, node)
    yield from _docstring(node)


def _signature(name: str, node: Function, *, is_method: bool = False) -> Iterator[str]:
    if is_method:
        del node.args.args[:1]
    arguments = ast.unparse(node.args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{name}({arguments}){returns}"
    if len(line) > _WIDTH:
        parts = _split(arguments)
        line = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    yield "```text"
    yield from line.splitlines()
    yield "```"
    yield ""


def _split(arguments: str) -> list[str]:
    """Return arguments one by one: at the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _class(name: str, located: LocatedDefinition, mark: str = "##") -> Iterator[str]:
    """Yield a class: its docstring, its fields, and the public methods of its own and of its bases."""
    node = located.node
    assert isinstance(node, ast.ClassDef)
    yield f"{mark} {name}"
    yield ""
    yield from _docstring(node)
    fields: dict[str, tuple[str, str]] = {}
    methods: dict[str, tuple[str, str]] = {}
    for base in bases(located):
        body = base.node.body if isinstance(base.node, ast.ClassDef) and base.module.startswith("headtohead.") else []
        for item, following in pairwise([*body, ast.Pass()]):
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is_public(item.target.id):
                about = _text(following)
                fields.setdefault(item.target.id, (ast.unparse(item.annotation), about))
            elif isinstance(item, Function) and _is_public(item.name):
                is_property = any(getattr(one, "id", "") in _PROPERTY for one in item.decorator_list)
                shown = f".{item.name}" if is_property else f".{item.name}({_arguments(item)})"
                about = _first_sentence(ast.get_docstring(item) or "")
                own, sentence = methods.get(item.name, (shown, ""))
                methods[item.name] = own, sentence or about
    if fields:
        explained = attribute_docstrings(Study.__module__, Study.__name__) if name == "h2h.Study" else {}
        rows = [(code(one), code(kind), about or explained.get(one, "")) for one, (kind, about) in fields.items()]
        yield from table(("field", "type", "meaning"), rows)
    if methods:
        actions = ((code(shown), about) for shown, about in methods.values())
        yield from table(("method or property", "what it does"), actions)


def attribute_docstrings(module: str, name: str) -> dict[str, str]:
    """Return what the strings below the attributes of a class say, by attribute."""
    node = _definition(module, name).node
    assert isinstance(node, ast.ClassDef)
    return {
        item.target.id: _text(following)
        for item, following in pairwise([*node.body, ast.Pass()])
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def _arguments(node: Function) -> str:
    taken = ast.unparse(node.args)
    return re.sub(r"^(self|cls)(, )?", "", taken)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _text(node: ast.stmt) -> str:
    """Return the string that follows an attribute and explains it."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return node.value.value if is_text else ""  # type: ignore[attr-defined]


def _docstring(node: Function | ast.ClassDef) -> Iterator[str]:
    if text := ast.get_docstring(node):
        yield from _escaped(text).splitlines()
        yield ""


def _first_sentence(text: str) -> str:
    return _escaped(text.partition("\n\n")[0])


def _escaped(text: str) -> str:
    """Return a docstring whose brackets make no links."""
    return linked(re.sub(r"\[(?=[^`\n]*\]\()", r"\\[", text))


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "Every metric that a task computes, as its file in `headtohead/metrics/` declares it. Where chance is"
    yield "empty, it depends on the data, and the task computes it ([scale](../verdicts.md#scale)). A tick under"
    yield "*texts* says that runs which read the same texts with different tokenizers may be compared by it."
    yield ""
    meanings: dict[str, str] = {}
    for file in sorted(Path(next(iter(metrics_path))).glob("*.py")):
        meanings |= _meanings(file)
    columns = ("metric", "better", "range", "best", "chance", "counted over", "texts", "meaning")
    yield from table(columns, (_metric(one, meanings.get(one.name, "")) for one in metrics().values()))


def _meanings(file: Path) -> dict[str, str]:
    """Return what the strings below a file's metrics say, by the metric's name."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    result = {}
    for item, following in pairwise([*body, ast.Pass()]):
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Call):
            named = {one.arg: one.value for one in item.value.keywords}
            if isinstance(name := named.get("name"), ast.Constant):
                result[str(name.value)] = _text(following)
    return result


def _metric(metric: Metric, meaning: str) -> tuple[str, ...]:
    better = {"min": "lower", "max": "higher", None: "neither"}[metric.direction]
    bounds = f"{_number(metric.low)} to {_number(metric.high)}"
    best = "" if metric.best is None else _number(metric.best)
    chance = "" if metric.chance is None else _number(metric.chance)
    return (
        code(metric.name),
        better,
        bounds,
        best,
        chance,
        metric.over,
        "✓" if metric.any_tokenizer else "",
        linked(meaning),
    )


def _number(value: float) -> str:
    return "∞" if value == float("inf") else "-∞" if value == float("-inf") else f"{value:g}"


def _statistics() -> Iterator[str]:
    yield "# Statistics"
    yield ""
    yield "The functions that verdicts and reports rest on, from `headtohead/comparison/statistics/`; each is"
    yield "tested against a reference or a simulation. [How a verdict is made](../verdicts.md) says which is used"
    yield "when."
    yield ""
    for file in sorted(Path(statistics_package.__path__[0]).glob("*.py")):
        if file.name != "__init__.py":
            yield from _module(f"{statistics_package.__name__}.{file.stem}", file)


def _module(name: str, file: Path) -> Iterator[str]:
    yield f"## {file.stem.replace('_', ' ').capitalize()}"
    yield ""
    yield _escaped(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
    yield ""
    for defined, located in parse(name).items():
        if isinstance(located.node, Function) and _is_public(defined):
            yield from _function(defined, located.node, "###")
