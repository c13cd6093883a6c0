"""Two processes measure what one would: sums are added, no sample counts twice, and a process may have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataSpec
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.classification import Classification
from headtohead.tasks.contrastive_pairs import ContrastivePairs
from headtohead.tasks.next_sentence import MaskedLanguageModellingWithNextSentence
from headtohead.tasks.seq2seq_one_stack import SequenceToSequenceInOneRow
from headtohead.tasks.similarity import Similarity
from headtohead.tasks.span_qa import SpanQuestionAnswering
from headtohead.tasks.tagging import Tagging
from headtohead.tasks.task import Task

# Rows per process: uneven, and none at all on the second one in the second round.
ROUNDS = ([(0, 5), (5, 8)], [(0, 8), (8, 8)])
LABELLED = DataSpec(kind="labelled_text", vocab_size=29, num_classes=3)


def cases() -> dict[str, tuple[Task, str, DataSpec, Batch]]:
    """Return task, head, data and eight rows of it."""
    from small_batches import (
        NEXT,
        PAIRS,
        QUESTIONS,
        SCORES,
        TAGS,
        answered_batch,
        decode,
        pair_batch,
        question_batch,
        scored_batch,
        sentence_pair_batch,
        tagged_batch,
    )

    generator = torch.Generator().manual_seed(0)
    rows, tokens = torch.arange(8), torch.randint(0, 29, (8, 9), generator=generator)
    labels = torch.randint(0, 3, (8,), generator=generator)
    answers = DataSpec(kind="language", vocab_size=29, num_scored=2)
    pair_task = MaskedLanguageModellingWithNextSentence()
    writing = SequenceToSequenceInOneRow(text_metrics=["bleu", "chrf", "rouge"])
    texts = replace(PAIRS, decode=decode)
    return {
        "language": (CausalLanguageModelling(), "language_model", LABELLED, Batch(rows, tokens)),
        "answers": (CausalLanguageModelling(), "language_model", answers, answered_batch(8)),
        "labels": (Classification(), "classifier", LABELLED, Batch(rows, tokens, targets=labels)),
        "tags": (Tagging(), "tagger", TAGS, tagged_batch(8)),
        "questions": (SpanQuestionAnswering(), "span", QUESTIONS, question_batch(8)),
        "scores": (Similarity(), "regressor", SCORES, scored_batch(8)),
        "retrieval": (ContrastivePairs(candidates=3), "text_vector", PAIRS, pair_batch(8)),
        "texts": (writing, "language_model", texts, pair_batch(8)),
        "pairs": (pair_task, "masked_language_model_and_pair", NEXT, sentence_pair_batch(8)),
    }


def measure(start: int, stop: int) -> dict[str, float]:
    """Return every result of every task on some of the rows, with its tables and measured baselines."""
    from small_models import redraw, small_model

    result: dict[str, float] = {}
    for name, (task, head, spec, batch) in cases().items():
        task.bind(spec)
        if stop > start:
            family = "decoder_only" if head == "language_model" else "encoder_only"
            model = redraw(small_model(family, head=head, num_classes=spec.num_classes).double())
            part = task.view(batch.chosen(torch.arange(start, stop)), seed=0, epoch=0)
            task.measure("test", model.eval(), part)
        figures = {**task.results("test"), **{f"baseline {k}": v for k, v in task.measured_baseline("test").items()}}
        for table in task.tables("test").values():
            for row in table.rows:
                cells = zip(table.columns[1:], map(float, row[1:]), strict=True)
                figures |= {f"{row[0]} {column}": cell for column, cell in cells}
        result |= {f"{name}: {figure}": value for figure, value in figures.items()}
    return result


def one_process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    results = [measure(*parts[rank]) for parts in ROUNDS]
    dist.destroy_process_group()
    torch.save(results, Path(folder) / f"{rank}.pt")


@pytest.mark.process
def test_results_of_two_processes_equal_those_of_one(tmp_path: Path) -> None:
    mp.spawn(one_process, args=(str(tmp_path),), nprocs=2)
    expected = measure(0, 8)
    assert {name.partition(":")[0] for name in expected} == set(cases())
    for rank in range(2):
        for results in torch.load(tmp_path / f"{rank}.pt"):
            assert results.keys() == expected.keys()
            assert all(abs(results[name] - expected[name]) < 1e-12 for name in expected)
