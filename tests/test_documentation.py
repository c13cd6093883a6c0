"""README, docs and --help hold: links lead somewhere, commands parse and compose, blocks of code are what they say."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import headtohead
from documents import DOCUMENTS, Block, Shown, blocks, broken_link, command_of, commands, links
from headtohead.config.compose.choices import choice_names, groups
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.definition.study import Study
from headtohead.studies.definition.study_fields import FIELDS
from headtohead.studies.planning.study_runs import StudyRuns
from headtohead.sweeps.read_sweep_file import sweep_from
from shown_commands import hold, is_readers

STUDY = {
    "question": "Is it so?",
    "hypothesis": "It is.",
    "tuning": "none",
    "arms": {"a": [], "b": ["model/norm=rms_norm"]},
    "seeds": 3,
    "metric": "test/loss",
    "direction": "min",
    "baseline": "a",
}
COMMANDS = commands()
_THIS_FILE = re.compile(r"[Tt]his (?:one )?is `((?:conf|sweeps)/[\w/]+\.yaml)`")
ROOT = Path(__file__).parent.parent
PROGRAM_FOLDERS = ("src", "tests", "benchmarks", "docs")
READERS_PROGRAMS = {"my_mixer.py", "utils.py"}
"""Files that a page has its reader write, or says not to write."""
PROGRAM = re.compile(r"`((?:(?:tests|src|benchmarks|docs)/[\w/]+|\w+)\.py)(?:::\w+)?`")
_READERS_CHOICE = re.compile(r"(?:^|[= ])([a-z_/]+)=(my_\w+|mine|ours)(?= |$)")


def shipped_file(block: Block) -> Path | None:
    """Return the file that a page says the block is, in the two lines before it or behind it."""
    lines = block.document.read_text(encoding="utf-8").splitlines()
    before = lines[max(0, block.line - 4) : block.line - 1]
    end = block.line + block.text.count("\n") + 1
    named = _THIS_FILE.search("\n".join([*before, *lines[end : end + 3]]))
    return None if named is None else ROOT / named[1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert [why for link in links(document) if (why := broken_link(document, link))] == []


def test_the_tutorial_on_reports_names_the_sections_that_a_report_has() -> None:
    """Each heading between the four verdicts and the files to take along is the title of a section."""
    text = (ROOT / "docs/tutorials/reading_a_report.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    first, last = headings.index("The four verdicts"), headings.index("Taking it with you")
    sources = (ROOT / "src/headtohead/comparison/report/sections").glob("*.py")
    titles = {title for file in sources for title in re.findall(r'Section\(\s*"([^"]+)"', file.read_text("utf-8"))}
    assert len(headings) > 6
    assert [heading for heading in headings[first + 1 : last] if heading not in titles] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_program_that_a_page_names_is_there(document: Path) -> None:
    named = set(PROGRAM.findall(document.read_text(encoding="utf-8")))
    there = {file.name for folder in PROGRAM_FOLDERS for file in (ROOT / folder).rglob("*.py")} | READERS_PROGRAMS
    assert sorted(name for name in named if not ((ROOT / name).exists() if "/" in name else name in there)) == []


@pytest.mark.parametrize("shown", COMMANDS, ids=lambda shown: " ".join(shown.words))
def test_every_command_parses_and_composes(shown: Shown) -> None:
    if shown.refusal:
        with pytest.raises(ValueError, match=re.escape(shown.refusal)):
            hold(shown.words)
    else:
        hold(shown.words)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_choice_of_the_readers_is_a_file_that_the_page_names(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    typed = {pair for shown in commands([document]) for word in shown.words for pair in _READERS_CHOICE.findall(word)}
    own = [(group, choice) for group, choice in typed if group in groups() and choice not in choice_names(group)]
    assert [f"{group}={choice}" for group, choice in own if f"{group}/{choice}.yaml" not in text] == []


def test_the_readers_table_has_the_same_columns_on_every_page() -> None:
    texts = [" ".join(shown.words) for shown in commands(DOCUMENTS)] + [block.text for block in blocks("yaml")]
    reading = [text for text in texts if "data=csv" in text and "data.path=reviews.csv" in text]
    assert len(reading) > 4
    for column in ("data.text_column=review", "data.label_column=stars"):
        assert [text for text in reading if column not in text] == []


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.name)
def test_every_yaml_block_is_a_study_a_sweep_or_a_choice(block: Block, tmp_path: Path) -> None:
    hold_yaml(block, tmp_path)


@pytest.mark.parametrize("block", [block for block in blocks("yaml") if shipped_file(block)], ids=lambda one: one.name)
def test_a_block_that_is_said_to_be_a_shipped_file_has_its_fields(block: Block) -> None:
    file = shipped_file(block)
    assert file is not None
    assert yaml.safe_load(block.text) == yaml.safe_load(file.read_text(encoding="utf-8"))


def test_some_blocks_are_shipped_files_so_that_the_law_above_can_fail() -> None:
    assert len([block for block in blocks("yaml") if shipped_file(block)]) > 1


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_every_python_block_compiles_and_names_what_exists(block: Block) -> None:
    hold_python(block.text)


def hold_yaml(block: Block, folder: Path) -> None:
    content = yaml.safe_load(block.text)
    if "method" in content or "program" in content:
        sweep_from("shown", content)
    elif set(content) & set(FIELDS):
        made = ("arms", "baseline") if "ablation" in content else ()
        hold_study(study_from("shown", {**{key: value for key, value in STUDY.items() if key not in made}, **content}))
    elif "defaults" in content:
        _hold_choice(block, content, folder)
    else:
        assert is_readers(content["_target_"]), f"{block.name} is neither a study, nor a sweep, nor a choice"


def hold_study(study: Study) -> None:
    """Every arm and every foundation composes, but for those with choices of the reader's."""
    runs = StudyRuns(study, lambda overrides: compose_checked("train", overrides))
    for arm, own in study.arms.items():
        if not any(map(is_readers, (*study.base, *own))):
            runs.of(arm, study.seeds[0])
    for name in study.foundations:
        runs.foundation(name, study.seeds[0])


