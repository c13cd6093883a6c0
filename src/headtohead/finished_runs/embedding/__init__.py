"""Runs as retrievers: texts as vectors, searched by cosine, beside BM25, and measured by what they find."""
