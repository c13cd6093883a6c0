"""`h2h embed RUN ... PATH`: runs as retrievers of texts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import Parser, add_trust, parse, parser, several, within
from headtohead.cli.terminal import WIDTH_WHERE_UNKNOWN, note, out, show_table
from headtohead.cli.terminal import width as terminal_width
from headtohead.ranges import BatchSize, Count

if TYPE_CHECKING:
    from headtohead.examining.retrieval.choosing import Chosen
    from headtohead.examining.retrieval.collection import Collection, Reading
    from headtohead.examining.retrieval.ordering import Ranking

_EXAMPLES = """\
examples:
  h2h embed RUN notes/                                     an index of the folder's .txt and .md files, kept
  h2h embed RUN notes/ --query "how do birds sleep"        the ten nearest, with snippets
  h2h embed RUN bm25 notes/ --query "birds" --top 3        beside BM25
  h2h embed RUN notes/ --unit paragraph --query "birds"    paragraphs as documents
  h2h embed RUN corpus.jsonl --text-column title,text --queries queries.jsonl --relevant qrels.tsv
                                                           recall@k, MRR@k, nDCG@k, next to BM25
  h2h embed RUN RUN corpus.jsonl --queries Q --relevant R --rerank 100 --fuse --int8 dimension
                                                           several runs, and what is built on them
  h2h embed RUN corpus.jsonl --queries Q --relevant R --cross-encoder PAIRS --relevant-class next
  h2h embed --generate paraphrases small/                  a small set to try this on: corpus, queries, qrels

Vectors are a run's features, pooled over true tokens, of length 1. They are kept in the cache, by weights and texts.
--relevant has lines QUERY DOCUMENT [GRADE], or TREC's QUERY 0 DOCUMENT GRADE. Results go to RUN/evaluations, and to the
record, as retrieval/mrr@10 for h2h compare --metric; what is built on it as retrieval_int8, _reranked, _fused, _judged.

