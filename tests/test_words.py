"""Names are made of the words of the field, and sentences are plain English: a coinage does not come back."""

import ast
import io
import re
import tokenize
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
PHRASES = {
    r"(?<!here )\b(?:is|are|was|were) no (?!longer|more|better|other|reason|help|way|less)\w": "is not a",
    r"\bnothing twice\b": "once",
    r"\bthe books\b": "the literature, or the records",
    r"\btakes? part like\b": "works like",
    r"\bis lacking\b": "is missing",
    r"\bodd one out\b": "the one that differs",
    r"\bsources? of chance\b": "source of randomness",
    r"\b(?:Python|public) face\b": "API",
    r"\bone's own\b(?! class)": "your own, or the user's own",
    r"\bsaid so\b": "reported it",
    r"\banew\b": "again, or a verb that begins with re-",
    r"\bgo(?:es|ne|ing)? on with\b": "resume, or continue",
    r"\bputs? (?:it|them|that) right\b": "fix",
    r"\b(?:can|could)(?:not)? be had\b": "is available",
    r"\bafter (?:Student|Holm|Benjamini)\b(?! and Hochberg's|'s)": "by Student's t, after Holm's correction",
    r"\bby heart\b": "memorise",
    r"\b(?:take|takes|took|taken) (?:it|them|one|that|those) out\b": "remove",
    r"\bnone of ours\b": "not supported",
    r"\bwhat came out\b": "the results",
    r"\bhas not the\b": "does not have the",
    r"\bwalked\b": "run, of a command",
}
"""Phrases that no page, message or comment says, and what to write; letters of either case."""
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
    return WHOLE.get(bare.lower()) or next((PARTS[word] for word in words if word in PARTS), None)


def sentences_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of what a file says: strings and comments of Python, comments of YAML, paragraphs."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        parts: set[int] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.JoinedStr):
                parts |= {id(part) for part in node.values}
                texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield node.lineno, "".join(map(str, texts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                yield node.lineno, node.value
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
    elif path.suffix == ".yaml":
        yield 1, " ".join(line.partition("#")[2] for line in source.splitlines())
    else:
        line = 1
        for paragraph in source.split("\n\n"):
            yield line, paragraph
            line += paragraph.count("\n") + 2


def phrases_in(text: str) -> Iterator[str]:
    """Yield each phrase of a text that is refused, and what to write."""
    words = " ".join(text.split())
    for phrase, advice in PHRASES.items():
        if match := re.search(phrase, words, re.IGNORECASE):
            yield f"{match.group(0)!r}, write {advice}"


PAGES = ("src/headtohead", "conf", "docs", "sweeps", "*.md")
"""The folders and files whose sentences users read."""


@pytest.mark.parametrize("where", PAGES)
def test_sentences_are_plain_english(where: str) -> None:
    entries = sorted(ROOT.glob(where))
    files = [file for entry in entries for file in (sorted(entry.rglob("*")) if entry.is_dir() else [entry])]
    files = [file for file in files if file.suffix in (".py", ".yaml", ".md")]
    assert files
    refused = [
        f"{file.relative_to(ROOT)}:{line}: {phrase}"
        for file in files
        for line, text in sentences_in(file)
        for phrase in phrases_in(text)
    ]
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.py", 'raise ValueError(f"{name} is "\n                 f"no arm")'),
        ("a.py", 'def f():\n    """Plan it anew."""'),
        ("a.py", "x = 1  # the sources of chance"),
        ("a.yaml", "a: 1  # what is lacking is\nb: 2  # uploaded"),
        ("a.md", "Fine.\n\nIt puts\nit right."),
    ],
)
def test_a_phrase_is_found_wherever_it_stands(name: str, source: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(source, encoding="utf-8")
    assert [phrase for _, text in sentences_in(tmp_path / name) for phrase in phrases_in(text)]
    assert not list(phrases_in("There is no such arm; it is no longer here, and is not an arm."))


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
    "source",
    [
        "told = 1",
        "def f(self, found): ...",
        "class NeverTold: ...",
        "self._kept = 2",
        "import a as strangers",
        "_KEPT = 1",
    ],
)
def test_a_coinage_is_found_however_a_name_is_defined(source: str) -> None:
    assert [name for _, name in names_in(source) if advice_on(name)]
    assert not advice_on("well_founded") and not advice_on("test_loss")
