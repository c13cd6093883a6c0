"""Runs of two steps over one process or two, copied, sharded or divided, in a program of its own. Called with a folder
and the names of cases; prints a line of JSON for each case and way that is not refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from training.compiled_runs import FAMILIES, TASKS

WAYS = {"copied": ["trainer=ddp"], "sharded": ["trainer=fsdp"], "divided": ["trainer=tensor_parallel"]}
LOSSES = ("train/loss", "validation/loss")
DECODER = FAMILIES["decoder_only"]
TWO_LAYERS = ["model.num_layers=2"]
NO_POSITION = ["model/position=none"]
CASES: dict[str, list[str]] = {
    **{f"model={name}": case for name, case in FAMILIES.items() if name not in ("bag_of_words", "external")},
    **{f"task={name}": case for name, case in TASKS.items() if "next_sentence" not in name},
    "stick_breaking": [*DECODER, *TWO_LAYERS, "model/mixer=stick_breaking", *NO_POSITION],
    "disentangled": [*DECODER, *TWO_LAYERS, "model/mixer=disentangled_attention", *NO_POSITION],
    "kimi_delta": [*DECODER, *TWO_LAYERS, "model/mixer=kimi_delta", *NO_POSITION],
    "biased": [*DECODER, *TWO_LAYERS, "model/position=t5_bias"],
    "in 64 bits": [*DECODER, "precision=64-true"],
    "averaged": [*DECODER, "trainer.weight_averaging=0.9"],
    "looped": [*FAMILIES["encoder_only"], "model.loops=2", "model.embedding_width=8"],
    "soap": [*DECODER, "optimizer=soap"],
    "schedule_free": [*DECODER, "optimizer=schedule_free", "schedule=constant"],
    "experts": [*DECODER, *TWO_LAYERS, "model/feedforward=moe"],
    "shared experts": [*DECODER, *TWO_LAYERS, "model/feedforward=moe_shared"],
    "clamped experts": [*DECODER, *TWO_LAYERS, "model/feedforward=moe_clamped"],
}
QUIET = [
    "trainer.accelerator=cpu", "trainer.threads=1", "trainer.max_steps=2", "trainer.validate_every=2",
    "trainer.log_every=1", "trainer.progress_bar=false", "trainer.num_samples=0", "trainer.validation_batches=1",
    "trainer.keep_checkpoints=none", "tracking=none", "probe=none",
]  # fmt: skip


def overrides_of(case: str, folder: Path | str, way: str | None = None) -> list[str]:
    return [*QUIET, *CASES[case], *(WAYS[way] if way else []), f"output_dir={folder}"]


def losses(record: Any) -> list[float]:
    """Return those of both steps, and that of validation."""
    from headtohead.records.run_folder import RunFolder

    assert record.status == "finished" and record.path is not None, record.reason
    result = RunFolder.open(record.path).metrics()
    return [value for name in LOSSES if name in result for value in result[name].value]


def refusal(case: str, way: str) -> str | None:
    """Return why a run cannot be spread this way; None where it can."""
    from headtohead.config.compose.composition import compose_checked

    try:
        compose_checked("train", overrides_of(case, "outputs", way))
    except ValueError as error:
        return str(error)
    return None


def main(folder: str, names: list[str]) -> None:
    import headtohead as h2h
    from headtohead.training.parallel.process_group import is_main_process

    for name in names or CASES:
        for way in WAYS:
            message: dict[str, Any] = {"case": name, "way": way}
            if (reason := refusal(name, way)) is not None:
                message["refused"] = reason
            else:
                try:
                    record = h2h.train(h2h.compose("train", overrides_of(name, folder, way)))
                    message["losses"] = losses(record) if is_main_process() else []
                except ValueError as error:
                    message["refused"] = str(error)
            if is_main_process():
                sys.stdout.write(json.dumps(message) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
