"""Indexes, hits and comparisons for a terminal of 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparing.statistics.resampling import Resampled
from headtohead.comparing.table import memory, number
from headtohead.examining.retrieval.bm25 import words_of
from headtohead.examining.retrieval.collection import Collection
from headtohead.examining.retrieval.measuring import Comparison, Measured
from headtohead.examining.retrieval.ordering import Ranking
from headtohead.examining.retrieval.quality import MEASURES
from headtohead.examining.retrieval.retrievers import Dense
from headtohead.examining.retrieval.snippets import snippet
from headtohead.metrics import own_metric

_NARROWEST, _OTHERS = 20, 36
"""Columns that a snippet has at least, and what stands beside it."""


def show_indexes(dense: Sequence[Dense]) -> Table:
    """What was built, or found."""
    table = Table(header_style="bold")
    table.add_column("run", overflow="fold")
    for name in ("vectors", "numbers", "pooling", "index", "built in"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in dense:
        kept = one.index.kept
        seconds = "was there" if kept.was_there else f"{kept.facts['seconds']:.1f} s"
        size = [f"{extent:,}" for extent in one.index.vectors.shape]
        table.add_row(Text(one.name), *size, one.embedder.pooling, memory(one.index.num_bytes), seconds)
    return table


def show_hits(name: str, query: str, ranking: Ranking, collection: Collection, width: int) -> RenderableType:
    """The best documents of one query, the words that they share with it marked."""
    table = Table(title=Text(f"{name}: {query}"), title_justify="left", header_style="bold")
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("document", overflow="fold", max_width=_OTHERS - 16)
    table.add_column("text", overflow="fold")
    if not len(ranking):
        return Group(Text(f"{name}: {query}", style="italic"), Text("no document shares a word with it"))
    longest = max(len(collection.ids[document]) for document in ranking.documents)
    words = re.compile(rf"\b({'|'.join(map(re.escape, words_of(query))) or '(?!)'})\b", re.IGNORECASE)
    room = max(_NARROWEST, width - 21 - min(longest, _OTHERS - 16))
    for rank, (document, score) in enumerate(zip(ranking.documents, ranking.scores, strict=True), 1):
        told = Text(snippet(collection.texts[document], query, room))
        told.highlight_regex(words, "bold")
        table.add_row(str(rank), f"{score:.4f}", Text(collection.ids[document]), told)
    return table


def show_comparison(comparison: Comparison) -> Group:
    """A line for each retriever, then how far each is from the one they are compared with."""
    k = comparison.telling
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
    parts += [Text(told) for told in (*_of_8_bits(comparison), *comparison.remarks)]
    return Group(*parts)


def _title(column: str) -> str:
    metric = own_metric(column)
    assert metric is not None, "columns are metrics"
    return f"{metric.label}\n@{column.partition('@')[2]}"


def _differences(comparison: Comparison, others: Sequence[Measured]) -> Table:
    k = comparison.telling
    title = f"less {comparison.against}, with 95 % intervals (paired bootstrap over queries)"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("retriever", overflow="fold")
    columns = [f"{metric.name}@{k}" for metric in MEASURES]
    for column in columns:
        table.add_column(_title(column).replace("\n", ""), justify="right", no_wrap=True)
    for one in others:
        table.add_row(Text(one.name), *(_difference(one.differences[column]) for column in columns))
    return table


def _difference(found: Resampled) -> str:
    return f"{found.difference:+.3f}\n[{found.low:+.3f}, {found.high:+.3f}]"


def _of_8_bits(comparison: Comparison) -> Iterator[str]:
    """What rounding costs and spares."""
    k = max(comparison.cutoffs) if comparison.telling not in comparison.cutoffs else comparison.telling
    by_name = {one.name: one for one in comparison.retrievers}
    for one in comparison.retrievers:
        whole = by_name.get(one.name.removesuffix(" int8"))
        if one.stage == "retrieval_int8" and whole is not None:
            gained = one.means[f"recall@{k}"] - whole.means[f"recall@{k}"]
            yield (
                f"{one.name}: recall@{k} {gained:+.4f} by rounding, {memory(one.num_bytes)} instead of "
                f"{memory(whole.num_bytes)} ({one.num_bytes / whole.num_bytes:.0%})"
            )
