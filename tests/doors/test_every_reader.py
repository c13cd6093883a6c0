"""Every file of the package that reads what others may have written is fuzzed: by a command of the fuzzer's table, or
here by the function that reads it, of a good file whose content is changed field by field."""

from __future__ import annotations

import ast
import copy
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headtohead
from doors.damage import _positions
from doors.doors import DOORS
from headtohead.comparison.conditions import _made, _registered_arms
from headtohead.comparison.dashboard.served_folder import FILE, Marks
from headtohead.comparison.planned_runs import PLANNED_RUNS, read_planned_runs
from headtohead.comparison.report.map_pictures import read_maps as read_pictures
from headtohead.data.sources.hub import hub_memory
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.repository_listing import _remembered
from headtohead.errors import UsageError
from headtohead.execution.runs_per_device import _known
from headtohead.files.leases import _owner_of
from headtohead.interpretability.map_archive import read_maps
from headtohead.records.row_sums import read_rows
from headtohead.studies.matching import matching
from headtohead.wandb_client import registered_sweeps

PACKAGE = Path(headtohead.__file__).parent
READS = {
    "read_text", "read_json", "read_object", "read_yaml", "parse_json", "parse_yaml", "open_archive", "open_regular",
}  # fmt: skip
"""The functions that read files of others."""
BY_A_COMMAND = {
    "api/study_definition.py": "conf/study/asked.yaml",
    "cli/generate.py": "prompts.txt",
    "cli/listing.py": "conf/model/norm/ours.yaml",
    "comparison/csv_runs.py": "results.csv",
    "comparison/dashboard/study_list.py": "outputs/studies/asked/verdict.json",
    "comparison/registered_answers.py": "outputs/studies/asked/verdict.json",
    "comparison/study_board.py": "outputs/studies/asked/registrations/*.json",
    "config/compose/choices.py": "conf/model/norm/ours.yaml",
    "config/compose/composition.py": "conf/model/norm/ours.yaml",
    "config/compose/replacements.py": "conf/model/norm/ours.yaml",
    "config/origins/from_run.py": "outputs/one/run/config.yaml",
    "config/schema/meanings.py": "conf/model/norm/ours.yaml",
    "config/trust.py": "outputs/one/run/config.yaml",
    "data/tokenizers/tokenizer_choice.py": "outputs/one/run/tokenizer.json",
    "finished_runs/probe/probe_input.py": "images/no/1.png",
    "pretrained/hub_checkpoint.py": "hub/config.json",
    "records/index/stored_run.py": "outputs/one/run/record.json",
    "records/keeping/archive.py": "archived/run/archive.tar.gz",
    "records/metrics_file.py": "outputs/one/run/metrics.csv",
    "records/metrics_tail.py": "outputs/one/run/metrics.csv",
    "records/record.py": "outputs/one/run/record.json",
    "records/run_folder.py": "outputs/one/run/config.yaml",
    "records/signatures.py": "outputs/one/run/signatures.json",
    "studies/definition/nearest_study.py": "conf/study/asked.yaml",
    "studies/definition/read_study_file.py": "conf/study/asked.yaml",
    "studies/planning/registration.py": "outputs/studies/asked/registrations/*.json",
    "sweeps/read_sweep_file.py": "sweep.yaml",
}
"""The file by which a command of the fuzzer's table reaches each."""
OF_THE_USER = {
    "config/mentions.py": "the YAML of a model, which composing has read before",
    "data/cache/arrow_columns.py": "a cache of prepared rows; tests/data/cache damages it",
    "data/cache/prepared_content.py": "the same",
    "diagnostics/peers/peer_measurement.py": "an answer of a process that this one started",
    "execution/claims/choice.py": "an address, which PostgreSQL's client refuses",
    "execution/claims/postgres_claims.py": "a row of the group's own database",
    "files/lease_files.py": "the text of a lease, which leases.py reads",
    "finished_runs/embedding/vector_index.py": "a cache of vectors; tests/finished_runs/embedding damages it",
    "training/parallel/device_sheets.py": "a file of the package",
}
"""Files that the user's own account alone writes, or that say nothing by themselves."""
ARM = {
    "name": "a", "overrides": ["x=1"], "figures": {"parameters": 1.0}, "achieved": 1.0, "residual": 0.0, "met": True,
    "reason": "", "uncertainty": 0.0, "differs": {}, "timing": None,
}  # fmt: skip
MAPS = {
    "name": np.array("layer"), "kind": np.array("self"), "causal": np.array(True), "inputs": np.array([4, 4]),
    "weights": np.ones((1, 2, 4, 4), dtype=np.float16), "query_labels": np.array([list("abcd")]),
    "key_labels": np.array([list("abcd")]), "query_valid": np.ones((1, 4), dtype=bool), "channels": np.array(1),
    "key_valid": np.ones((1, 4), dtype=bool), "measure": np.array("attention"), "grid": np.array([2, 2]),
}  # fmt: skip
ROWS = {"metrics": np.array(["loss=loss/targets"]), "row": np.arange(4), "loss": np.ones(4), "targets": np.ones(4)}
OWNER = {"pid": 1, "started": "2", "machine": "m", "host": "h"}
LISTING = {"revision": "0" * 40, "files": [["a.csv", 1, None]], "card": {"configs": []}}
Read = Callable[[Path], object]
OBJECTS: dict[str, tuple[object, Read]] = {
    "comparison/conditions.py": ({"study": {"arms": {"a": ["model/norm=rms_norm"], "b": []}}}, lambda file: made(file)),
    "comparison/dashboard/served_folder.py": (
        {"a/run": {"star": True, "note": "x"}}, lambda file: Marks(file.parent)["a/run"],
    ),
    "comparison/planned_runs.py": (
        {"registration": "one.json", "since": None, "runs": ["a"]}, lambda file: is_planned(file),
    ),
    "execution/runs_per_device.py": ({"run": "a", "bytes": 10, "available": 100}, lambda file: at_once(file)),
    "files/leases.py": (OWNER, lambda file: alive(file)),
    "studies/matching/matching.py": ({"arm": ARM, "baseline": ARM}, matching._read),
    "wandb_client/registered_sweeps.py": ({"lr": {"value": 1}}, lambda _: registered_sweeps.sweep_values()),
    "data/sources/hub/hub_memory.py": ({"train": ["a.csv"]}, lambda file: fetched(file)),
    "data/sources/hub/hub_memory.py, listings": (LISTING, lambda file: listed(file)),
}  # fmt: skip
ARRAYS: dict[str, tuple[dict[str, np.ndarray], Read]] = {
    "comparison/report/map_pictures.py": (MAPS, lambda file: read_pictures(file, 4)),
    "interpretability/map_archive.py": (MAPS, read_maps),
    "records/row_sums.py": (ROWS, lambda file: read_rows(file.parents[1], "test")),
}
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    0.5,
    10**400,
    1e308,
    float("nan"),
    "",
    "../..",
    "/etc",
    "x" * 3000,
    [],
    [[]],
    {},
    "²",
)
ODD_ARRAYS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda held: held[:0], lambda held: held[:1], lambda held: held.reshape(1, -1), lambda _: np.array(3.0),
    lambda held: held.astype("U9"), lambda held: np.full(held.shape, np.nan), lambda held: np.full(held.shape, -1),
    lambda held: np.full(held.shape, np.inf), lambda _: np.zeros((2, 2, 2)), lambda _: np.array([]),
    lambda held: np.zeros(held.shape, dtype=[("a", "i4")]), lambda held: np.zeros(held.shape, dtype="M8[s]"),
    lambda held: np.full(held.shape, 2**63, dtype=np.uint64),
)  # fmt: skip
_CASES_OF_A_DRAW = 5


