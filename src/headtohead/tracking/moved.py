"""Classes that have moved since runs were recorded: configurations that name their old place are read with the new."""

from __future__ import annotations

from typing import Any

_FOLDERS = {
    "generated": (
        "associative_recall", "dyck", "grammar_lm", "induction", "listops", "modular_addition", "number_words",
        "pair_grammar", "pathfinder", "qa_grammar", "rewriting", "selective_copy", "sentence_grammar",
        "similarity_grammar", "tagging_grammar", "word_problem",
    ),
    "tables": ("conll_files", "csv_files", "json_files", "parallel_text", "parquet_files"),
}  # fmt: skip
"""Of headtohead.data, in which these modules did not stand at first."""
MOVED = {
    f"headtohead.data.{module}": f"headtohead.data.{folder}.{module}"
    for folder, modules in _FOLDERS.items()
    for module in modules
}


def as_named_now(config: Any) -> Any:
    """The same configuration, or part of one, with each `_target_` where its class is today."""
    if isinstance(config, dict):
        return {key: _place(item) if key == "_target_" else as_named_now(item) for key, item in config.items()}
    return [as_named_now(item) for item in config] if isinstance(config, list) else config


def _place(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    module, dot, name = target.rpartition(".")
    return f"{MOVED.get(module, module)}{dot}{name}"