def test_a_study_on_a_page_whose_foundation_cannot_be_composed_is_refused() -> None:
    arms = {"a": [], "b": ["init_from=foundation:first"]}
    study = study_from("shown", {**STUDY, "arms": arms, "foundations": {"first": ["data.none=1"]}})
    with pytest.raises(ConfigurationError, match=r"arm first: data\.none"):
        hold_study(study)


def _hold_choice(block: Block, content: dict[str, Any], folder: Path) -> None:
    """A file of the group whose choice it starts from."""
    start = content["defaults"][0]
    (group,) = (group for group in groups() if start in choice_names(group))
    (folder / group).mkdir(parents=True)
    (folder / group / "shown.yaml").write_text(block.text, encoding="utf-8")
    root = "launch" if group == "launcher" else "train"
    assert compose_checked(root, [f"{group}=shown"], folder)["choices"][group] == "shown"


def hold_python(text: str) -> None:
    """Names of the package are looked up, those of the objects that it gives are not."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                getattr(import_module(str(node.module)), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                import_module(alias.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "h2h":
            getattr(headtohead, node.attr)


@pytest.mark.parametrize("link", ["docs/none.md", "docs/record.md#none", "#none"])
def test_a_dead_link_is_found(link: str) -> None:
    assert broken_link(DOCUMENTS[0], link)


@pytest.mark.parametrize(
    "line",
    [
        "h2h trian",
        "h2h train --none",
        "h2h train trainer.none=1",
        "h2h train trainer.none=RUN",
        "h2h train none=RUN",
        "h2h train experiment=none",
        "h2h train -m model/norm=missing,rms_norm",
        "h2h train launcher=none",
        "h2h inspect model.none=1",
        "h2h bench bench.none=1",
        "h2h evaluate RUN data=none",
        "h2h evaluate RUN none.path=1",
        "h2h probe --data data.none=1",
        "h2h evaluate RUN --shots many",
        "h2h study none --plan",
        "h2h study norms model.none=1",
        "h2h match none",
        "h2h match --arm a= --arm b=model/mixer=none",
        "h2h match --arm a= --arm b= --budget none",
        "h2h sweep sweeps/none.yaml",
        "h2h sweep sweeps/schedules.yaml model.none=1",
        "h2h list none",
        "srun --ntasks=16 h2h study norms --none",
        "torchrun --nproc_per_node=2 -m headtohead train --none",
        "make none",
        "make NONE=1 test",
        "python benchmarks/none.py",
        "python benchmarks/preparing.py wmt14 --none 1",
        "pytest tests/none",
    ],
)
def test_a_command_that_cannot_be_right_is_found(line: str) -> None:
    with pytest.raises(ValueError):
        hold(command_of(line))


@pytest.mark.parametrize("text", ["h2h.none()", "from headtohead.records.run_folder import none", "import none", "a b"])
def test_python_that_names_nothing_is_found(text: str) -> None:
    with pytest.raises((AttributeError, ImportError, SyntaxError)):
        hold_python(text)


@pytest.mark.parametrize(
    "text",
    [
        "question: Is it?\nnone: 1",
        "tuning: {search: none}",
        "ablation: {kind: none}",
        "method: none\nparameters: {}\ncommand: [h2h, train]",
        "defaults: [hub]\nnone: 1",
    ],
)
def test_yaml_that_means_nothing_is_found(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        hold_yaml(Block(DOCUMENTS[0], 1, "yaml", text), tmp_path)
