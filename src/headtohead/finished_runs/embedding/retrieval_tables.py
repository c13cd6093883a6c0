"""Indexes, hits and comparisons for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.statistics.bootstrap import BootstrapInterval
from headtohead.comparison.tables.run_table import memory, number
from headtohead.durations import duration
from headtohead.finished_runs.embedding.collection import Collection
from headtohead.finished_runs.embedding.rankings import MEASURES, DocumentRanking
from headtohead.finished_runs.embedding.retriever_comparison import RetrieverComparison, RetrieverResult
from headtohead.finished_runs.embedding.retrievers import Dense, words_of
from headtohead.metrics import own_metric

_NARROWEST, _OTHERS = 20, 36
"""Columns that a snippet has at least, and what stands beside it."""


def show_indexes(dense: Sequence[Dense]) -> Table:
    """Show the indexes that were built or found."""
    table = Table(header_style="bold")
    table.add_column("run", overflow="fold")
    for name in ("vectors", "numbers", "pooling", "index", "built in"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in dense:
        stored = one.index.stored
        seconds = "was there" if stored.was_there else duration(stored.facts["seconds"])
        size = [f"{extent:,}" for extent in one.index.vectors.shape]
        table.add_row(Text(one.name), *size, one.embedder.pooling, memory(one.index.num_bytes), seconds)
    return table


def show_hits(name: str, query: str, ranking: DocumentRanking, collection: Collection, width: int) -> RenderableType:
    """Return the best documents of one query, the words that they share with it marked."""
    table = Table(title=Text(f"{name}: {query}"), title_justify="left", header_style="bold")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("document", overflow="fold", max_width=_OTHERS - 16)
    table.add_column("text", overflow="fold")
    if not len(ranking):
        return Group(Text(f"{name}: {query}", style="italic"), Text("no document has a word in common with it"))
    longest = max(len(collection.ids[document]) for document in ranking.documents)
    words = re.compile(rf"\b({'|'.join(map(re.escape, words_of(query))) or '(?!)'})\b", re.IGNORECASE)
    room = max(_NARROWEST, width - 21 - min(longest, _OTHERS - 16))
    for rank, (document, score) in enumerate(zip(ranking.documents, ranking.scores, strict=True), 1):
        excerpt = Text(snippet(collection.texts[document], query, room))
        excerpt.highlight_regex(words, "bold")
        table.add_row(str(rank), f"{score:.4f}", Text(collection.ids[document]), excerpt)
    return table


def show_comparison(comparison: RetrieverComparison) -> Group:
    """Return a line for each retriever, then how far each is from the one they are compared with."""
    k = comparison.decisive_cutoff
    columns = [*(f"recall@{cutoff}" for cutoff in comparison.cutoffs), f"mrr@{k}", f"ndcg@{k}"]
    title = f"{comparison.queries:,} queries, {comparison.documents:,} documents"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("retriever", overflow="fold")
    for column in columns:
        table.add_column(_title(column), justify="right")
    table.add_column("ms a\nquery", justify="right", no_wrap=True)
    table.add_column("index", justify="right")
    for one in comparison.retrievers:
        figures = [number(one.means[column]) for column in columns]
        table.add_row(Text(one.name), *figures, f"{one.milliseconds:.3g}", memory(one.num_bytes))
    table.add_row(Text("any order", style="dim"), *(number(comparison.chance[column]) for column in columns), "", "")
    parts: list[RenderableType] = [table]
    others = [one for one in comparison.retrievers if one.differences]
    if others:
        parts.append(_differences(comparison, others))
    parts += [Text(sentence) for sentence in comparison.remarks]
    return Group(*parts)


def _title(column: str) -> str:
    metric = own_metric(column)
    assert metric is not None, "columns are metrics"
    return f"{metric.label}\n@{column.partition('@')[2]}"


def _differences(comparison: RetrieverComparison, others: Sequence[RetrieverResult]) -> Table:
    k = comparison.decisive_cutoff
    title = f"less {comparison.against}, with 95 % intervals (paired bootstrap over queries)"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("retriever", overflow="fold")
    columns = [f"{metric.name}@{k}" for metric in MEASURES]
    for column in columns:
        table.add_column(_title(column).replace("\n", ""), justify="right", no_wrap=True)
    for one in others:
        table.add_row(Text(one.name), *(_difference(one.differences[column]) for column in columns))
    return table


def _difference(interval: BootstrapInterval) -> str:
    return f"{interval.difference:+.3f}\n[{interval.low:+.3f}, {interval.high:+.3f}]"


_WORD = re.compile(r"\w+")
_MORE = "…"


def snippet(text: str, query: str, width: int) -> str:
    """Return one line of at most `width` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= width:
        return line
    query_words = set(words_of(query))
    hits = [
        (match.start(), match.group().lower()) for match in _WORD.finditer(line) if match.group().lower() in query_words
    ]
    room = width - 2
    start = 0
    most = len({word for index, word in hits if index < room})
    for index, _ in hits:
        inside = len({word for other, word in hits if index <= other < index + room - room // 4})
        if inside > most:
            start, most = max(0, index - room // 4), inside
    return _cut(line, start, room)


def _cut(line: str, start: int, room: int) -> str:
    if start:
        blank = line.find(" ", start)
        start = blank + 1 if 0 <= blank < start + room // 4 else start
    end = start + room
    if end < len(line):
        blank = line.rfind(" ", start, end)
        end = blank if blank > start + room // 2 else end
    return f"{_MORE if start else ''}{line[start:end].strip()}{_MORE if end < len(line) else ''}"
