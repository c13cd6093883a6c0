"""A figure of the report as Plotly's, which a notebook lets one read, with a drawing for where no script runs."""

from __future__ import annotations

from importlib import import_module

from plotly.graph_objects import Figure

from headtohead.api.drawn_figure import drawn

_LETTERS = 90
"""The most letters that name what a figure shows."""


class ReportedFigure(Figure):  # type: ignore[misc]
    """Plotly's figure; an exported notebook shows a drawing of the same numbers in its place."""

    def __repr__(self) -> str:
        """Name what is drawn, and how one sees it: Plotly would print every point."""
        names = [*dict.fromkeys(trace.name for trace in self.data if trace.name)]
        shown, left = ", ".join(names), 0
        while len(shown) > _LETTERS and left < len(names) - 1:
            left += 1
            shown = f"{', '.join(names[:-left])} and {left} more"
        return f"a figure of {shown[:_LETTERS]}: .show() opens it, .write_html(FILE) saves it"

    def _repr_mimebundle_(self, *arguments: object, **options: object) -> dict[str, object]:
        plain = self.to_plotly_json()
        picture = drawn(plain["data"], plain["layout"])._repr_svg_()
        return {**super()._repr_mimebundle_(*arguments, **options), "image/svg+xml": picture}

    def _ipython_display_(self) -> None:
        """Show itself in a notebook with the drawing, which Plotly would not send along; elsewhere as Plotly does."""
        shown = self._repr_mimebundle_()
        if len(shown) > 1:
            import_module("IPython.display").display(shown, raw=True)
        else:
            super()._ipython_display_()
