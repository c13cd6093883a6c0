"""`h2h embed RUN ... PATH`: runs as retrievers of texts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.cli.options import Parser, add_trust, check_runs, command_parser, parse, refuse_unread, several, within
from headtohead.cli.terminal import WIDTH_WHERE_UNKNOWN, note, out, show_table
from headtohead.cli.terminal import width as terminal_width
from headtohead.config.errors import ConfigurationError
from headtohead.files.user_paths import check_path
from headtohead.ranges import BatchSize, Count

if TYPE_CHECKING:
    from headtohead.finished_runs.embedding.retrievers import ChosenRetrievers

_EXAMPLES = """\
examples:
  h2h embed RUN notes/                                     index the folder's .txt and .md files
  h2h embed RUN notes/ --query "how do birds sleep"        the ten nearest texts, with snippets
  h2h embed RUN bm25 notes/ --query "birds" --top 3        next to BM25
  h2h embed RUN notes/ --unit paragraph --query "birds"    paragraphs as documents
  h2h embed RUN corpus.jsonl --text-column title,text --queries queries.jsonl --relevant qrels.tsv
                                                           recall@k, MRR@k, nDCG@k, next to BM25
  h2h embed RUN RUN corpus.jsonl --queries Q --relevant R --rerank 100
                                                           several runs, each also re-ranking BM25
  h2h embed --generate paraphrases small/                  a small set to try this on: corpus, queries, judgements

Vectors are a run's features, pooled over real tokens and normalised to length 1. They are cached by weights and texts.
--relevant has lines QUERY<TAB>DOCUMENT<TAB>GRADE; the grade may be left out. Results go to RUN/evaluations, and to the
record, as retrieval/mrr@10 for h2h compare --metric; those of --rerank as retrieval_reranked/mrr@10.

exit code: 0 done, 2 refused, 130 interrupted
"""

_READING = (
    "unit", "text_column", "id_column", "query", "top", "queries", "relevant", "k", "against", "pooling", "rerank",
    "batch_size", "json",
)  # fmt: skip
"""The options of a command that reads texts."""


def run(arguments: Sequence[str]) -> int:
    parser = _parser()
    command = parse(parser, arguments)
    if command.generate is not None:
        refuse_unread(parser, command, _READING, "--generate only writes a set")
        return _generate(command.generate, command.words)
    runs, path = _run_paths(command)
    _check_read(parser, command)
    check_runs([run for run in runs if run != "bm25"])
    for typed, option in ((path, ""), (command.queries, "--queries"), (command.relevant, "--relevant")):
        if typed is not None:
            check_path(typed, option)
    if _are_judged(command):
        return _measure(command, runs, path)
    return _search(command, runs, path) if command.query else _index(command, runs, path)


def _parser() -> Parser:
    parser = command_parser("embed", "Finished runs as retrievers: index, search, measure.", _EXAMPLES)
    parser.add_argument(
        "words", nargs="*", default=[], metavar="RUN ... PATH", help="runs' folders (or bm25), and the texts last"
    )
    add_trust(parser)
    texts = parser.add_argument_group("texts")
    texts.add_argument("--unit", metavar="UNIT", help="a document is a file, paragraph or line")
    texts.add_argument("--text-column", metavar="NAME,NAME", help="of a .csv, .tsv, .json or .jsonl file")
    texts.add_argument("--id-column", metavar="NAME", help="default: id or _id where there is one, else the row")
    texts.add_argument("--generate", metavar="KIND", help="write a small set to PATH: paraphrases or continuations")
    what = parser.add_argument_group("searching and measuring")
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
    how = parser.add_argument_group("retrievers")
    how.add_argument("--pooling", metavar="NAME", help="mean, cls or last; default: as the run's head does")
    how.add_argument("--rerank", type=within(Count), metavar="N", help="BM25's first N in the order of the run")
    how.add_argument(
        "--batch-size", type=within(BatchSize), default=64, metavar="N", help="texts read at once; default 64"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(multirun=False)
    return parser


def _run_paths(options: argparse.Namespace) -> tuple[list[str], str]:
    *runs, path = options.words or [""]
    if not runs:
        raise ConfigurationError("give a run's folder (or bm25) and, last, texts: h2h embed outputs/GROUP/RUN notes/")
    return runs, path


def _check_read(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse what no part of the command would read."""
    if not options.query:
        refuse_unread(parser, options, ["top"], "it is of a search, which --query TEXT asks for")
    if options.queries is None and options.relevant is None:
        refuse_unread(parser, options, ["k"], "it is of a measurement, which --queries and --relevant ask for")
        if not options.query:
            refuse_unread(parser, options, ["rerank"], "it is of rankings, which --query or --queries ask for")


