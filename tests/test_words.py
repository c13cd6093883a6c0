"""Names are made of the words of the field: a coinage, whole or as a part of a name, does not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = sorted(
    str(entry.relative_to(ROOT))
    for folder in ("src/headtohead", "tests", "benchmarks")
    for entry in (ROOT / folder).iterdir()
    if entry.suffix == ".py" or (entry.is_dir() and any(entry.rglob("*.py")))
)
"""The rooms and the files of the package, its tests and its benchmarks."""
WHOLE = {
    "advance": "decode_step",
    "contest": "comparison",
    "dial": "axis",
    "found": "result",
    "given": "options, requested or provided",
    "keep_room": "reserve_space",
    "kept": "saved or retained",
    "never_decayed": "no_weight_decay",
    "place": "index, position or location",
    "places": "indices, positions or locations",
    "said": "message or predicted",
    "settle_id": "assign_run_id",
}
"""Names that are refused as they stand, and what to write; they may be parts of other names."""
PARTS = {
    "asked": "requested",
    "chooser": "sampler or selector",
    "dealing": "splits",
    "dealt": "split or assigned",
    "deed": "action",
    "deeds": "actions",
    "firsts": "first_tokens, first_rows ...",
    "foreign": "external",
    "giver": "owner",
    "keeper": "checkpointer",
    "laid": "foundation_runs",
    "learnt": "trained",
    "lefts": "left",
    "luck": "key or seed",
    "placing": "encoding",
    "preceded": "local_then_mixer",
    "prober": "attention_logger",
    "realigned": "unpadded",
    "sharers": "by_group",
    "shelf": "cache",
    "stillborn": "failed",
    "strangers": "external or unknown",
    "suiting": "dataset_defaults",
    "takers": "users",
    "talker": "logger",
    "telling": "message",
    "told": "message or reported",
    "twins": "duplicates",
    "veil": "overlay",
    "wanted": "expected",
    "whereabouts": "path",
    "wholes": "group_ids",
}
"""Words that are refused in every name, and what to write."""
ALLOWED = {
    "src/headtohead/records/record.py": {"place"},  # a field of records, which keep their names
    "src/headtohead/execution/run_spec.py": {"place"},
    "src/headtohead/execution/multirun.py": {"place"},
    "src/headtohead/training/run_components.py": {"place"},
    "src/headtohead/finished_runs/evaluation/evaluation_results.py": {"places"},  # of the JSON of evaluations
}
"""Names of fields that are part of a published form."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that a source defines; the sentences that name tests apart."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(value=ast.Name("self"), ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                continue


def advice_on(name: str) -> str | None:
    """Return what to write instead of a coinage; None for a name that has none."""
    bare = name.strip("_")
    words = [word.lower() for word in _WORD.findall(bare)]
    return WHOLE.get(bare) or next((PARTS[word] for word in words if word in PARTS), None)


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_is_a_coinage(room: str) -> None:
    path = ROOT / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    refused = [
        f"{file.relative_to(ROOT)}:{line}: {name}, write {advice}"
        for file in files
        for line, name in names_in(file.read_text(encoding="utf-8"))
        if (advice := advice_on(name)) and name not in ALLOWED.get(str(file.relative_to(ROOT)), ())
    ]
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_named_by_a_coinage(room: str) -> None:
    path = ROOT / room
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    refused = {str(file.relative_to(ROOT)): advice_on(file.stem) for file in files if not file.stem.startswith("test_")}
    assert not {name: advice for name, advice in refused.items() if advice}


def test_allowed_names_are_still_there() -> None:
    for file, names in ALLOWED.items():
        assert names <= {name for _, name in names_in((ROOT / file).read_text(encoding="utf-8"))}, file


@pytest.mark.parametrize(
    "source", ["told = 1", "def f(self, found): ...", "class NeverTold: ...", "self._kept = 2", "import a as strangers"]
)
def test_a_coinage_is_found_however_a_name_is_defined(source: str) -> None:
    assert [name for _, name in names_in(source) if advice_on(name)]
    assert not advice_on("well_founded") and not advice_on("test_loss")
