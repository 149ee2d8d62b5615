"""Tables and charts for the terminal, Markdown pages and SVG files."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A table: title, columns and rows of text. The first `words` columns contain text, and the others contain numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    """Number of leading columns with text. These columns are aligned left."""

    def markdown(self) -> str:
        """Return the table as Markdown, without its title."""
        alignments = ["---" if index < self.words else "---:" for index in range(len(self.columns))]
        lines = [self.columns, alignments, *self.rows]
        return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)

    def __rich__(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index < self.words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(cell.strip("`*") for cell in row))
        return table


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 790, 400, 60, 260, 50, 50
"""Dimensions of a chart in pixels. The right margin holds the labels of the lines."""
LONGEST_LABEL = 8
"""Maximum length of a centred label of the last column, in characters. Longer labels are aligned right."""
COLOURS = ("#b3261e", "#00658f", "#8a4b00", "#6b3fa0", "#1b6e3c", "#54606b", "#a0005a", "#3a3f9e")


@dataclass(frozen=True)
class Chart:
    """A line chart with a vertical scale from 0. Each line has one value for each column."""

    title: str
    columns: Sequence[str]
    unit: str
    """Label of the horizontal axis."""
    step: int
    """Distance between two marks of the vertical scale."""
    lines: Sequence[tuple[str, Sequence[float]]]
    """Lines of the chart, each as a pair of label and values."""

    def svg(self) -> str:
        """Return the chart as an SVG document."""
        most, last = max(value for _, line in self.lines for value in line), len(self.columns) - 1

        def x(column: int) -> float:
            return LEFT + (WIDTH - LEFT - RIGHT) / last * column

        def y(value: float) -> float:
            return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most

        def text(at: float, down: float, words: str, **style: str) -> str:
            attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
            return f'<text x="{at:.0f}" y="{down:.0f}"{attributes}>{escape(words)}</text>'

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            text(LEFT, 24, self.title, font_size="15"),
        ]
        for value in range(0, int(most) + 1, self.step):
            parts.append(f'<path d="M{LEFT} {y(value):.0f}H{x(last):.0f}" stroke="#ddd"/>')
            parts.append(text(LEFT - 8, y(value) + 4, str(value), text_anchor="end"))
        for column, label in enumerate(self.columns):
            # A long label must not extend into the labels of the lines, which are on the right.
            anchor = "end" if column == last and len(label) > LONGEST_LABEL else "middle"
            parts.append(text(x(column), HEIGHT - BOTTOM + 20, label, text_anchor=anchor))
        parts.append(text(x(last) / 2, HEIGHT - 10, self.unit, text_anchor="middle", fill="#555"))
        down = 0.0
        for colour, (label, values) in zip(COLOURS, self.lines, strict=False):
            points = " ".join(f"{x(column):.0f},{y(value):.0f}" for column, value in enumerate(values))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
            # Placed below the previous label if the lines are too close to each other.
            down = max(down + 16, y(values[-1]) + 4)
            parts.append(text(x(last) + 10, down, label, fill=colour))
        return "\n".join([*parts, "</svg>"]) + "\n"
