"""A stack's part of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headtohead.architectures.contracts import CostRow
from headtohead.components.contracts import CostQuery
from headtohead.components.stack import Stack


def stack_rows(stack: Stack, path: str, query: CostQuery) -> Iterator[CostRow]:
    """One row per component; a bidirectional stack decodes nothing and so carries no state."""
    for below, kind, costs in stack.cost_rows(query):
        yield CostRow(f"{path}.{below}", kind, costs if stack.causal else replace(costs, state_elements=0))
