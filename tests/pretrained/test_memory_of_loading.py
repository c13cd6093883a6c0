"""Loading a published model takes its own memory and a fifth of its file's size, sharded and in 16 bits too."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SPARE = 0.2
"""The share of the file's size that loading may take besides the model."""
SMALL: dict[str, Any] = {
    "vocab_size": 8000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12,
    "num_attention_heads": 12, "max_position_embeddings": 512,
}  # fmt: skip
BILLION: dict[str, Any] = {
    **SMALL, "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 18,
    "num_attention_heads": 32,
}  # fmt: skip
BYTES = {"float32": 4, "bfloat16": 2}
CODES = {"float32": "F32", "bfloat16": "BF16"}
PROBE = Path(__file__).with_name("memory_of_loading.py")


def write_zeros(folder: Path, sizes: Mapping[str, Any], kind: str, *, shards: int) -> int:
    """Write a model of zeros, in files whose zeros take no room on the disk; return its number of weights."""
    config = LlamaConfig(**sizes, architectures=["LlamaForCausalLM"])
    with torch.device("meta"):
        shapes = {name: list(held.shape) for name, held in LlamaForCausalLM(config).state_dict().items()}
    folder.mkdir()
    (folder / "config.json").write_text(config.to_json_string(use_diff=False))
    names = [f"model-{number + 1:05}-of-{shards:05}.safetensors" for number in range(shards)]
    where = {name: names[index * shards // len(shapes)] for index, name in enumerate(shapes)}
    for file in names if shards > 1 else ():
        _write_file(folder / file, {name: shapes[name] for name in shapes if where[name] == file}, kind)
    if shards > 1:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    else:
        _write_file(folder / "model.safetensors", shapes, kind)
    return sum(map(math.prod, shapes.values()))


def _write_file(path: Path, shapes: Mapping[str, Iterable[int]], kind: str) -> None:
    header, end = {}, 0
    for name, shape in shapes.items():
        start, end = end, end + BYTES[kind] * math.prod(shape)
        header[name] = {"dtype": CODES[kind], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def measured(folder: Path) -> dict[str, Any]:
    """Return what a process of its own says of loading it, in bytes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(PROBE), str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    message: dict[str, Any] = json.loads(done.stdout)
    return message


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read from Linux's /proc")
@pytest.mark.parametrize(
    ("sizes", "kind", "shards"),
    [
        pytest.param(SMALL, "float32", 1, marks=pytest.mark.whole),
        (SMALL, "float32", 4),
        (SMALL, "bfloat16", 3),
        pytest.param(BILLION, "float32", 5, marks=pytest.mark.whole),
        pytest.param(BILLION, "bfloat16", 1, marks=pytest.mark.whole),
    ],
)
def test_a_model_loads_within_its_own_memory_and_a_fifth_of_its_file(
    sizes: Mapping[str, Any], kind: str, shards: int, tmp_path: Path
) -> None:
    weights = write_zeros(tmp_path / "zeros", sizes, kind, shards=shards)
    assert sizes is SMALL or weights > 1e9
    message, file = measured(tmp_path / "zeros"), BYTES[kind] * weights
    assert message["fresh"] == []
    assert message["load"] < SPARE * file, (
        f"{message['load'] / 1e6:.0f} MB beside the model, for a file of {file / 1e6:.0f}"
    )
    assert message["model"] + message["load"] < 4 * weights + SPARE * file
