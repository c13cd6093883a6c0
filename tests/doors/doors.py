"""Every command with the files that it reads: the table that the fuzzer goes through."""

from __future__ import annotations

from dataclasses import dataclass

from doors.workplace import ARCHIVED, OTHER, PICTURES, RUN, SMALL, STUDY_FOLDER, VISION

_RECORD, _CONFIG, _BEST = f"{RUN}/record.json", f"{RUN}/config.yaml", f"{RUN}/checkpoints/best.ckpt"
_LAST, _TOKENIZER, _METRICS = f"{RUN}/checkpoints/last.ckpt", f"{RUN}/tokenizer.json", f"{RUN}/metrics.csv"
_FINISHED = (_RECORD, _CONFIG, _BEST, _TOKENIZER)
_NORM = "conf/model/norm/ours.yaml"
_REGISTRATION = f"{STUDY_FOLDER}/registrations/*.json"
_RECORDS = f"{STUDY_FOLDER}/runs/*/record.json"
_OURS = ("--config-dir", "conf", "model/norm=ours")
_HUB = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_WANDB = f"{RUN}/wandb/*/run-abc.wandb"
_BOOK = ("book.txt",)
_PUBLISHED = ("published/README.md", "published/data/*.parquet")
_PUBLISHED_PICTURES = ("pictured/README.md", "pictured/data/*.parquet")
_PICTURED = ("inspect", *PICTURES[:2], *PICTURES[4:])
_STREAMED = ("data.num_validation=4", "data.num_test=4", "data.num_learned=8", "data.lanes=1", "data.context_length=8")
_TRANSLATED = ("inspect", "task=seq2seq", "model=encoder_decoder", *SMALL[3:6])
_CLASSES = ("task=classification", "model=encoder_only", *SMALL[3:6])


@dataclass(frozen=True)
class Door:
    """One way to call a command, and patterns of the files that it reads by that."""

    arguments: tuple[str, ...]
    reads: tuple[str, ...]
    lists_damage: bool = False
    """The answer of the command, on standard output, is what is wrong with files."""


def _composed(command: str, *more: str) -> Door:
    return Door((command, *SMALL, *_OURS, "--cfg", "job", *more), (_NORM,))


