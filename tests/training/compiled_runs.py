"""Runs of two steps, compiled and not, in a program of its own: the compiler cannot look through the tests' checks of
shapes. Called with a folder, a backend and the names of cases; prints a line of JSON for each."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

LANGUAGE = ["data.num_train=48", "data.num_validation=8", "data.num_test=8", "data.batch_size=8"]
CHARS = [*LANGUAGE, "data.tokenizer=char"]
LINES = [*CHARS, "data.context_length=16"]
IMAGES = ["data=digits", "task=image_classification", "data.batch_size=32", "trainer.train_rows=64"]
PAIRS = ["data=number_words", *CHARS]
LABELS = ["task=classification", "data=sentence_grammar", *CHARS]
SPANS = [*LINES, "data.packing=stream", "task.num_sentinels=4"]
MASKED = ["model=encoder_only", "task=masked_lm", *LINES]
SMALL = ["model.d_model=16", "model.num_heads=2", "model.num_layers=1"]
TWO_LAYERS = "model.num_layers=2"
"""Two layers, of which some are recomputed and others are not, or which share a loss."""
NARROW = ["model.d_model=16"]
FAMILIES: dict[str, list[str]] = {
    "bamba": ["model=bamba", *LINES, "model.d_model=16", "model.num_heads=2"],
    "bag_of_words": ["model=bag_of_words", *LABELS],
    "cnn": ["model=cnn", *IMAGES],
    "convnext": ["model=convnext", *IMAGES],
    "decoder_only": [*LINES, *SMALL],
    "encoder_decoder": ["model=encoder_decoder", "task=seq2seq", *PAIRS, *SMALL],
    "encoder_only": [*MASKED, *SMALL],
    "external": [
        "model=external", "model.module._target_=plain_modules.MaskedMean", "model.module.vocab_size=64",
        "model.module.num_classes=2", *LABELS,
    ],
    "fnet": ["model=fnet", "task=masked_lm", *LINES, "model.d_model=16"],
    "jamba": ["model=jamba", *LINES, "model.d_model=16", "model.num_heads=2"],
    "kimi_linear": ["model=kimi_linear", *LINES, "model.d_model=16", "model.num_heads=2"],
    "mlp": ["model=mlp", *IMAGES, *NARROW],
    "modernbert": ["model=modernbert", "task=masked_lm", *LINES, "model.d_model=16", "model.num_heads=2"],
    "ngpt": ["model=ngpt", *LINES, "model.d_model=16", "model.num_heads=2"],
    "qwen3_next": ["model=qwen3_next", *LINES, "model.d_model=16", "model.num_heads=2"],
    "recurrent": ["model=recurrent", *LINES, *NARROW],
    "recurrent_gemma": ["model=recurrent_gemma", *LINES, "model.d_model=16", "model.num_heads=2"],
    "recurrent_encoder_decoder": ["model=recurrent_encoder_decoder", "task=seq2seq", *PAIRS, *NARROW],
    "resnet": ["model=resnet", *IMAGES],
    "switch_transformers": ["model=switch_transformers", "task=seq2seq", *PAIRS, "model.num_heads=2", *NARROW],
    "swin": ["model=swin", *IMAGES, "model.window=2"],
    "text_cnn": ["model=text_cnn", *LABELS, *NARROW],
    "vision_transformer": ["model=vision_transformer", *IMAGES, *SMALL],
}  # fmt: skip
TASKS: dict[str, list[str]] = {
    "causal_lm": FAMILIES["decoder_only"],
    "classification": ["model=encoder_only", *LABELS, *SMALL],
    "compression": ["data=random_tokens", "task=compression", *LANGUAGE, *SMALL],
    "contrastive_pairs": ["model=encoder_only", "task=contrastive_pairs", *PAIRS, *SMALL],
    "image_classification": FAMILIES["vision_transformer"],
    "masked_lm": FAMILIES["encoder_only"],
    "multi_token_prediction": ["task=multi_token_prediction", *LINES, *SMALL],
    "span_corruption": ["model=encoder_decoder", "task=span_corruption", *SPANS, *SMALL],
    "span_corruption_one_row": ["task=span_corruption_one_row", *SPANS, *SMALL],
    "masked_diffusion": ["model=encoder_only", "task=masked_diffusion", *LINES, *SMALL],
    "masked_lm_next_sentence": [
        "model=encoder_only", "task=masked_lm_next_sentence", "data=next_sentence", "data.path=FOLDER/documents.txt",
        "data.documents=line", "data.tokenizer=char", "data.batch_size=8", *SMALL,
    ],
    "masked_image_modeling": ["model=vision_transformer", *IMAGES, "task=masked_image_modeling", *SMALL],
    "multiple_choice": ["task=multiple_choice", "data=sentence_grammar", *CHARS, *SMALL],
    "replaced_token_detection": ["model=encoder_only", "task=replaced_token_detection", *LINES, *SMALL],
    "seq2seq": FAMILIES["encoder_decoder"],
    "seq2seq_at_once": ["model=encoder_only", "task=seq2seq_at_once", *PAIRS, *SMALL],
    "seq2seq_one_row": ["task=seq2seq_one_row", *PAIRS, *SMALL],
    "similarity": ["model=encoder_only", "task=similarity", "data=similarity_grammar", *CHARS, *SMALL],
    "span_qa": ["model=encoder_only", "task=span_qa", "data=qa_grammar", *CHARS, *SMALL],
    "tagging": ["model=encoder_only", "task=tagging", "data=tagging_grammar", *CHARS, *SMALL],
}  # fmt: skip
PARTS: dict[str, list[str]] = {
    "experts": ["model/feedforward=moe", *FAMILIES["decoder_only"], TWO_LAYERS],
    "experts, recomputed": ["model/feedforward=moe", "checkpointing=full", *FAMILIES["decoder_only"], TWO_LAYERS],
    "experts, in every second layer": ["model.feedforward_pattern=[swiglu,moe]", *FAMILIES["decoder_only"], TWO_LAYERS],
    "values of the first layer": ["model/mixer=value_residual", *FAMILIES["decoder_only"], TWO_LAYERS],
    "values of the first layer, recomputed": [
        "model/mixer=value_residual",
        "checkpointing=full",
        *FAMILIES["decoder_only"],
        TWO_LAYERS,
    ],
    "redrawn": [
        "model/mixer=performer",
        "model/position=none",
        "model.mixer.redraw_every=1",
        *FAMILIES["decoder_only"],
    ],
    "batch_norm": ["model/norm=batch_norm", *MASKED, *SMALL],
    "batch_norm, recomputed": ["model/norm=batch_norm", "checkpointing=full", *MASKED, *SMALL],
}
CHECKPOINTING = ("none", "full", "every_k", "attention")
CASES: dict[str, list[str]] = {
    **{f"model={name}": case for name, case in FAMILIES.items()},
    **{f"task={name}": case for name, case in TASKS.items()},
    **{f"checkpointing={name}": [*LINES, *SMALL, TWO_LAYERS, f"checkpointing={name}"] for name in CHECKPOINTING},
    **PARTS,
}
QUIET = [
    "trainer.accelerator=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "trainer.log_every=1",
    "trainer.progress_bar=false", "trainer.num_samples=0", "tracking=none", "probe=none", "model.dropout=0",
]  # fmt: skip


def losses(folder: Path, case: list[str], *, compiled: bool) -> list[float]:
    """Those of both steps, and that of validation."""
    import headtohead as h2h
    from headtohead.records.run_folder import RunFolder

    has_none = {"model=external", "model=bag_of_words"} & set(case)
    quiet = QUIET[:-1] if has_none else QUIET
    placed = [one.replace("FOLDER", str(folder)) for one in case]
    record = h2h.train(h2h.compose("train", [*placed, *quiet, f"trainer.compile={compiled}", f"output_dir={folder}"]))
    assert record.status == "finished" and record.path is not None, record.reason
    result = RunFolder.open(record.path).metrics()
    return [value for name in ("train/loss", "validation/loss") if name in result for value in result[name].value]


def tried(folder: Path, case: list[str]) -> dict[str, Any]:
    import torch

    started, before = time.process_time(), _graphs()
    try:
        result = losses(folder, case, compiled=True)
    except ValueError as refusal:
        return {"refused": str(refusal)}
    seconds = time.process_time() - started
    message = {"compiled": result, "graphs": _graphs() - before, "seconds": round(seconds, 1)}
    torch.compiler.reset()
    return {**message, "eager": losses(folder, case, compiled=False)}


def _graphs() -> int:
    import torch._dynamo

    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


if __name__ == "__main__":
    target, backend, *names = sys.argv[1:]
    from headtohead.training.loop import compiled_model

    compiled_model.BACKEND = backend
    lines = [" ".join(f"Sentence {n} of text {text}." for n in range(6)) for text in range(30)]
    (Path(target) / "documents.txt").write_text("\n".join(lines), encoding="utf-8")
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for name in names or CASES:
        case = tuple(CASES[name])
        if case not in known:
            known[case] = tried(Path(target), CASES[name])
        sys.stdout.write(json.dumps({"case": name, **known[case]}) + "\n")
        sys.stdout.flush()
