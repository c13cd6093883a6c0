"""Every command with the files that it reads: the table that the fuzzer goes through."""

from __future__ import annotations

from dataclasses import dataclass

from workplace import OTHER, RUN, SMALL, STUDY_FOLDER

_RECORD, _CONFIG, _BEST = f"{RUN}/record.json", f"{RUN}/config.yaml", f"{RUN}/checkpoints/best.ckpt"
_LAST, _TOKENIZER, _METRICS = f"{RUN}/checkpoints/last.ckpt", f"{RUN}/tokenizer.json", f"{RUN}/metrics.csv"
_FINISHED = (_RECORD, _CONFIG, _BEST, _TOKENIZER)
_NORM = "conf/model/norm/ours.yaml"
_REGISTRATION = f"{STUDY_FOLDER}/registrations/*.json"
_RECORDS = f"{STUDY_FOLDER}/runs/*/record.json"
_OURS = ("--config-dir", "conf", "model/norm=ours")
_CLASSES = ("task=classification", "model=encoder_only", *SMALL[3:6])


@dataclass(frozen=True)
class Door:
    """One way to call a command, and patterns of the files that it reads by that."""

    arguments: tuple[str, ...]
    reads: tuple[str, ...]


def _composed(command: str, *more: str) -> Door:
    return Door((command, *SMALL, *_OURS, "--cfg", "job", *more), (_NORM,))


DOORS: dict[str, tuple[Door, ...]] = {
    "train": (
        Door(("train", f"resume_from={RUN}", "trainer.max_steps=2"), (_RECORD, _LAST)),
        Door(
            ("train", f"resume_from={RUN}", "trainer.max_steps=3", "output_dir=new"),
            (_RECORD, _LAST, _BEST, _METRICS, _TOKENIZER, _CONFIG),
        ),
        Door(("train", "--from-run", RUN, "--cfg", "job"), (_CONFIG,)),
        Door(("train", "--from-run", _RECORD, "--cfg", "job"), (_RECORD,)),
        Door(
            ("train", *SMALL, f"init_from=run:{RUN}", "trainer.max_steps=0", "output_dir=new"),
            (_RECORD, _BEST, _TOKENIZER, _CONFIG),
        ),
        _composed("train"),
    ),
    "study": (
        Door(("study", "asked", "--config-dir", "conf", "--plan"), ("conf/study/asked.yaml", _REGISTRATION, _RECORDS)),
        Door(
            ("study", "asked", "--config-dir", "conf"),
            (_REGISTRATION, f"{STUDY_FOLDER}/runs/*/metrics.csv", f"{STUDY_FOLDER}/verdict.json"),
        ),
    ),
    "sweep": (Door(("sweep", "sweep.yaml", "--plan"), ("sweep.yaml",)),),
    "inspect": (
        Door(("inspect", *_CLASSES, "data=csv", "data.path=data.csv"), ("data.csv",)),
        Door(("inspect", *_CLASSES, "data=json", "data.path=data.jsonl"), ("data.jsonl",)),
        Door(("inspect", *_CLASSES, "data=json", "data.path=data.json"), ("data.json",)),
        Door(("inspect", *_CLASSES, "data=parquet", "data.path=data.parquet"), ("data.parquet",)),
        Door(("inspect", "task=tagging", "model=encoder_only", "data=conll", "data.path=data.conll"), ("data.conll",)),
        Door(("inspect", "data=text", "data.path=book.txt", "data.context_length=8"), ("book.txt",)),
        Door(
            ("inspect", "data=text", "data.path=book.txt", "data.context_length=8", f"data.tokenizer={_TOKENIZER}"),
            (_TOKENIZER,),
        ),
        Door(
            (
                "inspect",
                "task=image_classification",
                "model=vision_transformer",
                "data=image_folder",
                "data.path=images",
                "data.image_size=8",
                "model.patch_size=4",
            ),
            ("images/*/*.png",),
        ),
        Door(("inspect", *SMALL, *_OURS), (_NORM,)),
    ),
    "compare": (
        Door(("compare", "outputs"), (_RECORD, f"{OTHER}/record.json", _RECORDS, _METRICS)),
        Door(
            ("compare", STUDY_FOLDER, "--against", "a", "--html", "new.html"),
            (_RECORDS, _REGISTRATION, f"{STUDY_FOLDER}/verdict.json", f"{STUDY_FOLDER}/runs/*/metrics.csv"),
        ),
        Door(("compare", "results.csv", "--metric", "loss", "--arm", "arm", "--against", "a"), ("results.csv",)),
    ),
    "match": (
        Door(
            (
                "match",
                *SMALL,
                "--config-dir",
                "conf",
                "--arm",
                "a=model/norm=ours",
                "--arm",
                "b=model/norm=rms_norm",
                "--budget",
                "equal_parameters",
                "--move",
                "width",
            ),
            (_NORM,),
        ),
    ),
    "bench": (_composed("bench"),),
    "doctor": (_composed("doctor"),),
    "coordinates": (_composed("coordinates"),),
    "check": (Door(("check", "mine.Mine"), ("mine.py",)),),
    "probe": (
        Door(("probe", RUN, "--text", "the cat", "--out", "new"), _FINISHED),
        Door(("probe", RUN, "--data", "--out", "new"), (_RECORD, _CONFIG, _TOKENIZER)),
    ),
    "evaluate": (Door(("evaluate", RUN), _FINISHED),),
    "embed": (
        Door(("embed", RUN, "notes", "--query", "who sleeps"), (*_FINISHED, "notes/birds.txt")),
        Door(
            ("embed", "bm25", "notes", "--queries", "queries.tsv", "--relevant", "relevant.tsv"),
            ("queries.tsv", "relevant.tsv", "notes/birds.txt"),
        ),
    ),
    "generate": (
        Door(("generate", RUN, "--prompts", "prompts.txt", "--max-new-tokens", "2"), (*_FINISHED, "prompts.txt")),
    ),
    "export": (Door(("export", RUN, "--to", "safetensors", "--out", "new"), _FINISHED),),
    "sync": (Door(("sync", "outputs", "--dry-run"), (_RECORD, f"{OTHER}/record.json")),),
    "list": (Door(("list", "model/norm", "--config-dir", "conf"), (_NORM,)),),
    "schema": (),  # it reads the files that ship alone
    "dashboard": (),  # it serves until it is stopped: test_dashboard.py asks it
}
