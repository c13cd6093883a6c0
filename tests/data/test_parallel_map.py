"""Texts tokenized by several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from from_fields import from_fields
from headtohead.data.cache import parallel_map as module
from headtohead.data.cache.arrow_columns import Ragged, Table, ragged
from headtohead.data.cache.parallel_map import num_processes, parallel_map, pieces_of, progress_bar, short
from headtohead.data.data_source import DataError
from headtohead.data.generated.english_grammar import GrammarCorpus
from headtohead.data.row_formats import language_rows
from headtohead.data.tokenizers import tokenizer as tokenizer_module
from headtohead.data.tokenizers import tokenizer_training, train_tokenizer
from headtohead.data.tokenizers.tokenizer import cut
from waiting import PATIENCE

TEXTS = [f"{position} {'ü' * (position % 7)}x" * (1 + position % 3) for position in range(300)]


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", "2")
    monkeypatch.setattr(module, "_PIECE", 100)
    monkeypatch.setattr(module, "_WORTH_IT", 100)


@pytest.mark.parametrize("kind", ["bpe", "char"])
@pytest.mark.process
def test_two_processes_give_what_one_gives(two_processes: None, kind: str) -> None:
    tokenizer = train_tokenizer(kind, TEXTS[:50])  # type: ignore[arg-type]
    alone = language_rows.encoded(tokenizer, TEXTS)
    together = parallel_map(partial(language_rows.encoded, tokenizer), TEXTS, doing="tokenizing")
    assert alone.keys() == together.keys()
    for column in alone:
        one, other = ragged(alone, column), ragged(together, column)
        assert np.array_equal(one.values, other.values) and np.array_equal(one.offsets, other.offsets)
        assert one.values.dtype == other.values.dtype


@pytest.mark.parametrize("kind", ["bpe", "char"])
@pytest.mark.process
def test_a_single_long_text_is_shared_out_too(two_processes: None, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = train_tokenizer(kind, TEXTS[:50])  # type: ignore[arg-type]
    texts = ["\n".join(TEXTS[:60]), "", TEXTS[0] + "\u0416", "\n".join(TEXTS)]
    whole = list(map(len, texts))
    monkeypatch.setattr(language_rows, "cut", partial(cut, most=200))
    monkeypatch.setattr(tokenizer_module, "cut", partial(cut, most=200))
    alone = language_rows.encoded(tokenizer, texts)
    taken: list[int] = []

    def seen(work: module.Work, pieces: Any, *, doing: str, size_of: module.Size) -> Table:
        taken.extend(map(size_of, pieces))
        return parallel_map(work, pieces, doing=doing, size_of=size_of)

    monkeypatch.setattr(language_rows, "parallel_map", seen)
    together = language_rows.tokenized(tokenizer, texts, doing="tokenizing")
    assert max(taken) <= 200 < max(whole) and sum(taken) == sum(whole)
    for column in alone:
        one, other = ragged(alone, column), ragged(together, column)
        assert len(other) == len(texts) and np.array_equal(one.values, other.values)
        assert np.array_equal(one.offsets, other.offsets)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.process
def test_a_bar_tells_what_is_done_of_how_much_and_how_fast(
    two_processes: None, processes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", processes)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    parallel_map(of_this_process, TEXTS, doing="tokenizing train")
    size, written = sum(map(len, TEXTS)), terminal.getvalue()
    assert f"{short(size)}/{short(size)} characters" in written and written.count("\n") <= 2
    assert "tokenizing train" in written and "left" in written


def test_nothing_is_drawn_where_nobody_looks_or_another_bar_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", quiet := StringIO())
    with progress_bar("working", 10) as report:
        report(10)
    assert quiet.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_bar("outer", 10, then="ending") as report, progress_bar("inner", 10) as tell_inner:
        tell_inner(10)
        report(10)
    assert "outer: ending" in terminal.getvalue() and "inner" not in terminal.getvalue()


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_learning_a_tokenizer_draws_one_bar_of_ours(
    kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tokenizer_training, "_LONG", 100)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    train_tokenizer(kind, TEXTS, 300)  # type: ignore[arg-type]
    assert f"learning 300 tokens of a {kind} tokenizer: choosing" in terminal.getvalue()
    message = capfd.readouterr()
    assert message.out == message.err == "", "the library draws bars of its own past ours"


def of_this_process(texts: Sequence[str]) -> Table:
    return {"process": Ragged.of_lengths(np.full(len(texts), os.getpid()), np.ones(len(texts), dtype=int))}


def test_few_texts_are_not_worth_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", "2")
    assert set(ragged(parallel_map(of_this_process, TEXTS, doing=""), "process").values) == {os.getpid()}


@pytest.mark.process
def test_many_texts_are_shared_out_to_other_processes(two_processes: None) -> None:
    made_by = set(ragged(parallel_map(of_this_process, TEXTS, doing=""), "process").values.tolist())
    assert 1 <= len(made_by) <= 2 and os.getpid() not in made_by


def killed(texts: Sequence[str]) -> Table:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


@pytest.mark.process
def test_a_process_that_is_killed_is_reported_with_the_remedy(two_processes: None) -> None:
    with pytest.raises(DataError, match="was killed, often for want of memory: set HEADTOHEAD_PROCESSES to fewer"):
        parallel_map(killed, TEXTS, doing="")


def test_pieces_hold_every_text_once_in_order() -> None:
    pieces, sizes = zip(*pieces_of(TEXTS, 100), strict=True)
    assert [text for piece in pieces for text in piece] == TEXTS
    assert all(sum(map(len, piece[:-1])) < 100 for piece in pieces) and len(pieces) > 10
    assert list(sizes) == [sum(map(len, piece)) for piece in pieces]


@pytest.mark.parametrize("wrong", ["0", "many", "-1", ""])
def test_a_wrong_number_of_processes_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", wrong)
    with pytest.raises(DataError, match="is not a number of processes: give 1 or more, or unset it"):
        num_processes()


PARENT = """
import os, time
from headtohead.data.cache import parallel_map as module
module._PIECE = module._WORTH_IT = 100
def slow(texts):
    os.write(1, b"working\\n")  # in one piece, however many write
    time.sleep(3600)
if __name__ == "__main__":
    module.parallel_map(slow, ["x" * 60] * 100, doing="")
"""


@pytest.mark.process
def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", "2")
    (tmp_path / "parent.py").write_text(PARENT)
    command = [sys.executable, str(tmp_path / "parent.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None and parent.stdout.readline() == "working\n"
            children = psutil.Process(parent.pid).children(recursive=True)
            assert len(children) >= 2
        finally:
            parent.kill()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)
    assert not alive


@pytest.mark.process
def test_a_corpus_says_the_same_however_many_processes_read_it(
    two_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = partial(from_fields, GrammarCorpus, num_train=60, num_validation=20, num_test=20)
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "two"))
    two = corpus().spec().data_hash
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "one"))
    monkeypatch.setenv("HEADTOHEAD_PROCESSES", "1")
    assert corpus().spec().data_hash == two
