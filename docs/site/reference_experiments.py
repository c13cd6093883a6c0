"""Write the page of ready-made runs: what each file of `conf/experiment` says of itself, and what it composes."""

from __future__ import annotations

from collections.abc import Iterator

from headtohead.config.compose.choices import Choice, choices
from page_parts import FACTS, cell
from reference_groups import EXPERIMENT
from study_headers import header_of, linked


def page() -> str:
    """Return the page."""
    return "\n".join([*_head(), *(line for choice in choices(EXPERIMENT) for line in _experiment(choice))])


def _head() -> Iterator[str]:
    yield "# Ready-made runs"
    yield ""
    yield "Each file of `conf/experiment` with its hypothesis, its cost and the outcome to expect. Any field can be"
    yield "changed on the command line. [Recipes](../recipes.md) walks through those of published size."
    yield ""


def _experiment(choice: Choice) -> Iterator[str]:
    header = header_of(choice.path)
    yield f"## {choice.name}"
    yield ""
    yield linked(header.title)
    yield ""
    if header.about:
        yield linked(header.about)
        yield ""
    yield from FACTS
    for label, said in header.labelled.items():
        yield f"| {label.lower()} | {cell(linked(' '.join(said)))} |"
    yield f"| command | `h2h train experiment={choice.name}` |"
    yield from (":::", "")
    lines = choice.path.read_text(encoding="utf-8").splitlines()
    yield "```yaml"
    yield from (line for line in lines if not line.startswith("#"))
    yield "```"
    yield ""
