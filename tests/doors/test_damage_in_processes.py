"""The law of doors in processes of their own: the exit code, the streams and what is left, as a shell sees them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from doors.damage import CANARY, a_folder, a_pickle, an_alias_bomb, another_type, emptied, flipped, nested, truncated
from doors.workplace import RUN
from warm_commands import h2h

_BEST, _LAST = f"{RUN}/checkpoints/best.ckpt", f"{RUN}/checkpoints/last.ckpt"
_CASES = [
    (_BEST, truncated, f"generate {RUN} --prompt the"),
    (_BEST, a_pickle, f"evaluate {RUN}"),
    (_BEST, flipped, f"export {RUN} --to safetensors --out new"),
    (_LAST, emptied, f"train resume_from={RUN} trainer.max_steps=3"),
    (_LAST, a_folder, f"train resume_from={RUN} trainer.max_steps=3"),
    (f"{RUN}/config.yaml", an_alias_bomb, f"probe {RUN} --text the"),
    (f"{RUN}/config.yaml", emptied, f"train --from-run {RUN} --cfg job"),
    (f"{RUN}/record.json", nested, f"compare {RUN}"),
    (f"{RUN}/tokenizer.json", truncated, f"embed {RUN} notes"),
    ("conf/study/asked.yaml", an_alias_bomb, "study asked --config-dir conf --plan"),
    ("sweep.yaml", nested, "sweep sweep.yaml --plan"),
    ("data.csv", another_type, "inspect task=classification model=encoder_only data=csv data.path=data.csv"),
]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("file", "kind", "command"), _CASES, ids=range(len(_CASES)))
def test_a_damaged_file_is_told_in_a_sentence_by_a_process(
    file: str,
    kind: object,
    command: str,
    workplace: tuple[Path, dict[Path, bytes]],
    tmp_path: Path,
) -> None:
    for name, content in workplace[1].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    target = tmp_path / file
    assert callable(kind)
    if kind is a_folder:
        a_folder(target)
    else:
        target.write_bytes(kind(target.read_bytes(), random.Random(0), target))
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(workplace[0].parent / "cache")}
    done = h2h(*command.split(), folder=tmp_path, environment=environment)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) <= 2 and lines[-1].startswith("error: ") and target.name in lines[-1], done.stderr
    assert not (tmp_path / CANARY).exists()
