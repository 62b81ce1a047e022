"""The comparison as a drawing: an SVG written by hand, so that nothing needs to be installed for it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

_LEFT, _PANEL, _GAP, _ROW, _TOP = 130, 230, 40, 34, 60
_BLUE, _GREY, _INK = "#3b76af", "#b8c4d0", "#222"


@dataclass
class Bar:
    """A way to train, as it is drawn."""

    name: str
    seconds: float
    predicted_s: float
    megabytes: float
    accuracies: list[float]


def draw(bars: list[Bar]) -> str:
    """Three panels: the time of an epoch and what was predicted, bytes from the origin, the accuracy of each seed."""
    width, height = _LEFT + 3 * (_PANEL + _GAP), _TOP + _ROW * len(bars) + 40
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
        f" font-family='sans-serif' font-size='13' fill='{_INK}'>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
    ]
    parts += [_text(_LEFT - 10, _middle(row) + 4, bar.name, "end") for row, bar in enumerate(bars)]
    times = [(bar.seconds, f"{bar.seconds:.1f} s") for bar in bars]
    parts += _bars(0, "time of an epoch (line: predicted)", times, [bar.predicted_s for bar in bars])
    parts += _bars(1, "from the origin, an epoch", [(bar.megabytes, f"{bar.megabytes:.1f} MB") for bar in bars], [])
    parts += _dots(2, "validation accuracy, each seed", [bar.accuracies for bar in bars])
    return "\n".join([*parts, "</svg>", ""])


def _bars(panel: int, title: str, values: list[tuple[float, str]], marks: list[float]) -> list[str]:
    left = _LEFT + panel * (_PANEL + _GAP)
    # Room for the number behind the longest bar.
    scale = (_PANEL - 60) / max([value for value, _ in values] + marks + [1e-9])
    parts = [_text(left, _TOP - 20, title, "start", "bold")]
    for row, (value, label) in enumerate(values):
        y, length = _middle(row), value * scale
        parts.append(f"<rect x='{left}' y='{y - 9}' width='{length:.1f}' height='18' fill='{_BLUE}'/>")
        end = length
        if marks:
            at = left + marks[row] * scale
            end = max(end, marks[row] * scale)
            parts.append(
                f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{y - 13}' y2='{y + 13}' stroke='{_INK}' stroke-width='2'/>"
            )
        parts.append(_text(left + end + 6, y + 4, label, "start"))
    return parts


def _dots(panel: int, title: str, rows: list[list[float]]) -> list[str]:
    left = _LEFT + panel * (_PANEL + _GAP)
    known = [value for values in rows for value in values] or [0.0]
    low, high = max(0.0, min(known) - 0.02), min(1.0, max(known) + 0.02)
    parts = [_text(left, _TOP - 20, title, "start", "bold")]
    for row, values in enumerate(rows):
        y = _middle(row)
        parts.append(f"<line x1='{left}' x2='{left + _PANEL}' y1='{y}' y2='{y}' stroke='{_GREY}'/>")
        for value in values:
            at = left + (value - low) / max(high - low, 1e-9) * _PANEL
            parts.append(f"<circle cx='{at:.1f}' cy='{y}' r='5' fill='{_BLUE}' fill-opacity='0.6'/>")
    bottom = _TOP + _ROW * len(rows) + 14
    return [*parts, _text(left, bottom, f"{low:.0%}", "start"), _text(left + _PANEL, bottom, f"{high:.0%}", "end")]


def _middle(row: int) -> float:
    return _TOP + _ROW * row + _ROW / 2


def _text(x: float, y: float, text: str, anchor: str, weight: str = "normal") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-weight='{weight}'>{escape(text)}</text>"
