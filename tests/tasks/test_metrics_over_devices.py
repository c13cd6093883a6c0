"""Two processes measure what one would: sums are added, no sample counts twice, and a process may have none."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification

# Rows per process: uneven, and none at all on the second one in the second round.
ROUNDS = ([(0, 5), (5, 8)], [(0, 8), (8, 8)])
SPEC = DataSpec(kind="labelled_text", vocab_size=29, num_classes=3)


def measure(start: int, stop: int) -> dict[str, float]:
    from small_models import small_model

    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 29, (8, 9), generator=generator)
    labels = torch.randint(0, 3, (8,), generator=generator)
    rows = slice(start, stop)
    language, labelled = CausalLanguageModelling().bind(SPEC), Classification().bind(SPEC)
    if stop > start:
        decoder = small_model("decoder_only").double().eval()
        language.measure("test", decoder, language.view(Batch(torch.arange(8)[rows], tokens[rows]), seed=0, epoch=0))
        encoder = small_model("encoder_only", head="classifier", num_classes=3).double().eval()
        labelled.measure("test", encoder, Batch(torch.arange(8)[rows], tokens[rows], targets=labels[rows]))
    return {**language.results("test"), **{f"class_{k}": v for k, v in labelled.results("test").items()}}


def one_process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    results = [measure(*parts[rank]) for parts in ROUNDS]
    dist.destroy_process_group()
    torch.save(results, Path(folder) / f"{rank}.pt")


def test_results_of_two_processes_equal_those_of_one(tmp_path: Path) -> None:
    mp.spawn(one_process, args=(str(tmp_path),), nprocs=2)
    expected = measure(0, 8)
    for rank in range(2):
        for results in torch.load(tmp_path / f"{rank}.pt"):
            assert results.keys() == expected.keys()
            assert all(abs(results[name] - expected[name]) < 1e-12 for name in expected)