DOORS: dict[str, tuple[Door, ...]] = {
    "train": (
        Door(
            ("train", f"resume_from={RUN}", "trainer.max_steps=3"),
            (_RECORD, _LAST, _BEST, _METRICS, _TOKENIZER, _CONFIG, f"{RUN}/signatures.json"),
        ),
        Door(("train", "--from-run", RUN, "--cfg", "job"), (_CONFIG,)),
        Door(("train", "--from-run", _RECORD, "--cfg", "job"), (_RECORD,)),
        Door(
            ("train", *SMALL, f"init_from=run:{RUN}", "trainer.max_steps=0", "output_dir=new"),
            (_RECORD, _BEST, _TOKENIZER, _CONFIG),
        ),
        _composed("train"),
        Door(
            ("train", *SMALL[:3], *SMALL[8:], "init_from=hf:hub", "trainer.max_steps=0", "output_dir=new"),
            tuple(f"hub/{name}" for name in _HUB),
        ),
    ),
    "study": (
        Door(("study", "asked", "--config-dir", "conf", "--plan"), ("conf/study/asked.yaml", _REGISTRATION, _RECORDS)),
        Door(
            ("study", "asked", "--config-dir", "conf"),
            (_REGISTRATION, f"{STUDY_FOLDER}/runs/*/metrics.csv", f"{STUDY_FOLDER}/verdict.json"),
        ),
        Door(("study", "new", "fresh", "data.csv"), ("data.csv",)),
    ),
    "sweep": (
        Door(("sweep", "sweep.yaml", "--plan"), ("sweep.yaml",)),
        Door(("sweep", "sweep.yaml", "--config-dir", "conf", "--plan", *_OURS[2:]), ("sweep.yaml", _NORM)),
    ),
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
        Door(("inspect", *PICTURES), ("images/*/*.png",)),
        Door(("inspect", "--from-run", RUN), (_CONFIG,)),
        Door(("inspect", *SMALL, *_OURS), (_NORM,)),
        Door(
            (*_TRANSLATED, "data=parallel_text", "data.path=pairs", "data.source=de", "data.target=en"),
            ("pairs/train.de", "pairs/train.en"),
        ),
        Door(
            ("inspect", "task=masked_lm_next_sentence", *_CLASSES[1:], "data=next_sentence", "data.path=book.txt"),
            _BOOK,
        ),
        Door(("inspect", *_CLASSES, "data=hub", "data.folder=published"), _PUBLISHED),
        Door(("inspect", "data=hub_corpus", "data.folder=published", "data.context_length=8"), _PUBLISHED),
        *(
            Door((*_PICTURED[:3], f"data={name}", "data.folder=pictured", *_PICTURED[3:]), _PUBLISHED_PICTURES)
            for name in ("hub_images", "stream_images")
        ),
        Door(("inspect", "data=stream", "data.folder=published", *_STREAMED), _PUBLISHED),
        Door(
            (
                "inspect",
                *_CLASSES,
                "data=csv",
                "data.path=data.csv",
                "augmentation=synonyms",
                "augmentation.steps.synonyms.path=synonyms.tsv",
            ),
            ("synonyms.tsv",),
        ),
        Door(("inspect", *SMALL[:3], "init_from=hf:hub"), tuple(f"hub/{name}" for name in _HUB)),
        Door(
            ("inspect", *SMALL[:3], "init_from=hf:hub-in-parts"),
            ("hub-in-parts/model.safetensors.index.json", "hub-in-parts/model-1.safetensors"),
        ),
        Door(
            ("inspect", "data=text", "data.path=book.txt", "data.context_length=8", "data.tokenizer=hf:hub"),
            ("hub/tokenizer.json", "hub/tokenizer_config.json"),
        ),
    ),
    "compare": (
        Door(("compare", "outputs"), (_RECORD, f"{OTHER}/record.json", _RECORDS, _METRICS, f"{RUN}/rows/test.npz")),
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
    "doctor": (_composed("doctor"), Door(("doctor", "--from-run", RUN, "--check", "forward"), (_CONFIG,))),
    "coordinates": (_composed("coordinates"),),
    "check": (Door(("check", "mine.Mine"), ("mine.py",)),),
    "probe": (
        Door(("probe", RUN, "--text", "the cat", "--out", "new"), _FINISHED),
        Door(("probe", RUN, "--against", RUN, "--text", "the cat", "--out", "new"), _FINISHED),
        Door(("probe", RUN, "--data", "--out", "new"), (_RECORD, _CONFIG, _TOKENIZER)),
        Door(
            ("probe", VISION, "--image", "images/no/1.png", "--out", "new"),
            ("images/no/1.png", f"{VISION}/config.yaml", f"{VISION}/checkpoints/best.ckpt"),
        ),
        Door(("probe", "--positions", *SMALL, *_OURS, "--out", "new"), (_NORM,)),
    ),
    "evaluate": (
        Door(("evaluate", RUN), _FINISHED),
        Door(("evaluate", RUN, "--config-dir", "conf", "data.batch_size=4"), _FINISHED[:2]),
    ),
    "embed": (
        Door(("embed", RUN, "notes", "--query", "who sleeps"), (*_FINISHED, "notes/birds.txt")),
        Door(
            ("embed", "bm25", "notes", "--queries", "queries.tsv", "--relevant", "relevant.tsv"),
            ("queries.tsv", "relevant.tsv", "notes/birds.txt"),
        ),
        Door(
            ("embed", "bm25", "notes.csv", "--queries", "queries.jsonl", "--relevant", "judged.tsv"),
            ("notes.csv", "queries.jsonl", "judged.tsv"),
        ),
        Door(("embed", "bm25", "notes.jsonl", "--query", "who sleeps"), ("notes.jsonl",)),
        Door(
            ("embed", RUN, "notes.csv", "--query", "who", "--rerank", "2"),
            (_RECORD, _CONFIG),
        ),
    ),
    "generate": (
        Door(("generate", RUN, "--prompts", "prompts.txt", "--max-new-tokens", "2"), (*_FINISHED, "prompts.txt")),
    ),
    "export": (Door(("export", RUN, "--to", "safetensors", "--out", "new"), _FINISHED),),
    "sync": (Door(("sync", "outputs", "--dry-run"), (_RECORD, f"{OTHER}/record.json", _WANDB)),),
    "list": (
        Door(("list", "model/norm", "--config-dir", "conf"), (_NORM,)),
        Door(("list", "runs", "outputs"), (_RECORD, f"{OTHER}/record.json", _RECORDS, _METRICS)),
    ),
    "runs": (
        Door(("runs", "tag", RUN, "--add", "paper", "--yes"), (_RECORD,)),
        Door(("runs", "archive", RUN, "--yes"), (_RECORD,)),
        Door(("runs", "prune", "outputs", "--top", "1", "--yes"), (_RECORD, f"{OTHER}/record.json")),
        Door(("runs", "restore", ARCHIVED, "--yes"), (f"{ARCHIVED}/record.json", f"{ARCHIVED}/archive.tar.gz")),
        Door(("runs", "verify", "outputs"), (_RECORD, _METRICS, _BEST, f"{RUN}/rows/test.npz"), lists_damage=True),
        Door(("runs", "verify", "archived"), (f"{ARCHIVED}/archive.tar.gz",), lists_damage=True),
    ),
    "plan": (
        Door(("plan", "--on", "h100x8", *SMALL, *_OURS), (_NORM,)),
        Door(("plan", "--on", "h100x8", "--from-run", _RECORD), (_RECORD,)),
        Door(("plan", "--on", "h100x8", *SMALL[:3], "init_from=hf:hub"), tuple(f"hub/{name}" for name in _HUB[:2])),
        Door(("plan", "--on", "h100x8", "--study", "asked", "--config-dir", "conf"), ("conf/study/asked.yaml",)),
    ),
    "data": tuple(
        Door(("data", path), (reads,))
        for path, reads in {
            **{path: path for path in ("data.csv", "data.jsonl", "data.json", "data.parquet", "data.conll", *_BOOK)},
            "images": "images/*/*.png",
            "pairs": "pairs/train.*",
            "published": "published/data/*.parquet",
        }.items()
    ),
    "schema": (),  # it reads the files that ship alone
    "dashboard": (),  # it serves until it is stopped: test_dashboard.py asks it
}
