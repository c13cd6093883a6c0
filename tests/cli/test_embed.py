"""h2h embed as a user meets it: from files to an index, hits, a comparison, records; and what is refused."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.cli import main
from headtohead.comparison.comparability import NotComparable
from headtohead.data.generated.stories import story_search
from headtohead.finished_runs.embedding.collection import Collection
from headtohead.finished_runs.embedding.rankings import DocumentRanking
from headtohead.finished_runs.embedding.retrieval_tables import show_hits, snippet
from headtohead.finished_runs.loaded_run import LoadedRun
from headtohead.records.run_folder import load_run

PAIRS = ["data=pair_grammar", "data.relation=next", *ROWS]
SET = story_search("paraphrases", num_queries=20, per_story=2)


@pytest.fixture(scope="module")
def position(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over sentences, one over pairs, and a set to search."""
    folder = tmp_path_factory.mktemp("embed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        fresh_run(folder / "one", "model=encoder_only", "task=masked_lm", *PAIRS).data.prepare()
        fresh_run(folder / "two", "model=encoder_only", "task=classification", "model.pooling=cls", *PAIRS)
    SET.write(folder / "set")
    (folder / "notes").mkdir()
    (folder / "notes" / "birds.txt").write_text("anna bought a violin .\n\nbirds sleep .\n")
    (folder / "notes" / "boats.md").write_text("peter learned to sail in spring .\n")
    return folder


@pytest.fixture(autouse=True)
def inside(position: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(position / "cache"))
    monkeypatch.chdir(position)


def run_of(position: Path, name: str) -> LoadedRun:
    [folder] = [result.parent for result in (position / name).rglob("record.json")]
    return h2h.load_run(folder)


FILES = ["set/corpus.jsonl", "--queries", "set/queries.jsonl", "--relevant", "set/qrels.tsv"]


def measured(position: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict:
    runs = [str(run_of(position, name).folder) for name in ("one", "two")]
    assert main(["embed", *runs, *FILES, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def figures_of(order: list[list[int]]) -> dict[str, float]:
    """Recall, MRR and nDCG at 10, one query after another."""
    sums = {"recall@10": 0.0, "mrr@10": 0.0, "ndcg@10": 0.0}
    for ranked, relevant in zip(order, SET.relevant, strict=True):
        hits = [rank for rank, document in enumerate(ranked[:10]) if document in relevant]
        sums["recall@10"] += len(hits) / len(relevant)
        sums["mrr@10"] += 1 / (hits[0] + 1) if hits else 0
        gain = sum(1 / np.log2(rank + 2) for rank in hits)
        sums["ndcg@10"] += gain / sum(1 / np.log2(rank + 2) for rank in range(len(relevant)))
    return {name: total / len(order) for name, total in sums.items()}


@pytest.mark.slow
def test_from_files_to_figures_as_by_brute_force(position: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every retriever's figures follow from vectors and BM25 scores that are put in order here."""
    shown = measured(position, capsys, "--rerank", "15")
    rows = {row["name"]: row for row in shown["retrievers"]}
    by: dict[str, np.ndarray] = {}
    for name in ("one", "two"):
        run = run_of(position, name)
        by[run.record.id] = run.embed(SET.queries) @ run.embed(SET.documents).T
    lexical = [result["found"] for result in searched(capsys, "bm25", "set/corpus.jsonl", top=len(SET.documents))]
    words = [[int(hit["document"][1:]) for hit in hits] for hits in lexical]
    assert {name: rows["bm25"][name] for name in figures_of(words)} == pytest.approx(figures_of(words))
    for run, cosines in by.items():
        plain = [np.argsort(-row, kind="stable").tolist() for row in cosines]
        assert {name: rows[run][name] for name in figures_of(plain)} == pytest.approx(figures_of(plain))
        again = [
            sorted(ranked[:15], key=(-row).__getitem__) + ranked[15:]
            for ranked, row in zip(words, cosines, strict=True)
        ]
        message = rows[f"bm25 > {run}"]
        assert {name: message[name] for name in figures_of(again)} == pytest.approx(figures_of(again))
        assert rows[run]["index_bytes"] == len(SET.documents) * 16 * 4
        difference = rows[run]["differences"]["mrr@10"]
        assert difference["difference"] == pytest.approx(rows[run]["mrr@10"] - rows["bm25"]["mrr@10"])
        assert difference["low"] <= difference["difference"] <= difference["high"]
    assert all(row["milliseconds_per_query"] > 0 for row in rows.values()) and shown["against"] == "bm25"


def searched(capsys: pytest.CaptureFixture[str], *where: str, top: int = 3, query: str | None = None) -> list[dict]:
    queries = SET.queries if query is None else [query]
    listed = [part for text in queries for part in ("--query", text)]
    assert main(["embed", *where, *listed, "--top", str(top), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_results_are_left_beside_the_run_and_in_its_record_and_runs_compare_by_them(
    position: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = measured(position, capsys, "--rerank", "4", "--k", "5,10")
    runs = [run_of(position, name) for name in ("one", "two")]
    for run in runs:
        record = load_run(run.folder)
        [row] = [row for row in shown["retrievers"] if row["name"] == run.record.id]
        saved = json.loads((run.folder / record.links["retrieval"]).read_text())
        assert row in saved["retrievers"] and saved["run"] == run.record.id and saved["pooling"] in ("mean", "cls")
        assert record.metrics["retrieval"]["mrr@10"] == row["mrr@10"]
        assert record.metrics["retrieval_reranked"].keys() == {
            "recall@5",
            "mrr@5",
            "ndcg@5",
            "recall@10",
            "mrr@10",
            "ndcg@10",
        }
        assert record.baselines["recall@10"] == pytest.approx(10 / len(SET.documents))
    line = h2h.load_run(runs[0].folder).record
    assert line.metrics["test"] == {} and line.status == "finished"


def test_results_of_other_texts_are_not_compared(
    position: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = []
    for name, number in (("one", 10), ("two", 12)):
        result = run_of(position, name)
        story_search("continuations", num_queries=number, per_story=2).write(tmp_path / "other")
        files = [str(tmp_path / "other" / file) for file in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")]
        listed = ["embed", str(result.folder), files[0], "--queries", files[1], "--relevant", files[2]]
        assert main([*listed, "--k", "10"]) == 0
        record = load_run(result.folder)
        record.name = name
        records.append(record)
    capsys.readouterr()
    from headtohead.comparison.comparison import comparison_of
    from headtohead.comparison.contrasts import ComparisonSpec

    with pytest.raises(NotComparable, match=r"retrieval of one and of two was measured on other texts or queries"):
        comparison_of(records, ComparisonSpec("one", "retrieval/mrr@10"))
    records[1].links["retrieval"] = records[0].links["retrieval"]
    comparison = comparison_of(records, ComparisonSpec("one", "retrieval/mrr@10"))
    assert (comparison.stage, comparison.metric, comparison.direction) == ("retrieval", "mrr@10", "max")


def test_a_query_finds_what_numpy_finds_and_marks_its_words(position: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(position, "one")
    [result] = searched(capsys, str(run.folder), "notes", "--unit", "paragraph", query="anna played the violin")
    texts = ["anna bought a violin .", "birds sleep .", "peter learned to sail in spring ."]
    cosines = run.embed("anna played the violin")[0] @ run.embed(texts).T
    assert [hit["text"] for hit in result["found"]] == [texts[position] for position in np.argsort(-cosines)]
    assert [hit["score"] for hit in result["found"]] == pytest.approx(np.sort(cosines)[::-1], abs=1e-5)
    assert {hit["document"] for hit in result["found"]} == {"birds.txt:1", "birds.txt:3", "boats.md:1"}
    assert main(["embed", str(run.folder), "bm25", "notes", "--query", "violin", "--query", "whales"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("violin") >= 4 and "bm25: whales\nno document has a word in common with it" in shown


def test_an_index_is_built_then_found(position: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(run_of(position, "one").folder)
    (position / "fresh.txt").write_text("she sat\n" + "long " * 200)
    assert main(["embed", run, "fresh.txt", "--json"]) == 0
    first = capsys.readouterr()
    assert "1 of 2 documents" in first.err and "are cut" in first.err
    assert main(["embed", run, "fresh.txt", "--json"]) == 0
    [before], [after] = json.loads(first.out), json.loads(capsys.readouterr().out)
    assert (before.pop("was_there"), after.pop("was_there")) == (False, True) and before == after
    assert (before["documents"], before["width"], before["cut"]) == (2, 16, 1)
    assert main(["embed", run, "fresh.txt"]) == 0 and "was there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("texts", "advised"),
    [
        (["long"], "--unit paragraph makes shorter ones"),
        (["long", "--unit", "paragraph"], "--unit line makes shorter ones"),
        (["long", "--unit", "line"], None),
        (["long/a.txt"], None),
    ],
    ids=str,
)
def test_shorter_documents_are_advised_where_there_are_any(
    position: Path, capsys: pytest.CaptureFixture[str], texts: list[str], advised: str | None
) -> None:
    (position / "long").mkdir(exist_ok=True)
    (position / "long" / "a.txt").write_text("anna bought a violin . " * 40 + "\n\nbirds sleep .\n")
    assert main(["embed", str(run_of(position, "one").folder), *texts]) == 0
    [message] = [line for line in capsys.readouterr().err.splitlines() if "are cut" in line]
    assert message.partition("are cut")[2] == (f": {advised}" if advised else "")


def test_tables_fit_80_columns(position: Path) -> None:
    documents = Collection(("a/very/long/path/of/a/file.txt:1234", "b"), ("anna " * 60, "short"))
    table = show_hits("one", "anna", DocumentRanking(np.array([0, 1]), np.array([0.5, 0.25])), documents, 80)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80 and sum("anna" in line for line in lines) <= 3


def test_a_snippet_shows_where_the_words_of_the_query_are() -> None:
    text = "once upon a time " * 20 + "a falcon nests on the tower " + "and so they lived " * 20
    result = snippet(text, "falcon tower", 50)
    assert "falcon" in result and "tower" in result and len(result) <= 50 and result[0] == result[-1] == "…"
    assert snippet(text, "nothing", 30) == "once upon a time once upon…"
    assert snippet("short\n text", "x", 30) == "short text"


def test_a_set_to_try_this_on_is_written(position: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embed", "--generate", "continuations", "made"]) == 0
    assert "h2h embed RUN made/corpus.jsonl --queries made/queries.jsonl" in capsys.readouterr().out
    assert len((position / "made" / "queries.jsonl").read_text().splitlines()) == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give a run's folder (or bm25) and, last, texts"),
        (["notes"], "give a run's folder (or bm25) and, last, texts"),
        (["RUN", "nowhere"], "nowhere does not exist"),
        (["nowhere", "notes"], "holds no record.json"),
        (["RUN", "notes", "--queries", "set/queries.jsonl"], "--relevant is missing"),
        (["RUN", *FILES, "--query", "x"], "--query searches and --queries measures"),
        (["RUN", *FILES, "--k", "0,5"], "--k: 0 is refused: it must be at least 1"),
        (["RUN", *FILES, "--k", "five"], "not a list of whole numbers"),
        (["RUN", *FILES, "--against", "bm52"], "did you mean bm25?"),
        (["RUN", "notes", "--against", "bm25"], "--against bm25 is of a comparison"),
        (["RUN", "notes", "--query", " "], "is empty: give some words"),
        (["RUN", "notes", "--query", "x", "--top", "0"], "--top: 0 is refused: it must be at least 1"),
        (["RUN", "notes", "--rerank", "0"], "--rerank: 0 is refused: it must be at least 1"),
        (["RUN", "notes", "--query", "x", "--batch-size", "-1"], "must be at least 1"),
        (["RUN", "notes", "--pooling", "max"], "--pooling max is unknown"),
        (["RUN", "notes", "--unit", "page"], "--unit page is unknown"),
        (["--generate", "jokes", "made"], "--generate jokes is unknown"),
    ],
    ids=str,
)
def test_refusal_is_one_line(
    position: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    run = str(run_of(position, "one").folder)
    assert main(["embed", *(run if text == "RUN" else text for text in arguments)]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err and shown.err.count("\n") == 1 and shown.out == ""
