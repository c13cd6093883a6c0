"""Notes the texts that a test reads as prepared, so that the quick tests can be held to few."""

from __future__ import annotations

from headtohead.data.cache.arrow_columns import Ragged
from headtohead.data.cache.cached_source import CachedSource
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.row_formats.text_source import TextSource

MOST_TEXTS = 4_000
"""The default data have 22,000, which are split, tokenised and compared in 5 to 10 seconds, where no test of the same
process has done it before."""
READ: dict[str, int] = {}
"""The number of texts of the largest split by the name of the source, since it was last cleared."""


def _noted(source: TextSource) -> PreparedContent:
    content = _content.__get__(source)
    columns = [column for table in content.tables.values() for column in table.values()]
    READ[source.name] = max((len(column) for column in columns if isinstance(column, Ragged)), default=0)
    return content


_content = CachedSource.__dict__["content"]
TextSource.content = property(_noted)  # type: ignore[assignment]
