"""What the person at the terminal sees while a tool works: bars on a terminal, nothing in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]
"""Called with how much is done in all."""


class Bars:
    """Progress bars on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal to show them on."""
        return self._console.is_terminal

    @contextmanager
    def bar(self, title: str, total: int | None, *, counted: bool = False) -> Iterator[Advance]:
        """A bar for one piece of work; `total` None when nobody knows, `counted` to show numbers, not percent."""
        # Of an hour, a second is 0.03 %: with whole percents a bar seems to stand still.
        percent = TaskProgressColumn("[progress.percentage]{task.percentage:>6.2f}%")
        amount = MofNCompleteColumn() if counted else percent
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            amount,
            TimeRemainingColumn(),
            console=self._console,
            disable=not self.is_shown,
        ) as progress:
            task = progress.add_task(title, total=total)
            yield lambda done: progress.update(task, completed=done)
