"""STS-B, GLUE's task of grades, as its card tells it: https://huggingface.co/datasets/nyu-mll/glue"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from published_sets.writing import write_card, write_parquet

SIZES = {"train": 120, "validation": 30, "test": 10}
HIDDEN = -1.0


def write_stsb(folder: Path) -> None:
    from datasets import Features, Value

    types = {"sentence1": "string", "sentence2": "string", "label": "float32", "idx": "int32"}
    features = Features({name: Value(kind) for name, kind in types.items()})
    start = 0
    for split, size in SIZES.items():
        rows = []
        for row in range(start, start + size):
            grade = (row * 7 % 26) / 5
            same = " ".join(["plays"] * round(grade))
            texts = {"sentence1": f"Number {row} {same} a flute.", "sentence2": f"{same.title()} a large flute {row}."}
            rows.append({**texts, "label": HIDDEN if split == "test" else grade, "idx": row - start})
        write_parquet(folder / "stsb" / f"{split}-00000-of-00001.parquet", rows, features)
        start += size
    files = [{"split": split, "path": f"stsb/{split}-*"} for split in SIZES]
    message = [{"name": name, "dtype": kind} for name, kind in types.items()]
    card = {
        "license": ["other"],
        "dataset_info": [{"config_name": "stsb", "features": message}],
        "configs": [{"config_name": "stsb", "data_files": files}],
    }
    write_card(folder, card)


SETS: dict[str, Callable[[Path], None]] = {"stsb": write_stsb}
