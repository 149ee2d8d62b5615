"""Outcome of a revert for one item: a video, a related item, or a playlist."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from shared.core.errors import ServiceError
from shared.history.revert_plan import SkippedField

Result = Literal["reverted", "unchanged", "skipped", "failed"]
RESULTS: tuple[Result, ...] = get_args(Result)


@dataclass(frozen=True)
class RevertResult:
    """Outcome of a revert for one item."""

    result: Result
    fields: tuple[str, ...] = ()
    """JSON Pointers of the reverted fields, or in a dry run of the fields that would be reverted."""
    skipped: tuple[SkippedField, ...] = ()
    """Fields that were not reverted, with the reasons."""
    problem: dict[str, Any] | None = None
    """Problem document (RFC 9457) of a failed revert."""

    @classmethod
    def of(cls, fields: Iterable[str], skipped: Iterable[SkippedField]) -> "RevertResult":
        """Return the outcome: `reverted` if there are reverted `fields`, else `skipped` if any were skipped, else
        `unchanged`.
        """
        reverted, not_reverted = tuple(fields), tuple(skipped)
        return cls("reverted" if reverted else "skipped" if not_reverted else "unchanged", reverted, not_reverted)

    @classmethod
    def failed(cls, error: ServiceError) -> "RevertResult":
        """Return the outcome `failed` for an item that cannot be reverted. `error` gives the reason."""
        return cls("failed", problem=error.problem())

    def document(self) -> dict[str, Any]:
        """Return the outcome in the form of API responses, without the attributes that identify the item."""
        shown: dict[str, Any] = {
            "result": self.result,
            "fields": list(self.fields),
            "skipped": [skipped.document() for skipped in self.skipped],
        }
        return shown | ({"problem": self.problem} if self.problem else {})
