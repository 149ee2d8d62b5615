"""Progress bars on a terminal. Nothing is shown if standard error is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

Advance = Callable[[int], None]
"""Callback that receives the amount that is done so far, in the unit of the bar's `total`."""


class Bars:
    """Factory of progress bars on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)

    @property
    def is_shown(self) -> bool:
        """Whether standard error is a terminal."""
        return self._console.is_terminal

    @contextmanager
    def bar(self, title: str, total: int | None, *, counted: bool = False) -> Iterator[Advance]:
        """Show a progress bar while the block runs. Yields the function that moves the bar.

        `total` is the amount at which the work is complete, or `None` if that is unknown. With `counted`, the bar shows
        numbers instead of a percentage.
        """
        # In a run of one hour, a second is 0.03 %. With whole percents, the bar would seem to stop.
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
