"""What became of one subject when a change set was taken back: a video, what lies beside it, or a playlist."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.core.errors import ServiceError
from shared.history.plan import Skipped

Result = Literal["reverted", "unchanged", "skipped", "failed"]
RESULTS: tuple[Result, ...] = get_args(Result)


@dataclass(frozen=True)
class Outcome:
    """What came back of one subject, what was left alone, and why it failed if it did."""

    result: Result
    fields: tuple[str, ...] = ()
    """JSON Pointers of what came back, or would in a dry run."""
    skipped: tuple[Skipped, ...] = ()
    problem: dict[str, Any] | None = None
    """The problem document (RFC 9457) of one that failed."""

    @classmethod
    def of(cls, fields: Iterable[str], skipped: Iterable[Skipped]) -> "Outcome":
        """`reverted` if anything came back, else `skipped` if anything was left alone, else `unchanged`."""
        back, left = tuple(fields), tuple(skipped)
        return cls("reverted" if back else "skipped" if left else "unchanged", back, left)

    @classmethod
    def failed(cls, error: ServiceError) -> "Outcome":
        """The outcome of a subject that cannot be taken back."""
        return cls("failed", problem=error.problem())

    def document(self) -> dict[str, Any]:
        """As clients see it, beside what names the subject."""
        shown: dict[str, Any] = {
            "result": self.result,
            "fields": list(self.fields),
            "skipped": [left.document() for left in self.skipped],
        }
        return shown | ({"problem": self.problem} if self.problem else {})
