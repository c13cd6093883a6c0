"""Head to Head from Python: one documented function for each command, imported when it is first used.

The functions stand in the modules beside this file; `headtohead` hands out the same names.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

warnings.filterwarnings("ignore", message="IProgress not found")  # about bars of other packages in notebooks

PUBLIC: dict[str, str] = {
    "Study": "study_definition",
    "bench": "diagnosing",
    "build_model": "configurations",
    "build_parts": "configurations",
    "check": "diagnosing",
    "choices": "configurations",
    "compare": "comparing",
    "compose": "configurations",
    "coordinates": "coordinate_check",
    "dashboard": "pages",
    "describe_data": "own_data",
    "doctor": "diagnosing",
    "embed": "finished",
    "evaluate": "finished",
    "export": "finished",
    "generate": "finished",
    "inspect": "configurations",
    "lm_eval": "finished",
    "load_run": "training",
    "match": "matching",
    "measure_retrieval": "retrieval",
    "new_study": "new_studies",
    "plan": "planning",
    "probe": "probing",
    "probe_data": "probing",
    "probe_positions": "probing",
    "read_record": "training",
    "runs": "run_lists",
    "schema": "pages",
    "search": "retrieval",
    "study": "studies",
    "sweep": "sweeps",
    "sync": "syncing",
    "train": "training",
    "train_many": "many_runs",
    "verify_runs": "run_lists",
    "wandb_page": "pages",
}
"""The public names, and the module of each: torch and Lightning cost seconds, and a name costs what it needs."""
OTHER_NAMES = {"Study": "StudyDefinition"}


def __getattr__(name: str) -> Any:
    """Return a public name, imported now."""
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PUBLIC[name]}"), OTHER_NAMES.get(name, name))