exit code: 0 done, 2 refused, 130 interrupted
"""


def run(arguments: Sequence[str]) -> int:
    given = parse(_parser(), arguments)
    if given.generate is not None:
        return _generate(given.generate, given.given)
    runs, path = _places(given)
    from headtohead.examining.retrieval.choosing import Chosen, Options
    from headtohead.examining.retrieval.collection import read_collection

    options = Options(
        pooling=given.pooling,
        batch_size=given.batch_size,
        int8=given.int8,
        rerank=given.rerank,
        fuse=given.fuse,
        cross_encoder=given.cross_encoder,
        relevant_class=given.relevant_class,
    )
    collection = read_collection(path, _reading(given))
    judged = _judged(given, collection)
    chosen = Chosen(runs, collection, options)
    if judged is not None:
        return _measure(given, chosen, judged, path)
    if given.query:
        return _search(given, chosen)
    return _index(given, chosen)


def _parser() -> Parser:
    taken = parser("embed", "Finished runs as retrievers: index, search, measure.", _EXAMPLES)
    taken.add_argument("given", nargs="*", metavar="RUN ... PATH", help="runs' folders (or bm25), and the texts last")
    add_trust(taken)
    texts = taken.add_argument_group("texts")
    texts.add_argument("--unit", metavar="UNIT", help="a document is a file, paragraph or line")
    texts.add_argument("--text-column", metavar="NAME,NAME", help="of a .csv, .tsv, .json or .jsonl file")
    texts.add_argument("--id-column", metavar="NAME", help="default: id or _id where there is one, else the row")
    texts.add_argument("--generate", metavar="KIND", help="write a small set to PATH: paraphrases or continuations")
    what = taken.add_argument_group("searching and measuring")
    what.add_argument("--query", action="append", default=[], metavar="TEXT", help="may be given several times")
    what.add_argument(
        "--top", type=within(Count), default=10, metavar="N", help="documents shown for a query; default 10"
    )
    what.add_argument("--queries", metavar="FILE", help="ID<TAB>TEXT lines, or columns of a .csv or .jsonl file")
    what.add_argument("--relevant", metavar="FILE", help="which documents are relevant to which query")
    what.add_argument(
        "--k", type=several(Count, "1,10,100"), default=(1, 10, 100), metavar="N,N", help="default 1,10,100"
    )
    what.add_argument("--against", metavar="NAME", help="the retriever that others are compared with; default bm25")
    how = taken.add_argument_group("retrievers")
    how.add_argument("--pooling", metavar="NAME", help="mean, cls or last; default: as the run's head does")
    how.add_argument("--int8", metavar="SCALES", help="vectors in 8 bits, with a scale for each vector or dimension")
    how.add_argument("--rerank", type=within(Count), metavar="N", help="BM25's first N in the order of the run")
    how.add_argument("--fuse", action="store_true", help="BM25 and the run, by reciprocal ranks")
    how.add_argument("--cross-encoder", metavar="RUN", help="a run over pairs reads the first N (100) with the query")
    how.add_argument("--relevant-class", metavar="NAME", help="the cross-encoder's class that means relevant")
    how.add_argument(
        "--batch-size", type=within(BatchSize), default=64, metavar="N", help="texts read at once; default 64"
    )
    taken.add_argument("--json", action="store_true", help="as JSON")
    taken.set_defaults(multirun=False)
    return taken


def _places(given: argparse.Namespace) -> tuple[list[str], str]:
    *runs, path = given.given or [""]
    if not runs:
        raise ConfigurationError("give a run's folder (or bm25) and, last, texts: h2h embed outputs/GROUP/RUN notes/")
    return runs, path


def _reading(given: argparse.Namespace) -> Reading:
    from headtohead.examining.retrieval.collection import Reading

    columns = tuple(name.strip() for name in (given.text_column or "").split(",") if name.strip())
    return Reading(unit=given.unit, text_columns=columns, id_column=given.id_column)


def _judged(given: argparse.Namespace, collection: Collection) -> Any:
    if (given.queries is None) != (given.relevant is None):
        missing = "--relevant" if given.relevant is None else "--queries"
        raise ConfigurationError(f"{missing} is missing: queries are measured by which documents are relevant to each")
    if given.queries is None:
        if given.against is not None:
            raise ConfigurationError(f"--against {given.against} is of a comparison: give --queries and --relevant")
        return None
    if given.query:
        raise ConfigurationError("--query searches and --queries measures: give one of the two")
    from headtohead.examining.retrieval.judgements import read_judged

    return read_judged(given.queries, given.relevant, collection)


def _measure(given: argparse.Namespace, chosen: Chosen, judged: Any, path: str) -> int:
    from headtohead.examining.retrieval.findings import as_data, leave
    from headtohead.examining.retrieval.measuring import compare
    from headtohead.examining.retrieval.view import show_comparison

    retrievers = chosen.measured
    found = compare(retrievers, chosen.collection, judged, cutoffs=given.k, against=given.against)
    files = {"texts": path, "queries_file": given.queries, "relevant_file": given.relevant}
    written = leave(found, retrievers, files)
    if given.json:
        out(json.dumps({**files, **as_data(found)}, indent=2, ensure_ascii=False))
    else:
        show_table(show_comparison(found))
    _tell_cut(chosen, given)
    for file in written:
        note(os.path.relpath(file))
    return 0


def _search(given: argparse.Namespace, chosen: Chosen) -> int:
    from headtohead.examining.retrieval.view import show_hits

    if blank := [query for query in given.query if not query.strip()]:
        raise ConfigurationError(f"--query {blank[0]!r} is empty: give some words")
    found = [(one, one.rank(given.query, given.top)) for one in chosen.asked]
    width = terminal_width(sys.stdout) or WIDTH_WHERE_UNKNOWN
    if given.json:
        hits = [
            {"query": query, "retriever": one.name, "found": _hits(rankings[number], chosen.collection)}
            for number, query in enumerate(given.query)
            for one, rankings in found
        ]
        out(json.dumps(hits, indent=2, ensure_ascii=False))
        return 0
    for number, query in enumerate(given.query):
        for one, rankings in found:
            show_table(show_hits(one.name, query, rankings[number], chosen.collection, width))
    _tell_cut(chosen, given)
    return 0


def _hits(ranking: Ranking, collection: Collection) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "document": collection.ids[number], "score": float(score), "text": collection.texts[number]}
        for rank, (number, score) in enumerate(zip(ranking.documents, ranking.scores, strict=True), 1)
    ]


def _index(given: argparse.Namespace, chosen: Chosen) -> int:
    from headtohead.examining.retrieval.retrievers import Dense
    from headtohead.examining.retrieval.view import show_indexes

    dense = [one for one in (*chosen.plain, *chosen.built) if isinstance(one, Dense)]
    if given.json:
        told = [
            {
                "run": one.name,
                "documents": len(one.index),
                "width": one.index.vectors.shape[1],
                "pooling": one.embedder.pooling,
                "index_bytes": one.index.num_bytes,
                "folder": str(one.index.kept.folder),
                "was_there": one.index.kept.was_there,
                "cut": one.index.kept.facts["num_cut"],
            }
            for one in dense
        ]
        out(json.dumps(told, indent=2, ensure_ascii=False))
    elif dense:
        show_table(show_indexes(dense))
    _tell_cut(chosen, given)
    note('search it with --query "...", measure it with --queries FILE --relevant FILE')
    return 0


def _tell_cut(chosen: Chosen, given: argparse.Namespace) -> None:
    unit = given.unit or ("file" if Path(given.given[-1]).is_dir() else "line")
    smaller = {"file": "paragraph", "paragraph": "line"}.get(unit)
    advice = f": --unit {smaller} makes shorter ones" if smaller else ""
    for one in chosen.plain:
        if cut := one.index.kept.facts["num_cut"]:
            longest = one.embedder.maker.max_length
            note(
                f"{one.name}: {cut} of {len(one.index)} documents have more than the {longest} tokens that the run "
                f"reads, and are cut{advice}"
            )


def _generate(kind: str, places: Sequence[str]) -> int:
    if len(places) != 1:
        raise ConfigurationError(f"--generate {kind} writes to one folder: h2h embed --generate {kind} FOLDER")
    from headtohead.data.generated.story_search import story_search

    folder = Path(places[0])
    found = story_search(kind)
    found.write(folder)
    note(f"{len(found.documents)} documents and {len(found.queries)} queries; measure a run with")
    out(f"h2h embed RUN {folder}/corpus.jsonl --queries {folder}/queries.jsonl --relevant {folder}/qrels.tsv")
    return 0