def is_planned(file: Path) -> bool:
    (file.parent / PLANNED_RUNS).write_bytes(file.read_bytes())
    return read_planned_runs(file.parent).has("a", "2026-01-01T00:00:00+00:00")


def at_once(file: Path) -> int:
    known = _known(file)
    return 1 if known is None else known.at_once


def made(file: Path) -> list[str]:
    registered = file.parents[1] / "registrations" / file.name
    registered.parent.mkdir(exist_ok=True)
    registered.write_bytes(file.read_bytes())
    arms = _registered_arms(file.parents[1] / "runs" / "a0")
    return [name for overrides in arms.values() for name in _made(overrides)]


def alive(file: Path) -> bool | None:
    owner = _owner_of(file.read_text(encoding="utf-8"))
    return None if owner is None else owner.is_alive()


def fetched(file: Path) -> bool:
    remembered = hub_memory._file("owner/set", hub_memory._fetched(None, "r"))
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_bytes(file.read_bytes())
    hub_memory.remember_fetched("owner/set", None, "r", "train", [file])
    return hub_memory.is_fetched("owner/set", None, "r")


def listed(file: Path) -> object:
    remembered = hub_memory._file("owner/set", hub_memory.listing_of("r"))
    remembered.parent.mkdir(parents=True, exist_ok=True)
    remembered.write_bytes(file.read_bytes())
    return _remembered(DatasetReference(name="owner/set"), "r")