def _shared(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of both functions."""
    names = ("unit", "id_column", "pooling", "batch_size", "rerank")
    return {**{name: getattr(options, name) for name in names}, "text_column": _columns(options)}


def _columns(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name.strip() for name in (options.text_column or "").split(",") if name.strip())


def _are_judged(options: argparse.Namespace) -> bool:
    """Return whether retrievers are to be measured; refuse what goes with neither that nor a search."""
    if (options.queries is None) != (options.relevant is None):
        missing = "--relevant" if options.relevant is None else "--queries"
        raise ConfigurationError(f"{missing} is missing: queries are measured by which documents are relevant to each")
    if options.queries is None:
        if options.against is not None:
            raise ConfigurationError(f"--against {options.against} is of a comparison: give --queries and --relevant")
        return False
    if options.query:
        raise ConfigurationError("--query searches and --queries measures: give one of the two")
    return True


def _measure(options: argparse.Namespace, runs: Sequence[str], path: str) -> int:
    from headtohead import api
    from headtohead.finished_runs.embedding.retrieval_tables import show_comparison
    from headtohead.finished_runs.embedding.retriever_comparison import comparison_data

    measured = api.measure_retrieval(
        runs,
        path,
        options.queries,
        relevant=options.relevant,
        k=options.k,
        against=options.against,
        **_shared(options),
    )
    if options.json:
        files = {"texts": path, "queries_file": options.queries, "relevant_file": options.relevant}
        out(json.dumps({**files, **comparison_data(measured.comparison)}, indent=2, ensure_ascii=False))
    else:
        show_table(show_comparison(measured.comparison))
    _report_truncation(measured.chosen, options)
    for file in measured.files:
        note(os.path.relpath(file))
    return 0


def _search(options: argparse.Namespace, runs: Sequence[str], path: str) -> int:
    from headtohead import api
    from headtohead.finished_runs.embedding.retrieval_tables import show_hits

    result = api.search(runs, path, options.query, top=options.top, **_shared(options))
    pairs = [(number, query, name) for number, query in enumerate(options.query) for name in result.rankings]
    if options.json:
        hits = [
            {"query": query, "retriever": name, "found": result.hits(number, name)} for number, query, name in pairs
        ]
        out(json.dumps(hits, indent=2, ensure_ascii=False))
        return 0
    width = terminal_width(sys.stdout) or WIDTH_WHERE_UNKNOWN
    for number, query, name in pairs:
        show_table(show_hits(name, query, result.rankings[name][number], result.chosen.collection, width))
    _report_truncation(result.chosen, options)
    return 0


def _index(options: argparse.Namespace, runs: Sequence[str], path: str) -> int:
    from headtohead.api.retrieval import check_retrievers, chosen_retrievers
    from headtohead.finished_runs.embedding.collection import ReadOptions, read_collection
    from headtohead.finished_runs.embedding.retrieval_tables import show_indexes
    from headtohead.finished_runs.embedding.retrievers import RetrieverOptions

    how = RetrieverOptions(options.pooling, options.batch_size)
    check_retrievers(runs, how)
    collection = read_collection(path, ReadOptions(options.unit, _columns(options), options.id_column))
    chosen = chosen_retrievers(runs, collection, how, ())
    dense = chosen.plain
    if options.json:
        sentences = [
            {
                "run": one.name,
                "documents": len(one.index),
                "width": one.index.vectors.shape[1],
                "pooling": one.embedder.pooling,
                "index_bytes": one.index.num_bytes,
                "folder": str(one.index.stored.folder),
                "was_there": one.index.stored.was_there,
                "cut": one.index.stored.facts["num_cut"],
            }
            for one in dense
        ]
        out(json.dumps(sentences, indent=2, ensure_ascii=False))
    elif dense:
        show_table(show_indexes(dense))
    _report_truncation(chosen, options)
    note('search it with --query "...", measure it with --queries FILE --relevant FILE')
    return 0


def _report_truncation(chosen: ChosenRetrievers, options: argparse.Namespace) -> None:
    unit = options.unit or ("file" if Path(options.words[-1]).is_dir() else "line")
    smaller = {"file": "paragraph", "paragraph": "line"}.get(unit)
    advice = f": --unit {smaller} makes shorter ones" if smaller else ""
    for one in chosen.plain:
        if cut := one.index.stored.facts["num_cut"]:
            longest = one.embedder.maker.max_length
            note(
                f"{one.name}: {cut} of {len(one.index)} documents have more than the {longest} tokens that the run "
                f"reads, and are cut{advice}"
            )


def _generate(kind: str, arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        raise ConfigurationError(f"--generate {kind} writes to one folder: h2h embed --generate {kind} FOLDER")
    from headtohead.data.generated.stories import story_search

    folder = Path(arguments[0])
    result = story_search(kind)
    result.write(folder)
    note(f"{len(result.documents)} documents and {len(result.queries)} queries; measure a run with")
    out(f"h2h embed RUN {folder}/corpus.jsonl --queries {folder}/queries.jsonl --relevant {folder}/qrels.tsv")
    return 0
