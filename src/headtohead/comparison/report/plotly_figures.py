"""Figures as the page's script reads them: numbers that JSON can hold, and texts that Plotly shows as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from headtohead.comparison.report.section_parts import ReportFigure

_DIGITS = 6
"""The digits of every number drawn: a screen shows four."""
_TEMPLATES = ("hovertemplate", "texttemplate", "hoverformat", "tickformat")
"""Plotly's own language; they hold no text of a user's."""
_LABELS, _LONGEST = ("name", "ticktext"), 34


def plain_figure(figure: ReportFigure) -> dict[str, Any]:
    """Controls with the figure's forms, by the names of pressed options."""
    return {
        "forms": [{"options": list(options), **_form(form)} for options, form in figure.forms.items()],
        "columns": {name: _plain(list(column), "") for name, column in figure.columns.items()},
    }


def _form(form: Any) -> dict[str, Any]:
    data = form if isinstance(form, Mapping) else form.to_plotly_json()
    layout = {name: value for name, value in data.get("layout", {}).items() if name != "template"}
    return {"data": _plain(data["data"], ""), "layout": _plain(layout, "")}


def _plain(value: Any, key: str) -> Any:
    """Plotly reads markup in texts: what is none of its templates is escaped, but for line breaks."""
    if isinstance(value, str):
        displayed = _short(value) if key in _LABELS else value
        return value if key in _TEMPLATES else escape(displayed, quote=False).replace("&lt;br&gt;", "<br>")
    if isinstance(value, Mapping):
        return {str(name): _plain(item, str(name)) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), key)
    if isinstance(value, Sequence):
        return [_plain(item, key) for item in value]
    if isinstance(value, float | np.floating):
        return _rounded(float(value))
    return value.item() if isinstance(value, np.generic) else value


def _short(text: str) -> str:
    """Line by line: a long name would leave a figure no room."""
    half = _LONGEST // 2 - 1
    lines = text.split("<br>")
    return "<br>".join(line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}" for line in lines)


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
