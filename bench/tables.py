"""Tables, as a terminal and as a page shows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Grid:
    """A table: its title, its columns, and its rows of text. All but the first column are numbers, unless `words` says."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    """How many columns are text."""

    def markdown(self) -> str:
        """As a page shows it."""
        marks = ["---" if place < self.words else "---:" for place in range(len(self.columns))]
        lines = [self.columns, marks, *self.rows]
        return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)

    def __rich__(self) -> Table:
        """As a terminal shows it."""
        table = Table(title=self.title, title_justify="left")
        for place, column in enumerate(self.columns):
            table.add_column(column, justify="left" if place < self.words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*(cell.strip("`*") for cell in row))
        return table