def reading_files() -> set[str]:
    """Return the files of the package that read files of others."""
    reading = set()
    for path in PACKAGE.rglob("*.py"):
        calls = {node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)}
        if any(isinstance(called, ast.Name) and called.id in READS for called in calls):
            reading.add(str(path.relative_to(PACKAGE)))
    return reading - {"files/safe_read.py"}


@pytest.mark.slow
def test_every_reader_is_fuzzed() -> None:
    here = {name.partition(",")[0] for name in (*OBJECTS, *ARRAYS)}
    tables = (here, set(BY_A_COMMAND), set(OF_THE_USER))
    assert reading_files() == set().union(*tables), "add the file to OBJECTS or ARRAYS, or to a door and BY_A_COMMAND"
    assert sum(map(len, tables)) == len(set().union(*tables)), "one table names it"
    assert set(BY_A_COMMAND.values()) <= {
        pattern for doors in DOORS.values() for door in doors for pattern in door.reads
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_SWEEP_PARAM_PATH", str(tmp_path / "rows" / FILE))
    (tmp_path / "rows").mkdir()
    return tmp_path / "rows"


def check(read: Read, file: Path, what: object) -> None:
    """Read a file; a refusal is an error of ours or the disk's, and everything else is a fault."""
    try:
        read(file)
    except (UsageError, OSError):
        return
    except Exception as error:
        raise AssertionError(f"{what} became {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("name", OBJECTS)
def test_a_changed_field_is_read_or_refused(name: str, folder: Path, draw_seed: int) -> None:
    content, read = OBJECTS[name]
    file, draw = folder / FILE, random.Random(f"{name} {draw_seed}")
    file.write_text(json.dumps(content))
    read(file)
    for _ in range(_CASES_OF_A_DRAW):
        holder = copy.deepcopy([content])
        parent, key = draw.choice(list(_positions(holder)))
        if draw.random() < 0.2 and isinstance(parent, dict):
            del parent[key]
        else:
            parent[key] = draw.choice(ODD_VALUES)
        file.write_text(json.dumps(holder[0]))
        check(read, file, holder[0])


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", ARRAYS)
def test_a_changed_array_is_read_or_refused(name: str, folder: Path) -> None:
    content, read = ARRAYS[name]
    file = folder / "test.npz"
    for changed in content:
        for odd in (None, *ODD_ARRAYS):
            arrays = dict(content)
            try:
                arrays[changed] = arrays[changed] if odd is None else odd(arrays[changed])
            except (ValueError, IndexError, TypeError):  # there is no such form of this array
                continue
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)
            file.write_bytes(buffer.getvalue())
            check(read, file, (changed, arrays[changed]))


def test_the_law_finds_what_an_odd_field_breaks(folder: Path) -> None:
    (folder / FILE).write_text("[]")

    def trusting(file: Path) -> Any:
        return json.loads(file.read_text())["a"]

    with pytest.raises(AssertionError, match="became TypeError"):
        check(trusting, folder / FILE, "a list")
