"""Files and folders get their names in one place, which puts what is in them on the disk first."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headtohead
from faulty_disk import RecordingDisk
from headtohead.data.cache import prepared_content
from headtohead.files import disk_operations as files_disk
from headtohead.files.atomic_write import move_into_place, replace_by_name
from headtohead.files.disk_operations import OutOfDisk
from headtohead.pretrained.checkpoint_writer import write_safetensors

SOURCE = Path(headtohead.__file__).parent
OF_SYSTEM = {"os.replace", "os.rename", "os.renames", "shutil.move", "shutil.copy", "shutil.copyfile", "shutil.copy2"}
OF_LIBRARIES = {"save_file", "torch.save", "save_model", "torch.export.save", "np.save", "np.savez", "json.dump"}
"""They write at once what takes seconds; given an open file, or within the door, they are as good as any."""
OF_PATHS = {"write_text", "write_bytes", "savefig", "tofile", "save", "open"}
"""Methods that write a file in its place. What another call puts in place as a whole is written below a folder that is
called `unfinished`, or in a temporary one; an open file is called `content`."""

NAMES = {called.rpartition(".")[2] for called in OF_SYSTEM | OF_LIBRARIES} | OF_PATHS


def names_given(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield calls by which a path gets a name, and those of weights that are told one, with their lines."""
    within = {id(node) for door in ast.walk(tree) if _is_door(door) for node in ast.walk(door)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in within or _last_name(node.func) not in NAMES:
            continue
        called = ast.unparse(node.func)
        of_path = isinstance(node.func, ast.Attribute) and node.func.attr in ("rename", "replace")
        renames = of_path and len(node.args) == 1 and not node.keywords
        if called in OF_SYSTEM | OF_LIBRARIES or renames or _writes_in_place(node, called):
            yield called, node.lineno


def _is_door(node: ast.AST) -> bool:
    """Return whether what stands within is written to a file of another name first."""
    if isinstance(node, ast.With):
        return any("TemporaryDirectory" in ast.unparse(item.context_expr) for item in node.items)
    return isinstance(node, ast.Call) and _last_name(node.func) in ("replace_file", "replace_by_name")


def _last_name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _writes_in_place(call: ast.Call, called: str) -> bool:
    of = called.lstrip("(")
    name = of.rpartition(".")[2]
    if name == "open":
        if any(option.arg == "fileobj" for option in call.keywords):
            return False  # an archive in a file that is open
        modes = [*call.args[:2], *(option.value for option in call.keywords if option.arg == "mode")]
        return any(isinstance(mode, ast.Constant) and str(mode.value)[:1] in ("w", "x") for mode in modes)
    if name not in OF_PATHS:
        return False
    first = ast.unparse(call.args[0]) if call.args else ""
    if of in ("save", "run.save") or (name == "save" and first in ("", "content", "file")):
        return False  # a function of ours, and an upload to W&B
    return not of.startswith(("unfinished", "Path('/proc/"))


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("unfinished.replace(path)", True),
        ("Path(name).rename(folder / 'x')", True),
        ("os.replace(a, b)", True),
        ("save_file(weights, file, metadata={})", True),
        ("torch.save(weights, path)", True),
        ("figure.savefig(path, dpi=130)", True),
        ("picture.save(path)", True),
        ("Image.fromarray(pixels).save(folder / 'x.png', 'PNG')", True),
        ("(folder / 'x').write_text(text, encoding='utf-8')", True),
        ("path.write_bytes(b'x')", True),
        ("array.tofile(path)", True),
        ("with open(path, 'w') as file: json.dump(x, file)", True),
        ("with path.open('wb') as file: file.write(x)", True),
        ("with path.open(mode='xb') as file: file.write(x)", True),
        ("with path.open('rb') as file: file.read()", False),
        ("with log.open('ab') as file: file.write(x)", False),
        ("(unfinished / 'x').write_text(text)", False),
        ("with TemporaryDirectory() as folder: Path(folder, 'x').write_text(text)", False),
        ("picture.save(content, 'PNG')", False),
        ("tarfile.open(path, mode='w:gz')", True),
        ("tarfile.open(fileobj=content, mode='w:gz')", False),
        ("replace_file(path, lambda file: torch.save(weights, file))", False),
        ("text.replace('a', 'b')", False),
        ("replace(self, step=1)", False),
        ("moment.replace(tzinfo=UTC)", False),
    ],
)
def test_the_law_sees_what_it_is_about(line: str, is_found: bool) -> None:
    assert bool(list(names_given(ast.parse(line)))) is is_found


@pytest.mark.slow
def test_nothing_else_gives_a_file_its_name() -> None:
    result = [
        f"{file.relative_to(SOURCE)}:{line}: {called}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.parent != SOURCE / "files"
        for called, line in names_given(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert result == [], "use headtohead/files/atomic_write.py"


def test_a_power_cut_leaves_no_folder_that_is_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every byte in it, and its own list of names, are on the disk before the folder has its name."""
    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    unfinished, target = tmp_path / "unfinished", tmp_path / "whole"
    (unfinished / "deeper").mkdir(parents=True)
    files = [unfinished / "a", unfinished / "deeper" / "b"]
    for file in files:
        file.write_text("x")
    move_into_place(unfinished, target)

    kinds = [(one.kind, one.path) for one in disk.operations]
    named = kinds.index(("rename", str(unfinished)))
    assert set(kinds[:named]) == {
        *(("sync", str(file)) for file in files),
        *(("sync_folder", str(folder)) for folder in (unfinished, unfinished / "deeper")),
    }
    assert kinds[named + 1 :] == [("sync_folder", str(tmp_path))]
    assert (target / "deeper" / "b").read_text() == "x"


def test_weights_that_a_library_writes_by_name_are_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Full(RecordingDisk):
        def free_bytes(self, folder: Path) -> int:
            return 0

    def fails(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("an error of a library's own")

    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    write_safetensors({"w": torch.zeros(4)}, tmp_path / "model.safetensors")
    assert [one.kind for one in disk.operations] == ["sync", "rename", "sync_folder"]
    whole = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(RuntimeError, match="of a library's own"):
        replace_by_name(tmp_path / "model.safetensors", fails)
    monkeypatch.setattr(files_disk, "system", Full())
    with pytest.raises(OutOfDisk, match=r"model\.safetensors was not written"):
        replace_by_name(tmp_path / "model.safetensors", fails)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("model.safetensors", whole)]


def test_a_cache_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    disk = RecordingDisk()
    monkeypatch.setattr(files_disk, "system", disk)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path))
    prepared_content.prepared(
        "rows", {"n": 1}, lambda: prepared_content.PreparedContent({"train": {"x": np.arange(3)}})
    )

    named = [one.kind for one in disk.operations].index("rename")
    synced = {Path(one.path).name for one in disk.operations[:named] if one.kind == "sync"}
    assert synced == {"manifest.json", "train.arrow"}
