"""Head to Head: settle questions about neural-network architectures.

import headtohead as h2h
record = h2h.train(["model=decoder_only", "model/size=small"])
result = h2h.study(h2h.Study(question="RMSNorm?", arms={"layer": [], "rms": ["model/norm=rms_norm"]}, seeds=5))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headtohead.api.comparing import compare
    from headtohead.api.configurations import build_model, build_parts, choices, compose, inspect
    from headtohead.api.coordinate_check import coordinates
    from headtohead.api.diagnosing import bench, check, doctor
    from headtohead.api.finished import embed, evaluate, export, generate, lm_eval
    from headtohead.api.many_runs import train_many
    from headtohead.api.matching import match
    from headtohead.api.new_studies import new_study
    from headtohead.api.own_data import describe_data
    from headtohead.api.pages import dashboard, schema, wandb_page
    from headtohead.api.planning import plan
    from headtohead.api.probing import probe, probe_data, probe_positions
    from headtohead.api.retrieval import measure_retrieval, search
    from headtohead.api.run_lists import runs, verify_runs
    from headtohead.api.studies import study
    from headtohead.api.study_definition import StudyDefinition as Study
    from headtohead.api.sweeps import sweep
    from headtohead.api.syncing import sync
    from headtohead.api.training import load_run, read_record, train

__all__ = [
    "Study",
    "bench",
    "build_model",
    "build_parts",
    "check",
    "choices",
    "compare",
    "compose",
    "coordinates",
    "dashboard",
    "describe_data",
    "doctor",
    "embed",
    "evaluate",
    "export",
    "generate",
    "inspect",
    "lm_eval",
    "load_run",
    "match",
    "measure_retrieval",
    "new_study",
    "plan",
    "probe",
    "probe_data",
    "probe_positions",
    "read_record",
    "runs",
    "schema",
    "search",
    "study",
    "sweep",
    "sync",
    "train",
    "train_many",
    "verify_runs",
    "wandb_page",
]


def __getattr__(name: str) -> Any:
    """The public names are imported when they are first used: torch and Lightning cost seconds."""
    if name in __all__:
        return getattr(import_module("headtohead.api"), name)
    raise AttributeError(f"module 'headtohead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
